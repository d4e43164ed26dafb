//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// onTerminal runs a command line in a terminal of some columns and returns what that gets.
func onTerminal(t *testing.T, columns uint16, environment []string, c *exec.Cmd) string {
	t.Helper()
	c.Env = append(c.Env, "TERM=xterm", "NO_COLOR=", "COLUMNS=")
	c.Env = append(c.Env, environment...)
	master, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	defer master.Close()
	text, _ := io.ReadAll(master) // ends in an error when the command does
	c.Wait()
	return string(text)
}

var sequence = regexp.MustCompile(`\x1b\[[0-9]*[a-zA-Z]`)

// What a terminal shows fits it, and is coloured and redrawn only where that is wanted.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	const bold, redraw = "\x1b[1m", "\x1b[K"
	for _, test := range []struct {
		name             string
		columns          uint16
		environment      []string
		colours, redrawn bool
	}{
		{"wide", 200, nil, true, true},
		{"80", 80, nil, true, true},
		{"narrow", 30, nil, true, true},
		{"NO_COLOR", 80, []string{"NO_COLOR=1"}, false, true},
		{"dumb", 80, []string{"TERM=dumb"}, false, false},
	} {
		got := onTerminal(t, test.columns, test.environment, process(t, "eval", "--env", "keytodoor", "--count", "64"))
		if strings.Contains(got, bold) != test.colours || strings.Contains(got, redraw) != test.redrawn || !strings.Contains(got, "success") {
			t.Errorf("%s: colours %v, redrawn %v: want %v, %v: %q", test.name, strings.Contains(got, bold), strings.Contains(got, redraw), test.colours, test.redrawn, got)
		}
		for _, line := range strings.FieldsFunc(got, func(r rune) bool { return r == '\r' || r == '\n' }) {
			line = sequence.ReplaceAllString(line, "")
			most := 80 // that of a table
			if strings.Contains(line, "/64") {
				most = int(test.columns) - 1
			}
			if n := utf8.RuneCountInString(line); n > most {
				t.Errorf("%s: %d columns, want %d at most: %q", test.name, n, most, line)
			}
		}
	}
}

// Control characters of an input never reach the terminal: neither in errors nor in
// warnings nor in tables nor in what is written to it.
func TestControlCharactersOfInputsAreQuoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const id = `\u001b]0;owned\u0007\u001b[2J\u009b31m\r`
	row := `{"trajectory_id":"` + id + `","group_id":"` + id + `","inv_iter":0,"response_ids":[1,2],"loss_mask":[0,1],"values":[0,0],"rewards":[2,1],"error":"` + id + `","status":"finished"}` + "\n"
	good, twice := write("good.jsonl", row), write("twice.jsonl", row+row)
	run := write("run.json", `{"id":"`+id+`","messages":[{"role":"user","content":"`+id+`"},{"role":"assistant","content":"hello"}]}`)
	for _, args := range [][]string{
		{"batch", "show", good}, {"batch", "check", good}, {"advantage", twice}, {"advantage", good}, {"batch", "check", twice},
		{"condense", run, "--high", "4096"}, {"condense", run, "--high", "4096", "--draw"}, {"condense", run, "--high", "10", "--json"},
		{"batch", "show", filepath.Join(dir, "\x1b[2J.jsonl")}, {"train", "--set", "train.\x1b[2J=3"}, {"eval", "--env", "\x1b[2J"}, {"\x1b[2J"},
		{"train", "--config", write("\x1b[31mx.yaml", "tra\x1b[2Jin: 3\n")},
	} {
		got := onTerminal(t, 80, []string{"NO_COLOR=1"}, process(t, args...))
		text := strings.ReplaceAll(got, "\r\n", "\n")
		if at := strings.IndexAny(text, "\x1b\a\r\u009b"); at >= 0 {
			t.Errorf("%q: a control character at byte %d of %q", args, at, text)
		}
		if text == "" {
			t.Errorf("%q: nothing came out", args)
		}
	}
}

// A line end in a name cannot begin a message of its own.
func TestForgedMessagesAreIndented(t *testing.T) {
	t.Parallel()
	code, _, stderr := command(t, "", "batch", "check", "a\ninfinirl: all is well.jsonl")
	if code != 2 || strings.Contains(stderr, "\ninfinirl:") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
