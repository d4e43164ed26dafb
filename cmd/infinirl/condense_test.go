package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command runs one command line on an input.
func command(t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, streams{strings.NewReader(input), &out, &errs})
	return code, out.String(), errs.String()
}

const greeting = `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}`

func TestCondenseBadInput(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "s.jsonl")
	for _, c := range []struct {
		input string
		args  []string
		want  string
	}{
		{greeting, []string{"--high", "0"}, "high: 0"},
		{greeting, []string{"--high", "10", "--low", "11"}, "low: 11"},
		{greeting, []string{"--high", "10", "--rule", "best"}, `rule: "best"`},
		{greeting, []string{"--high", "10", "--keep-last=-1"}, "keep_last: -1"},
		{greeting, []string{"--high", "10", "--tokenizer", "nowhere"}, "--tokenizer"},
		{greeting[:40], []string{"--high", "10"}, "stdin:1: the JSON text ends early"},
		{"", []string{"--high", "10"}, "stdin:1: the file is empty"},
		{`{"a":1}`, []string{"--high", "10"}, "stdin:1: no known form"},
		{greeting + "\n\n" + `{"messages":[{"role":"king"}]}`, []string{"--high", "10"}, `stdin:3: messages[0].role: unknown role "king"`},
		{`{"messages":[{"role":"user","content":"q"},{"role":"tool","content":"r"}]}`, []string{"--high", "10"}, "stdin:1: messages[1]: a tool result that answers no call"},
	} {
		code, _, stderr := command(t, c.input, append([]string{"condense", "-", "-o", out}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, %q; want 2, %q", c.args, code, stderr, c.want)
		}
		if line := strings.TrimSuffix(stderr, "\n"); strings.Count(line, "\n") > 0 && !strings.Contains(line, "Usage") {
			t.Errorf("%v: error of several lines: %q", c.args, stderr)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an error left an output file behind")
	}
}

// TestCondenseOutput checks what the command prints for one run.
func TestCondenseOutput(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "long.json")
	if err := os.WriteFile(file, []byte(longTalk(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flags, want string }{
		{"", `long (openai-messages): 27 messages, 3628 tokens, 3 segments, finished, score 1
  inv_iter  kept  dropped  replaced  before  after  prompt  response  trainable
         2     2        0         0      81     81     103      1236        340
         1     4        8         0    1541    373     395       944        272
         0     4       16         0    1541    373     395       896        224
1 runs, 3 segments: 1 finished, 0 truncated, 0 context_overflow
`},
		{"--draw", `long: 27 messages, 3 segments, finished, score 1
  ┌─ segment 0 (inv_iter=2) ───────────────────────────────────────────────┐
  │  sys | user ‖ a₁ t₁ a₂ t₂ a₃ t₃ a₄ t₄ a₅ t₅                            │
`},
		{"--json", `,"status":"finished","segments":[{"inv_iter":2,"messages_kept":2,`},
		{"--compare", `         rule  finished  ended early  segments  processed  prefill  decode  reused  dropped  segments/Mtok  trained on
         none         0            1         1       1339      999     340   70.9%        0          648.9        1339
    tool-fifo         1            0         3       3179     2343     836   76.8%     2336          826.9        3969
`},
		{"--compare --json", `"rule":"summary","runs":1,"finished":1,`},
		{"-o -", `{"trajectory_id":"long","group_id":"long","inv_iter":2,"prompt_ids":[60,124,105,`},
	} {
		code, out, stderr := command(t, "", append([]string{"condense", file, "--high", "1500"}, strings.Fields(c.flags)...)...)
		if code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit %d, %s\n got %s\nwant %s", c.flags, code, stderr, out, c.want)
		}
	}
	// Of a folder, files without runs are passed over.
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "other.json"), []byte(`{"a":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := command(t, "", "condense", filepath.Dir(file), "--high", "1500")
	if code != 0 || !strings.Contains(out, "1 runs, 3 segments") || !strings.Contains(stderr, "passed over: ") {
		t.Errorf("folder: exit %d, %s%s", code, out, stderr)
	}
}
