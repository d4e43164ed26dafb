package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/infinirl/infinirl/batch"
)

// write writes files of a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func talk(id, more string) string {
	return fmt.Sprintf(`{"id":%q,%s"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}`+"\n", id, more)
}

const (
	answersWithImage = `{"id":"image","messages":[{"role":"user","content":"draw"},{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}` + "\n"
	asksWithImages   = `{"id":"shown","messages":[{"role":"user","content":[{"type":"text","text":"what is "},{"type":"image_url","image_url":{"url":"x"}},{"type":"image_url","image_url":{"url":"y"}}]},{"role":"assistant","content":"a cat"}]}` + "\n"
	unanswered       = `{"id":"unanswered","messages":[{"role":"user","content":"hi"}]}` + "\n"
)

// signalled tells of every write.
type signalled struct{ wrote chan string }

func (s signalled) Write(p []byte) (int, error) {
	s.wrote <- string(p)
	return len(p), nil
}

// A run is cut and printed before the next one is there.
func TestCondenseStreams(t *testing.T) {
	t.Parallel()
	in, feed := io.Pipe()
	out := signalled{wrote: make(chan string)}
	var errs bytes.Buffer
	done := make(chan int)
	go func() {
		done <- run(t.Context(), []string{"condense", "-", "--high", "400"}, streams{in, out, &errs})
	}()
	for _, id := range []string{"first", "second", "third"} {
		// The line after a run tells that it has ended.
		if _, err := io.WriteString(feed, talk(id, "")+"\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case text := <-out.wrote:
			if !strings.HasPrefix(text, id+" (openai-messages)") {
				t.Errorf("after run %s: %q", id, text)
			}
		case code := <-done:
			t.Fatalf("exit %d, %s", code, errs.String())
		}
	}
	feed.Close()
	if text := <-out.wrote; !strings.HasPrefix(text, "3 runs, ") {
		t.Errorf("in the end %q", text)
	}
	if code := <-done; code != 0 {
		t.Errorf("exit %d, %s", code, errs.String())
	}
}

