package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/assembly"
)

// ownTemplate is a chat template of which no model is known. Bare results it refuses.
const ownTemplate = `{{- bos_token }}
{%- if tools %}{{ '<|im_start|>system:' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '<|im_end|>' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}
{%- if loop.first or (messages[loop.index0 - 1].role != 'tool' and not messages[loop.index0 - 1].tool_calls) %}{{ raise_exception('a result without its call') }}{%- endif %}
{{- '<|im_start|>tool:' ~ m.content ~ '<|im_end|>' }}
{%- else %}
{{- '<|im_start|>' ~ m.role ~ ':' ~ (m.content or '') }}
{%- for call in m.tool_calls or [] %}
{{- '\n<tool_call>\n' ~ {'name': call.function.name, 'arguments': call.function.arguments} | tojson ~ '\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}`

// modelFolder is a folder as those of Hugging Face models.
func modelFolder(t *testing.T) string {
	t.Helper()
	var tokenizer map[string]any
	text, err := os.ReadFile(filepath.Join("..", "..", "token", "bpe", "testdata", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &tokenizer); err != nil {
		t.Fatal(err)
	}
	added := tokenizer["added_tokens"].([]any)
	last := added[len(added)-1].(map[string]any)["id"].(float64)
	tokenizer["added_tokens"] = append(added, map[string]any{"id": last + 1, "content": "<|begin_of_text|>", "special": true})
	if text, err = json.Marshal(tokenizer); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"bos_token": map[string]any{"content": "<|begin_of_text|>"}, "chat_template": ownTemplate})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"tokenizer.json": string(text), "tokenizer_config.json": string(config), "bare.jinja": ownTemplate,
		"plain.jinja":                    strings.ReplaceAll(ownTemplate, "{{ raise_exception('a result without its call') }}", ""),
		"other/chat_template.jinja":      strings.NewReplacer("assistant:'", "assistant;'", "m.role ~ ':'", "m.role ~ ';'").Replace(ownTemplate),
		"dated.jinja":                    ownTemplate + `{{ strftime_now('%Y') if dated else '' }}`,
		"broken.jinja":                   "{% for %}",
		"silent/tokenizer_config.json":   "{}",
		"truncated.json":                 `{"chat_template"`,
		"constant.jinja":                 "always the same",
		"empty/nothing.txt":              "",
		"separate/chat_template.jinja":   ownTemplate,
		"separate/tokenizer_config.json": `{"bos_token":"<|begin_of_text|>"}`,
		"separate/tokenizer.json":        string(text),
	})
	return dir
}

