package recorded

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

// TestOptions names the fields of group and score.
func TestOptions(t *testing.T) {
	t.Parallel()
	const text = `{"id": "a", "group_id": "g", "score": 1, "meta": {"task": 3, "outcome": {"f1": 0.5}}, "messages": [{"role": "assistant", "content": "a"}]}`
	for _, c := range []struct {
		options Options
		text    string
		want    string
	}{
		{Options{}, text, `"g" 1`},
		{Options{GroupBy: "meta.task"}, text, `"3" 1`},
		{Options{Score: "meta.outcome.f1"}, text, `"g" 0.5`},
		{Options{GroupBy: "meta.task", Score: "meta.outcome.f1"}, text, `"3" 0.5`},
		{Options{GroupBy: "meta.tusk"}, text, `f:1: field "meta.tusk", which is to name the group, is missing`},
		{Options{Score: "meta.outcome"}, text, `f:1: meta.outcome: {"f1": 0.5}, want a number`},
		{Options{GroupBy: "meta"}, text, `f:1: meta: an object names no group: want a string or a number`},
		{Options{Score: "f1"}, `[{"role": "assistant", "content": "a"}]`, `f:1: field "f1", which is to hold the score, is missing`},
		{Options{GroupBy: "a.b"}, `{"a.b": "dots", "messages": [{"role": "assistant", "content": "a"}]}`, `"dots" 0`},
		{Options{GroupBy: "q", Score: "s"}, `{"q": "x", "s": true, "prompt": "q", "completion": "a"}`, `"x" 1`},
		{Options{GroupBy: "q"}, `{"q": "x", "request": {"messages": [{"role": "assistant", "content": "a"}]}}`, `"x" 0`},
	} {
		r := Open("f", strings.NewReader(c.text))
		r.Options = c.options
		run, err := r.Next()
		got := fmt.Sprintf("%q %g", run.Group, run.Score)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %s, want %s", c.options, got, c.want)
		}
	}
}

// TestRefused goes on after a run that cannot be told in tokens, and after no other
// error.
func TestRefused(t *testing.T) {
	t.Parallel()
	const good = `{"messages": [{"role": "assistant", "content": "a"}]}` + "\n"
	const bad = `{"messages": [{"role": "assistant", "content": [{"type": "image"}]}]}` + "\n"
	r := Open("f", strings.NewReader(good+bad+good+"{\n"+good))
	var got []string
	for range 6 {
		_, err := r.Next()
		switch {
		case err == nil:
			got = append(got, "run")
		case errors.Is(err, ErrRefused):
			got = append(got, "refused")
		default:
			got = append(got, err.Error())
		}
	}
	cut := "f:4: the JSON text ends early: the file is cut off"
	if want := []string{"run", "refused", "run", cut, cut, cut}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEmpty says of files without a value that they hold no run, so that a folder may
// hold some.
func TestEmpty(t *testing.T) {
	t.Parallel()
	for _, text := range [][]byte{nil, []byte(" \n"), []byte("\ufeff"), zipped(t, nil), zstdCompressed(t, nil)} {
		if _, err := Read("f", bytes.NewReader(text)); !errors.Is(err, ErrNoRuns) || !strings.Contains(err.Error(), "f:1: the file is empty") {
			t.Errorf("%q: %v, want that the file is empty, which is ErrNoRuns", text, err)
		}
	}
}

// TestListed tells a list that holds no run from one that holds some, and something else.
func TestListed(t *testing.T) {
	t.Parallel()
	const run = `{"messages": [{"role": "assistant", "content": "a"}]}`
	for _, c := range []struct {
		text   string
		noRuns bool
	}{
		{`{"runs": [{"x": 1}]}`, true},
		{`[{"x": 1}, {"x": 2}]`, true},
		{`{"runs": [{"x": 1}, ` + run + `]}`, false},
		{`[{"x": 1}, ` + run + `]`, false},
	} {
		if _, err := Read("f", strings.NewReader(c.text)); err == nil || errors.Is(err, ErrNoRuns) != c.noRuns {
			t.Errorf("%s: %v, want an error that is ErrNoRuns: %t", c.text, err, c.noRuns)
		}
	}
}

// TestReaderMemory reads many runs while it holds one at a time, in every layout.
func TestReaderMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it reads 300 MB")
	}
	const runs = 1000
	run := `{"messages": [{"role": "user", "content": "` + strings.Repeat("word ", 20000) + `"}, {"role": "assistant", "content": "ok"}]}`
	repeat := func(first, between, last string) io.Reader {
		parts := []io.Reader{strings.NewReader(first)}
		for i := range runs {
			if i > 0 {
				parts = append(parts, strings.NewReader(between))
			}
			parts = append(parts, strings.NewReader(run))
		}
		return io.MultiReader(append(parts, strings.NewReader(last))...)
	}
	for name, in := range map[string]io.Reader{"lines": repeat("", "\n", "\n"), "array": repeat("[", ",\n", "]"), "on one line": repeat("[", ",", "]")} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := Open("f", in)
		n, peak := 0, uint64(0)
		for ; ; n++ {
			if _, err := r.Next(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if n%50 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&after)
				peak = max(peak, after.HeapAlloc-min(after.HeapAlloc, before.HeapAlloc))
			}
		}
		if n != runs || peak > 4<<20 {
			t.Errorf("%s: %d runs, %d KiB at most, want %d and less than 4 MiB", name, n, peak>>10, runs)
		}
	}
}