// What was not taken as it was recorded is said, a line a kind; what is refused is
// passed over and counted.
func TestCondenseTells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, input string
		flags       string
		code        int
		want        []string
	}{
		{"images", asksWithImages + asksWithImages, "", 0, []string{"infinirl: 4 × images shown as [image]\n"}},
		{"refused", answersWithImage + talk("a", "") + answersWithImage, "", 0, []string{"infinirl: runs passed over: 2 of 3, the first: stdin:1: "}},
		{"all refused", answersWithImage + answersWithImage, "", 2, []string{"infinirl: no run is left: 2 were refused, the first: stdin:1: "}},
		{"no sampled token", unanswered + talk("a", ""), "", 0, []string{"infinirl: runs that hold no sampled token: 1; nothing of them is trained\n"}},
		{"bytes", talk("a", ""), "", 0, []string{"infinirl: tokens are bytes, several times as many as a model's: --tokenizer FILE takes its tokenizer.json\n"}},
		{"recorded ids", `{"message_log":[{"role":"user","content":"q","token_ids":[300]},{"role":"assistant","content":"a","token_ids":[301]}]}`, "", 0,
			[]string{"infinirl: runs whose recorded token ids are no bytes: 1; "}},
		{"no scores", talk("a", ""), "-o OUT", 0, []string{"infinirl: no run has a score, which advantages need: see --score FIELD and --scores FILE\n"}},
		{"some scores", talk("a", `"score":1,`) + talk("b", ""), "-o OUT", 0, []string{"infinirl: runs without a score: 1 of 2; their rows carry none\n"}},
		{"log", talk("a", ""), "--log OUT", 0, nil},
		{"summaries", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"` + strings.Repeat("a ", 100) + `"},{"role":"user","content":"r"},{"role":"assistant","content":"b"}]}`, "--rule summary --train-summary --reply 100 -o OUT", 0,
			[]string{"infinirl: summaries that nobody wrote: 1; the text that stands in for them is trained"}},
		{"kinds", `{"id":"a","messages":[{"role":"user","content":[{"type":"b\u001b[31mc","text":"t"}]},{"role":"assistant","content":"x"}]}` + "\n", "", 0, nil},
		{"control characters", talk("ESC", ""), "", 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			flags := strings.ReplaceAll(c.flags, "OUT", filepath.Join(t.TempDir(), "out.jsonl"))
			code, out, stderr := command(t, strings.ReplaceAll(c.input, "ESC", "a\\u001b[31mb\u009b"), append([]string{"condense", "-", "--high", "400"}, strings.Fields(flags)...)...)
			if code != c.code {
				t.Errorf("exit %d, %s", code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("got %q, want %q", stderr, want)
				}
			}
			if strings.ContainsAny(out+stderr, "\x1b\u009b") {
				t.Errorf("control characters are printed: %q, %q", out, stderr)
			}
			if flags != "" && (strings.Count(out, "\n") != 1 || !strings.Contains(out, " runs, ")) {
				t.Errorf("with an output, printed %q, want one line", out)
			}
		})
	}
}

// The column of log-probs is there if all runs have them; else it is left out, and
// said, in whatever order they come.
func TestCondenseLogProbs(t *testing.T) {
	t.Parallel()
	with := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes","token_ids":[121,101,115],"logprobs":[-0.5,-0.25,-1]}]}`+"\n", id)
	}
	without, empty := func(id string) string { return talk(id, "") }, strings.ReplaceAll(unanswered, "\n", "")+"\n"
	for _, c := range []struct {
		name, input string
		columns     bool
		said        string
	}{
		{"all", with("a") + with("b") + with("c"), true, ""},
		{"all that are sampled", empty + with("a") + strings.Replace(empty, "unanswered", "too", 1) + with("b"), true, ""},
		{"first", with("a") + with("b") + without("c"), false, "of all replies in 2 of 3 runs, of some in 2: the column rollout_log_probs is left out"},
		{"last", without("a") + with("b"), false, "of all replies in 1 of 2 runs, of some in 1"},
		{"none", without("a") + without("b"), false, ""},
	} {
		for _, form := range []string{".jsonl", ".safetensors"} {
			t.Run(c.name+form, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "out"+form)
				code, _, stderr := command(t, c.input, "condense", "-", "--high", "400", "-o", path)
				if code != 0 || strings.Contains(stderr, "log-probs") != (c.said != "") || !strings.Contains(stderr, c.said) {
					t.Fatalf("exit %d, %s", code, stderr)
				}
				b := readBatchFile(t, path)
				if (b.RolloutLogProbs != nil) != c.columns {
					t.Errorf("log-probs %v", b.RolloutLogProbs)
				}
				for _, i := range []int{0, len(b.Rows) - 1} {
					start, end := b.Span(i)
					if c.columns && len(b.LossMask[start:end]) > 0 && slices.Contains(b.LossMask[start:end], true) && !slices.Equal(b.RolloutLogProbs[end-3:end], []float32{-.5, -.25, -1}) {
						t.Errorf("row %d: log-probs %v", i, b.RolloutLogProbs[start:end])
					}
				}
			})
		}
	}
}