// A chat template writes the messages, from wherever it is read.
func TestCondenseChatTemplate(t *testing.T) {
	t.Parallel()
	dir := modelFolder(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	tokenizer, err := assembly.Tokenizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	const talk = `{"messages":[{"role":"user","content":"find x"},{"role":"assistant","content":null,"tool_calls":[{"id":"call00000","function":{"name":"find","arguments":"{\"of\": \"x\"}"}}]},{"role":"tool","tool_call_id":"call00000","content":"here"},{"role":"assistant","content":"there it is"}]}`
	const want = "<|begin_of_text|><|im_start|>user:find x<|im_end|><|im_start|>assistant:\n<tool_call>\n{\"name\": \"find\", \"arguments\": {\"of\": \"x\"}}\n</tool_call><|im_end|><|im_start|>tool:here<|im_end|><|im_start|>assistant:there it is<|im_end|>"
	for _, flags := range [][]string{
		{"--tokenizer", dir, "--chat-template", "auto"},
		{"--tokenizer", at("tokenizer.json"), "--chat-template", "auto"},
		{"--tokenizer", dir, "--chat-template", dir},
		{"--tokenizer", dir, "--chat-template", at("tokenizer_config.json")},
		{"--tokenizer", dir, "--chat-template", at("bare.jinja"), "--call-format", "hermes"},
		{"--tokenizer", at("separate"), "--chat-template", "auto"},
		{"--tokenizer", dir, "--chat-template", at("plain.jinja"), "--mode", "result"},
		{"--tokenizer", dir, "--chat-template", at("dated.jinja"), "--template-variable", "date_string=today", "--template-variable", "dated=false"},
	} {
		out := filepath.Join(t.TempDir(), "s.jsonl")
		code, _, stderr := command(t, talk, append([]string{"condense", "-", "--high", "4096", "-o", out}, flags...)...)
		if code != 0 || strings.Contains(stderr, "tokens are bytes") {
			t.Errorf("%v: exit %d, %s", flags, code, stderr)
			continue
		}
		if got := tokenizer.Decode(readBatchFile(t, out).TokenIDs); got != want {
			t.Errorf("%v: got %q, want %q", flags, got, want)
		}
	}
	for _, c := range []struct {
		flags string
		want  string
	}{
		{"--chat-template auto", "--chat-template: a template needs the tokenizer of its model, not bytes: want its tokenizer.json"},
		{"--call-format hermes", `--call-format: "hermes", and the built-in template writes calls in its own: want a chat template too`},
		{"--template-variable a=b", "--template-variable: the built-in template has none"},
		{"--tokenizer DIR --chat-template DIR/bare.jinja --mode result", "--mode result: the chat template refuses results whose calls are not shown, want --mode pair: "},
		{"--tokenizer DIR --chat-template DIR/bare.jinja --call-format qwen", "qwen"},
		{"--tokenizer DIR --chat-template DIR/nowhere", "nowhere: no such file"},
		{"--tokenizer DIR --chat-template DIR/empty", "empty: neither chat_template.jinja nor tokenizer_config.json: want the path of the template itself"},
		{"--tokenizer DIR --chat-template DIR/silent", "tokenizer_config.json: it holds no chat_template"},
		{"--tokenizer DIR --chat-template DIR/truncated.json", "truncated.json: unexpected end of JSON"},
		{"--tokenizer DIR --chat-template DIR/broken.jinja", "broken.jinja: "},
		{"--tokenizer DIR --chat-template DIR/constant.jinja", "constant.jinja: huggingface: "},
		{"--tokenizer DIR --chat-template DIR/dated.jinja", "set the variable date_string"},
		{"--tokenizer DIR/other", "tokenizer.json: no such file"},
	} {
		code, _, stderr := command(t, talk, append([]string{"condense", "-", "--high", "4096"}, strings.Fields(strings.ReplaceAll(c.flags, "DIR", dir))...)...)
		if code != 2 || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", c.flags, code, stderr)
		}
	}
	// A log goes with the template that wrote it.
	log, again := filepath.Join(t.TempDir(), "log.jsonl"), filepath.Join(t.TempDir(), "again.jsonl")
	if code, _, stderr := command(t, talk, "condense", "-", "--high", "4096", "--tokenizer", dir, "--chat-template", "auto", "--log", log); code != 0 {
		t.Fatal(stderr)
	}
	for _, c := range []struct {
		template string
		code     int
	}{{"auto", 0}, {at("other"), 2}} {
		code, _, stderr := command(t, "", "condense", log, "--high", "4096", "--tokenizer", dir, "--chat-template", c.template, "--log", again)
		if code != c.code || (code != 0) != strings.Contains(stderr, "want the --tokenizer and --chat-template that wrote the log") {
			t.Errorf("%s: exit %d, %s", c.template, code, stderr)
		}
	}
}