func zipped(t testing.TB, text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstdCompressed(t testing.TB, text []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(text, nil)
}

// ordered are the fields in which the order of keys is part of the text: arguments
// and results, schemas, and what stands as JSON where a form has no text.
var ordered = []string{"arguments", "args", "input", "parameters", "input_schema", "action", "operation", "output", "content", "response", "tool_calls", "conversations", "kwargs", "data", "history"}

// shuffled writes JSON with the keys of objects in another order, where order has no
// meaning.
func shuffled(v any, random *rand.Rand, keep bool) []byte {
	switch v := v.(type) {
	case field:
		var b bytes.Buffer
		b.WriteByte('{')
		keys := slices.Clone(v.keys)
		if !keep {
			random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		}
		for i, key := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoteKey(key) + ":")
			b.Write(shuffled(v.values[key], random, keep || slices.Contains(ordered, key)))
		}
		b.WriteByte('}')
		return b.Bytes()
	case []any:
		var b bytes.Buffer
		b.WriteByte('[')
		for i := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(shuffled(v[i], random, keep))
		}
		b.WriteByte(']')
		return b.Bytes()
	}
	return v.(json.RawMessage)
}

// field is an object that knows the order of its keys.
type field struct {
	keys   []string
	values map[string]any
}

func tree(t testing.TB, v value) any {
	switch v.kind() {
	case '{':
		o, err := v.object()
		if err != nil {
			t.Fatal(err)
		}
		f := field{values: make(map[string]any)}
		for i, key := range o.keys {
			if _, twice := f.values[key]; !twice {
				f.keys = append(f.keys, key)
			}
			f.values[key] = tree(t, o.fields[i])
		}
		return f
	case '[':
		items, err := v.array()
		if err != nil {
			t.Fatal(err)
		}
		list := make([]any, len(items))
		for i := range items {
			list[i] = tree(t, items[i])
		}
		return list
	}
	return json.RawMessage(v.raw())
}

// TestLayout saves every recording again in other layouts: the runs stay the same.
func TestLayout(t *testing.T) {
	t.Parallel()
	texts := make(map[string][]byte)
	for _, c := range cases {
		texts[c.name] = []byte(c.text)
	}
	files := fixtures(t)
	own := len(files)
	for _, pattern := range []string{"*.json", "*.jsonl", "*.traj"} {
		more, err := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	t.Run("recordings of others", func(t *testing.T) {
		if len(files) == own {
			t.Skip("no folder shared/data beside the project")
		}
	})
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file, bytes.NewReader(text)); errors.Is(err, ErrNoRuns) {
			continue // a corpus, which holds no runs
		}
		texts[file] = text
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			text := bytes.TrimPrefix(texts[name], []byte("\ufeff"))
			want, err := Read("f", bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			for layout, text := range layouts(t, text) {
				got, err := Read("f", bytes.NewReader(text))
				if err != nil {
					t.Errorf("%s: %v", layout, err)
					continue
				}
				if a, b := write(got), write(want); a != b {
					t.Errorf("%s:\n got %swant %s", layout, difference(a, b), difference(b, a))
				}
			}
		})
	}
}

// difference returns the first line of a that is not in b, cut short.
func difference(a, b string) string {
	lines := strings.SplitAfter(b, "\n")
	for i, line := range strings.SplitAfter(a, "\n") {
		if i >= len(lines) || lines[i] != line {
			return fmt.Sprintf("%.500s\n", line)
		}
	}
	return "\n"
}