func readBatchFile(t *testing.T, path string) *batch.Batch {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b *batch.Batch
	if strings.HasSuffix(path, ".safetensors") {
		b, err = batch.ReadSafetensors(f)
	} else {
		b, err = batch.ReadJSONLines(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The two forms of -o are one batch.
func TestCondenseFormsAreOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines, columns := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.safetensors")
	input := longTalk(t) + "\n" + strings.Replace(longTalk(t), `"long"`, `"again"`, 1)
	for _, path := range []string{lines, columns} {
		if code, _, stderr := command(t, input, "condense", "-", "--high", "1500", "-o", path); code != 0 {
			t.Fatal(stderr)
		}
	}
	var texts [2]bytes.Buffer
	for i, path := range []string{lines, columns} {
		if err := readBatchFile(t, path).WriteJSONLines(&texts[i]); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0].String() != texts[1].String() || texts[0].Len() == 0 {
		t.Error("the safetensors file is another batch than the lines")
	}
	// Standard output has all rows, and the summary stands elsewhere.
	code, out, stderr := command(t, input, "condense", "-", "--high", "1500", "-o", "-")
	if written, err := os.ReadFile(lines); err != nil || code != 0 || out != string(written) || !strings.Contains(stderr, "2 runs, 6 segments") {
		t.Errorf("exit %d, %v, %s", code, err, stderr)
	}
	// An error in a later run leaves nothing.
	code, out, stderr = command(t, input+"\n{\"messages\":", "condense", "-", "--high", "1500", "-o", "-")
	if code != 2 || out != "" {
		t.Errorf("exit %d, %d bytes written, %s", code, len(out), stderr)
	}
}

// Folders hold files of all endings, compressed or not, and conversations of one file
// an event.
func TestCondenseFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, talk("zipped", `"task_id":"t",`))
	z.Close()
	write(t, dir, map[string]string{
		"a.jsonl":              talk("plain", `"task_id":"t",`),
		"b.json.gz":            zipped.String(),
		"notes.txt":            "no recording",
		"list.txt.gz":          "neither",
		"other.json":           `{"a":1}`,
		"c/event-00000-a.json": `{"kind":"MessageEvent","id":"1","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"hi"}]}}`,
		"c/event-00001-b.json": `{"kind":"MessageEvent","id":"2","source":"agent","llm_message":{"role":"assistant","content":[{"type":"text","text":"hello"}]}}`,
		"c/base_state.json":    `{"state":1}`,
	})
	code, out, stderr := command(t, "", "condense", dir, "--high", "400", "--json")
	if code != 0 || strings.Count(out, "\n") != 3 || !strings.Contains(out, `"form":"openhands-v1","messages":2`) || !strings.Contains(out, ":zipped") {
		t.Errorf("exit %d, %s%s", code, out, stderr)
	}
	for _, name := range []string{"other.json", "base_state.json"} {
		if !strings.Contains(stderr, "passed over: "+filepath.Join(dir, name)) && !strings.Contains(stderr, "passed over: "+filepath.Join(dir, "c", name)) {
			t.Errorf("not said to be passed over: %s in %s", name, stderr)
		}
	}
	// Without a flag a group is of one file; a field that is named makes one of all.
	segments := filepath.Join(t.TempDir(), "s.jsonl")
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, filepath.Join(dir, "a.jsonl") + ":t"},
		{[]string{"--group-by", "task_id"}, "t"},
	} {
		args := append([]string{"condense", filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.json.gz"), "--high", "400", "-o", segments}, c.flags...)
		if code, _, stderr := command(t, "", args...); code != 0 {
			t.Fatal(stderr)
		}
		if got := readBatchFile(t, segments).Rows[0].GroupID; got != c.want {
			t.Errorf("%v: group %q, want %q", c.flags, got, c.want)
		}
	}
	if code, _, stderr := command(t, "", "condense", filepath.Join(dir, "c"), "--high", "400", "--score", "x"); code != 2 || !strings.Contains(stderr, "want --scores") {
		t.Errorf("--score of a folder of events: exit %d, %s", code, stderr)
	}
}

// Whatever the numbers, tables fit a terminal.
func TestCondenseFits80Columns(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 99999: "99999", 100000: "100k", 123456: "123k", 999499: "999k", 999500: "1.00M", 12345678: "12.3M", 1 << 40: "1.10T"} {
		if got := short(n); got != want {
			t.Errorf("short(%d) = %s, want %s", n, got, want)
		}
	}
	var out bytes.Buffer
	big := &ruleReport{Rule: "discard-all", Runs: 123456789, Finished: 100000000, Segments: 1 << 40, Prefill: 1 << 50, Decode: 1 << 50, Reused: 1, Dropped: 1 << 50, TrainingTokens: 1 << 55}
	if err := printComparison(&out, []*ruleReport{big}); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"--rule summary --high 1500", "--rule tool-fifo --high 700", "--compare --high 1500", "--draw --high 1500", "--rule none --high 400"} {
		code, text, stderr := command(t, longTalk(t), append([]string{"condense", "-"}, strings.Fields(args)...)...)
		if code != 0 {
			t.Fatal(stderr)
		}
		out.WriteString(text)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, "(openai-messages): ") && !strings.HasPrefix(line, "  trajectory") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// A run that waits for more of its file can be interrupted.
func TestCondenseInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, out := filepath.Join(dir, "runs.jsonl"), filepath.Join(dir, "s.safetensors")
	if err := os.WriteFile(path, []byte(strings.Repeat(talk("a", ""), 2000)), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, []string{"condense", path, "--high", "400", "-o", out}, streams{strings.NewReader(""), &stdout, &stderr}); code != 1 || stderr.String() != "infinirl: interrupted\n" {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