// Scores by id, and fields that name group and score.
func TestCondenseScores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"runs.jsonl":   talk("a", `"meta":{"task":"x","mark":0.5},"score":7,`) + talk("b", `"meta":{"task":"x","mark":true},`),
		"more.jsonl":   talk("b", `"meta":{"task":"x","mark":0},`),
		"s.jsonl":      `{"id":"a","score":0.25}` + "\n\n" + `{"id":"b","score":true}` + "\n",
		"s.csv":        "\ufeffscore,id,note\n0.25,a,\"x, y\"\n1,b,\n",
		"long.csv":     "id,score\nDIR/runs.jsonl:a,0.25\nDIR/runs.jsonl:b,1\nDIR/more.jsonl:b,-2\n",
		"some.jsonl":   `{"id":"a","score":0.25}` + "\n" + `{"id":"z\u001b","score":1}` + "\n" + `{"id":"zz","score":1}`,
		"none.csv":     "id,score\nq,1\n",
		"twice.csv":    "id,score\na,1\na,1\n",
		"nan.csv":      "id,score\na,NaN\n",
		"huge.jsonl":   `{"id":"a","score":1e999}`,
		"head.csv":     "a,1\n",
		"without.json": `{"id":"a"}`,
		"empty.csv":    "",
		"keys.jsonl":   `{"id":"a","score":1,"score":2}`,
		"nan.jsonl":    `{"id":"a","score":NaN}`,
		"inf.jsonl":    `{"id":"a","score":-Infinity}`,
		"half.jsonl":   `{"id":"a","score":`,
		"open.jsonl":   `{"id":"a","score":1`,
		"two.jsonl":    `{"id":"a","score":1}{"id":"b","score":1}`,
		"list.jsonl":   `{"id":["a"],"score":1}`,
		"array.json":   `[{"id":"a","score":1}]`,
		"columns.csv":  "id,score,score\na,1,2\n",
		"ids.csv":      "id,score,id\na,1,b\n",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	text, err := os.ReadFile(at("long.csv"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"long.csv": strings.ReplaceAll(string(text), "DIR", dir)})
	for _, c := range []struct {
		name   string
		args   string
		code   int
		scores []float64
		said   string
	}{
		{"lines", "runs.jsonl --scores s.jsonl", 0, []float64{0.25, 1}, ""},
		{"csv", "runs.jsonl --scores s.csv", 0, []float64{0.25, 1}, ""},
		{"long ids", "runs.jsonl more.jsonl --scores long.csv", 0, []float64{0.25, 1, -2}, ""},
		{"some", "runs.jsonl --scores some.jsonl", 0, []float64{0.25}, `some.jsonl: ids that match no run: 2, such as z\x1b` + "\n"},
		{"runs without", "runs.jsonl --scores some.jsonl", 0, []float64{0.25}, "some.jsonl: runs that it does not score: 1; their rows carry no score\n"},
		{"ambiguous", "runs.jsonl more.jsonl --scores s.csv", 2, nil, `more.jsonl:b: want both scored by these longer names`},
		{"none", "runs.jsonl --scores none.csv", 2, nil, "none.csv is that of a run"},
		{"twice", "runs.jsonl --scores twice.csv", 2, nil, `twice.csv:3: id "a" comes twice`},
		{"not finite", "runs.jsonl --scores nan.csv", 2, nil, `nan.csv:2: score "NaN" of "a": want a finite number`},
		{"too large", "runs.jsonl --scores huge.jsonl", 2, nil, `huge.jsonl:1: score "1e999" of "a": want a finite number`},
		{"no header", "runs.jsonl --scores head.csv", 2, nil, `head.csv:1: the first line is "a,1": want JSON Lines`},
		{"no score", "runs.jsonl --scores without.json", 2, nil, `without.json:1: want {"id": ..., "score": ...}`},
		{"empty", "runs.jsonl --scores empty.csv", 2, nil, "empty.csv:1: the file is empty"},
		{"a key twice", "runs.jsonl --scores keys.jsonl", 2, nil, `keys.jsonl:1: field "score" comes twice`},
		{"NaN", "runs.jsonl --scores nan.jsonl", 2, nil, "nan.jsonl:1: NaN: want finite numbers\n"},
		{"infinity", "runs.jsonl --scores inf.jsonl", 2, nil, "inf.jsonl:1: -Infinity: want finite numbers\n"},
		{"half", "runs.jsonl --scores half.jsonl", 2, nil, "half.jsonl:1: the line ends within the object\n"},
		{"not closed", "runs.jsonl --scores open.jsonl", 2, nil, "open.jsonl:1: the line ends within the object\n"},
		{"two objects", "runs.jsonl --scores two.jsonl", 2, nil, "two.jsonl:1: more behind the object"},
		{"id is a list", "runs.jsonl --scores list.jsonl", 2, nil, `list.jsonl:1: want {"id": ..., "score": ...}`},
		{"array", "runs.jsonl --scores array.json", 2, nil, "array.json:1: a JSON array: want JSON Lines "},
		{"a column twice", "runs.jsonl --scores columns.csv", 2, nil, "columns.csv:1: a column comes twice"},
		{"ids twice", "runs.jsonl --scores ids.csv", 2, nil, "ids.csv:1: a column comes twice"},
		{"two ways", "runs.jsonl --scores s.csv --score meta.mark", 2, nil, "--score and --scores: want one of them"},
		{"field", "runs.jsonl --score meta.mark", 0, []float64{0.5, 1}, ""},
		{"no such field", "runs.jsonl --score meta.points", 2, nil, `runs.jsonl:1: field "meta.points", which is to hold the score, is missing`},
		{"group", "runs.jsonl more.jsonl --group-by meta.task", 0, nil, ""},
		{"extension", "runs.jsonl --score meta.mark -o DIR/x.txt", 2, nil, "x.txt: want a name that ends in .jsonl or .safetensors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "o.jsonl")
			args := []string{"condense", "--high", "400"}
			if !strings.Contains(c.args, "-o ") {
				args = append(args, "-o", out)
			}
			for _, arg := range strings.Fields(strings.ReplaceAll(c.args, "DIR", dir)) {
				if _, err := os.Stat(at(arg)); err == nil {
					arg = at(arg)
				}
				args = append(args, arg)
			}
			code, _, stderr := command(t, "", args...)
			if code != c.code || !strings.Contains(stderr, c.said) {
				t.Fatalf("exit %d, %s", code, stderr)
			}
			if c.code != 0 {
				if _, err := os.Stat(out); err == nil {
					t.Error("an error leaves a file")
				}
				return
			}
			var scores []float64
			groups := make(map[string]bool)
			for _, row := range readBatchFile(t, out).Rows {
				if row.HasScore {
					scores = append(scores, row.Score)
				}
				groups[row.GroupID] = true
			}
			if c.name == "group" && (len(groups) != 1 || !groups["x"]) {
				t.Errorf("groups %v", groups)
			}
			if c.scores != nil && len(scores) != len(c.scores) {
				t.Fatalf("scores %v, want %v", scores, c.scores)
			}
			for i := range c.scores {
				if scores[i] != c.scores[i] {
					t.Errorf("scores %v, want %v", scores, c.scores)
				}
			}
		})
	}
}