// layouts returns other texts of the same values.
func layouts(t testing.TB, text []byte) map[string][]byte {
	var documents []json.RawMessage
	for d := decoder(text); ; {
		v, err := d.ReadValue()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, json.RawMessage(v.Clone()))
	}
	indent := func(v json.RawMessage) []byte {
		var b bytes.Buffer
		if err := json.Indent(&b, v, "", "  "); err != nil {
			t.Fatal(err)
		}
		return append(b.Bytes(), '\n')
	}
	compact := func(v json.RawMessage) []byte {
		var b bytes.Buffer
		if err := json.Compact(&b, v); err != nil {
			t.Fatal(err)
		}
		return append(b.Bytes(), '\n')
	}
	each := func(f func(json.RawMessage) []byte, items []json.RawMessage) []byte {
		var out []byte
		for _, v := range items {
			out = append(out, f(v)...)
		}
		return out
	}
	random := rand.New(rand.NewPCG(1, 2))
	shuffle := func(v json.RawMessage) []byte {
		f := newFile("f", v)
		parsed, err := parse(f, 0, len(v))
		if err != nil {
			t.Fatal(err)
		}
		d, err := open(parsed)
		if err != nil {
			t.Fatal(err)
		}
		holds := d.object.fields != nil && d.form() == nil // lists of runs, whose order counts
		return append(shuffled(tree(t, parsed), random, holds), '\n')
	}
	all := map[string][]byte{
		"compact":      each(compact, documents),
		"key-shuffled": each(shuffle, documents),
		"gzip":         zipped(t, text),
		"zstd":         zstdCompressed(t, text),
		"byte mark":    append([]byte("\ufeff"), text...),
		"escaped":      each(func(v json.RawMessage) []byte { return append(escaped(v), '\n') }, documents),
	}
	runsOnly := true // every document is some runs by itself
	for _, v := range documents {
		f := newFile("f", v)
		parsed, err := parse(f, 0, len(v))
		if err != nil {
			t.Fatal(err)
		}
		runsOnly = runsOnly && (&Reader{}).alone(parsed)
	}
	if runsOnly || len(documents) == 1 {
		all["indented"] = each(indent, documents)
	}
	if !runsOnly && len(documents) > 1 || runsOnly && documents[0][0] == '{' {
		all["array"] = append(append([]byte("["), bytes.Join(slices.Collect(func(yield func([]byte) bool) {
			for _, v := range documents {
				if !yield(v) {
					return
				}
			}
		}), []byte(",\n"))...), ']')
	}
	if len(documents) == 1 && documents[0][0] == '[' {
		var items []json.RawMessage
		if err := json.Unmarshal(documents[0], &items); err != nil {
			t.Fatal(err)
		}
		if len(items) > 0 && items[0][0] == '{' {
			all["JSON Lines"] = each(compact, items)
		}
	}
	return all
}

