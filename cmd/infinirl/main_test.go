package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stalled is an input of which nothing more comes: it tells that it is being read,
// and waits for the end of the test.
type stalled struct {
	start   *strings.Reader
	waiting context.CancelFunc
	over    <-chan struct{}
}

func (s stalled) Read(p []byte) (int, error) {
	if s.start.Len() > 0 {
		return s.start.Read(p)
	}
	s.waiting()
	<-s.over
	return 0, errors.New("read too late")
}

// TestInterrupt: a command that waits for its input ends when it is told to, and
// leaves no file behind.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, line := range []string{"advantage", "advantage --estimator grpo", "batch show", "batch check -", "batch convert -o " + filepath.Join(dir, "out.jsonl"), "condense - --high 50", "replay -"} {
		for _, start := range []string{"", strings.SplitAfter(golden, "\n")[0]} {
			ctx, cancel := context.WithCancel(t.Context())
			var out, errs bytes.Buffer
			code := run(ctx, strings.Fields(line), streams{stalled{strings.NewReader(start), cancel, t.Context().Done()}, &out, &errs})
			if code != 1 || errs.String() != "infinirl: interrupted\n" || out.Len() > 0 {
				t.Errorf("%s: exit %d, %q, output %q", line, code, errs.String(), out.String())
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// closed is an output that nobody reads any more, and tells what lay in a folder then.
type closed struct {
	dir  string
	left []os.DirEntry
}

func (c *closed) Write([]byte) (int, error) {
	left, err := os.ReadDir(c.dir)
	c.left = append(c.left, left...)
	return 0, errors.Join(err, errors.New("nobody reads"))
}

// TestTemporaryFilesHaveNoNames: a signal while the output is written, such as that
// of a pipe that nobody reads, can leave nothing behind.
func TestTemporaryFilesHaveNoNames(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, line := range []string{"advantage", "advantage --format safetensors", "batch convert --format packed"} {
		out := &closed{dir: dir}
		var errs bytes.Buffer
		code := run(t.Context(), strings.Fields(line), streams{strings.NewReader(golden), out, &errs})
		if code != 1 || errs.String() != "infinirl: nobody reads\n" || len(out.left) > 0 {
			t.Errorf("%s: exit %d, %q, in the folder of temporary files: %v", line, code, errs.String(), out.left)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"foo", 2, "unexpected argument foo (see infinirl --help)\n"},
		{"batch show --foo", 2, "(see infinirl batch show --help)\n"},
	} {
		if code, _, stderr := command(t, "", strings.Fields(c.line)...); code != c.code || !strings.HasSuffix(stderr, c.want) {
			t.Errorf("%s: exit %d, %q", c.line, code, stderr)
		}
	}
	if code, out, stderr := command(t, "", "--version"); code != 0 || !strings.HasPrefix(out, "infinirl ") || len(strings.Fields(out)) != 2 {
		t.Errorf("--version: exit %d, %q, %q", code, out, stderr)
	}
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, streams{strings.NewReader(""), &closed{dir: t.TempDir()}, &errs}); code != 1 || errs.String() != "infinirl: nobody reads\n" {
		t.Errorf("help that nobody reads: exit %d, %q", code, errs.String())
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	t.Parallel()
	_, _, stderr := command(t, "", "advantage", strings.Repeat("é", 1<<20)+".txt")
	if len(stderr) > 2000 || !strings.Contains(stderr, "é … é") || !strings.HasSuffix(stderr, ".jsonl or .safetensors\n") {
		t.Errorf("%d bytes: %.3000q", len(stderr), stderr)
	}
}