// Errors of replay say what to do next.
func TestReplaySaysWhatItWants(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"run/metrics.jsonl": "{}", "runs.jsonl": talk("a", ""), "x.jsonl.gz": "\x1f\x8b\x08rest",
		"rows.jsonl": `{"trajectory_id":"t","inv_iter":0,"prompt_ids":[1],"response_ids":[2],"loss_mask":[1],"condense":{"version":1,"rule":"none","rule_version":1,"messages":1,"keep":[[0,1]],"tokens_before":1,"tokens_after":1,"lengths":[1]}}` + "\n"})
	if code, _, stderr := command(t, "", "condense", filepath.Join(dir, "runs.jsonl"), "--high", "400", "--log", filepath.Join(dir, "log.jsonl")); code != 0 {
		t.Fatal(stderr)
	}
	for _, c := range []struct{ args, want string }{
		{"run", "of a run the saved rollouts are replayed; train with --set train.save_rollouts=true, or name files that condense -o or --log wrote"},
		{"runs.jsonl", "a recording, of which no prompts are known: cut it with infinirl condense "},
		{"x.jsonl.gz", "compressed by gzip: decompress it first"},
		{"rows.jsonl --log run", "is a directory: want the trajectories that condense --log wrote"},
		{"rows.jsonl --log x.jsonl.gz", "--log: "},
		{"rows.jsonl --log rows.jsonl", "--log: want the trajectories that condense --log wrote: "},
		{"rows.jsonl --log log.jsonl", "trajectory t is not in the log: want the one of --log that was written together with these rows, or no --log"},
	} {
		args := []string{"replay"}
		for _, arg := range strings.Fields(c.args) {
			if !strings.HasPrefix(arg, "-") {
				arg = filepath.Join(dir, arg)
			}
			args = append(args, arg)
		}
		if code, _, stderr := command(t, "", args...); code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, stderr)
		}
	}
}

// Recorded ids that a tokenizer does not have are those of another, wherever they stand.
func TestCondenseIDsOfAnotherTokenizer(t *testing.T) {
	t.Parallel()
	tokenizer := filepath.Join("..", "..", "token", "bpe", "testdata", "tokenizer.json")
	for _, recording := range []string{
		`{"message_log":[{"role":"user","content":"hi","token_ids":[5]},{"role":"assistant","content":"b","token_ids":[999999]}]}`,
		`{"message_log":[{"role":"user","content":"hi","token_ids":[999999]},{"role":"assistant","content":"b","token_ids":[5]}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"b","token_ids":[999999]}]}`,
	} {
		for _, flags := range [][]string{nil, {"--compare"}} {
			code, out, stderr := command(t, recording, append([]string{"condense", "-", "--high", "400", "--tokenizer", tokenizer}, flags...)...)
			if code != 2 || out != "" || !strings.Contains(stderr, "token id 999999, and the tokenizer has ") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s %v: status %d, %q, %q", recording, flags, code, out, stderr)
			}
		}
		if code, _, stderr := command(t, strings.ReplaceAll(recording, "999999", "6"), "condense", "-", "--high", "400", "--tokenizer", tokenizer); strings.Contains(stderr, "the tokenizer has") {
			t.Errorf("%s: status %d, %q", recording, code, stderr)
		}
	}
}