// escaped writes every character outside ASCII as \u, as Python does by default.
func escaped(v []byte) []byte {
	var out []byte
	for _, r := range string(v) {
		switch {
		case r < 0x80:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// numbered writes a text n times with numbers in it, up or down.
func numbered(format string, n int, down bool) string {
	texts := make([]string, n)
	for i := range texts {
		k := i
		if down {
			k = n - 1 - i
		}
		texts[i] = fmt.Sprintf(format, k)
	}
	return strings.Join(texts, ",")
}

// TestLargeShapes reads recordings of unusual shapes, each in time that grows with its
// length alone.
func TestLargeShapes(t *testing.T) {
	t.Parallel()
	const n = 20_000
	many := func(text string, n int) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }
	run := func(messages string) string { return `{"messages": [` + messages + `]}` }
	word := `{"role": "user", "content": "` + strings.Repeat("word ", n) + `"}`
	for _, c := range []struct{ name, text, want string }{
		{"text and thinking in turn", run(`{"role": "assistant", "content": [` + many(`{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}`, n) + `]}`), ""},
		{"text and images in turn", run(`{"role": "user", "content": [` + many(`"a", {"type": "image"}`, n) + `]}`), ""},
		{"messages that go on", `{"input": "q", "output": [` + many(`{"type": "message", "role": "assistant", "content": "a"}`, n) + `]}`, ""},
		{"calls in two places", run(`{"role": "assistant", "content": [` + many(`{"type": "tool_use", "name": "f"}`, n) + `], "tool_calls": [` + many(`{"name": "g"}`, n) + `]}`), ""},
		{"calls and results in turn", run(many(`{"role": "assistant", "tool_calls": [{"name": "f"}]}, {"role": "tool", "content": "r"}`, n)), ""},
		{"calls without results", run(many(`{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}]}`, n) + "," + many(`{"role": "tool", "tool_call_id": "1"}`, n)), ""},
		{"parallel calls, results in reverse order", run(`{"role": "assistant", "tool_calls": [` + numbered(`{"id": "%d", "name": "f"}`, n, false) + `]}, ` + numbered(`{"role": "tool", "tool_call_id": "%d"}`, n, true)), ""},
		{"parallel calls without ids", run(`{"role": "assistant", "tool_calls": [` + many(`{"name": "f"}`, n) + `]}, ` + many(`{"role": "tool"}`, n)), ""},
		{"equal calls in two places", run(`{"role": "assistant", "content": [` + many(`{"type": "tool_use", "name": "f"}`, n) + `], "tool_calls": [` + many(`{"name": "f"}`, n) + `]}`), ""},
		{"notes", run(`{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}]}, {"role": "tool", "tool_call_id": "1"}, ` + many(`{"role": "tool"}`, n)), ""},
		{"runs", "[" + many(run(`{"role": "assistant", "content": "a"}`), n) + "]", ""},
		{"runs in an object", `{"runs": [` + many(run(`{"role": "assistant", "content": "a"}`), n) + "]}", ""},
		{"messages a line", strings.Repeat(`{"role": "user", "content": "a"}`+"\n", n), ""},
		{"ids that repeat", strings.Repeat(`{"id": 1, "messages": []}`+"\n", n), ""},
		{"arrays around", strings.Repeat("[", 9000) + word + strings.Repeat("]", 9000), "nested in more than 32 objects and arrays"},
		{"objects around", strings.Repeat(`{"content": `, 9000) + word + strings.Repeat("}", 9000), "no known form"},
		{"parts within parts", run(`{"role": "user", "content": ` + strings.Repeat(`[{"type": "text", "text": `, 4000) + `"a"` + strings.Repeat("}]", 4000) + "}"), "nested in more than 32 objects and arrays"},
		{"deep arguments", run(`{"role": "assistant", "tool_calls": [{"name": "f", "arguments": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}]}`), ""},
	} {
		_, err := Read("f", strings.NewReader(c.text))
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) || len(got) > 4000 {
			t.Errorf("%s: %.4000s, want %q", c.name, got, c.want)
		}
	}
}

// FuzzReader checks that no input makes a Reader panic or hang, that its errors name
// the file, and that runs do not depend on how the input arrives or is compressed.
func FuzzReader(f *testing.F) {
	for _, c := range cases {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) || bytes.HasPrefix(text, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			return // compressed within compressed is not read
		}
		want, err := Read("f", bytes.NewReader(text))
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error without place: %v", err)
		}
		for name, in := range map[string]io.Reader{"byte by byte": iotest.OneByteReader(bytes.NewReader(text)), "gzip": bytes.NewReader(zipped(t, text))} {
			got, again := Read("f", in)
			if write(got) != write(want) || fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("%s: %v and %v\n%s\n%s", name, again, err, write(got), write(want))
			}
		}
	})
}

// fuzzForm hands everything that has a form to its reader, whether another form is
// detected before it or not.
func fuzzForm(f *testing.F, name string) {
	i := slices.IndexFunc(forms, func(form form) bool { return form.name == name })
	for _, c := range cases {
		if strings.Contains(c.want, name) {
			f.Add([]byte(c.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parse(newFile("f", text), 0, len(text))
		if err != nil {
			return
		}
		d, err := open(v)
		if err != nil {
			t.Fatal(err)
		}
		if !forms[i].match(d) {
			return
		}
		runs, err := d.read(&forms[i])
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error without place: %v", err)
		}
		for _, r := range runs {
			for _, m := range r.Messages {
				if m.LogProbs != nil && len(m.LogProbs) != len(m.sampledIDs()) {
					t.Errorf("%d log-probs for %d ids", len(m.LogProbs), len(m.IDs))
				}
				if len(m.ToolCalls) > 0 && m.Role != "assistant" {
					t.Errorf("a %s message with calls", m.Role)
				}
			}
		}
	})
}

func FuzzMessages(f *testing.F)   { fuzzForm(f, "openai-messages") }
func FuzzAnthropic(f *testing.F)  { fuzzForm(f, "anthropic-messages") }
func FuzzResponses(f *testing.F)  { fuzzForm(f, "openai-responses") }
func FuzzLangChain(f *testing.F)  { fuzzForm(f, "langchain") }
func FuzzShareGPT(f *testing.F)   { fuzzForm(f, "sharegpt") }
func FuzzRows(f *testing.F)       { fuzzForm(f, "prompt-completion") }
func FuzzMessageLog(f *testing.F) { fuzzForm(f, "message-log") }
func FuzzTrajectory(f *testing.F) { fuzzForm(f, "infinirl-trajectory") }
