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
