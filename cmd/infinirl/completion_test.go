//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// completions are lines as far as somebody typed them, and what the last word can become;
// .jsonl stands for the file of that form in the folder.
var completions = []struct {
	line string
	want string
}{
	{"infinirl tr", "train"},
	{"infinirl batch ", "check convert show"},
	{"infinirl batch c", "check convert"},
	{"infinirl ablate --ov", "--over"},
	{"infinirl ablate --over ", "condense credit"},
	{"infinirl ablate --over=cr", "--over=credit"},
	{"infinirl train --env k", "keytodoor"},
	{"infinirl train --seed 3 --set train.ste", "train.steps="},
	{"infinirl train --set train.steps=3 --env=s", "--env=search"},
	{"infinirl advantage --estimator gr", "grpo"},
	{"infinirl advantage --compare gae,gr", "gae,grpo"},
	{"infinirl condense --compare=t", "--compare=true"},
	{"infinirl ablate --methods carry,verl", "carry,verl-v1"},
	{"infinirl train --learner t", "tinker"},
	{"infinirl train --tinker-profile skyrl-", "skyrl-fsdp skyrl-jax"},
	{"infinirl condense --rule tool-", "tool-clear tool-fifo"},
	{"infinirl train --config ru", "runs.jsonl"},
	{"infinirl train --config=ru", "--config=runs.jsonl"},
	{"infinirl condense ru", "runs.jsonl"},
	{"infinirl batch check runs.jsonl ru", "runs.jsonl"},
	{"infinirl advantage --lambda ", ""},
	{"infinirl train ru", ""},
	{"infinirl completion ", "bash fish zsh"},
}

// shellFolder is a folder with infinirl, a file to complete and the script of a shell,
// and an environment in which infinirl is called from there.
func shellFolder(t *testing.T, shell string) (dir string, environment []string) {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skipf("%s is not there", shell)
	}
	dir = t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "infinirl")); err != nil {
		t.Fatal(err)
	}
	code, script, stderr := command(t, "", "completion", shell)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for name, text := range map[string]string{"runs.jsonl": "{}", "script": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, append(os.Environ(), "INFINIRL_TEST_MAIN=1", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "TERM=xterm", "PS1=$ ", "ZDOTDIR="+dir)
}

func TestCompletionOfBash(t *testing.T) {
	t.Parallel()
	dir, environment := shellFolder(t, "bash")
	for _, test := range completions {
		// Words as bash breaks them: at blanks and around =.
		words := strings.Split(strings.ReplaceAll(test.line, "=", " = "), " ")
		c := exec.Command("bash", append([]string{"--norc", "-c", `source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _infinirl; printf '%s\n' "${COMPREPLY[@]}"`, "bash"}, words...)...)
		c.Dir, c.Env = dir, environment
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.Output()
		got := strings.Fields(string(out))
		slices.Sort(got)
		want := test.want
		if prefix, value, found := strings.Cut(want, "="); found && value != "" && strings.HasPrefix(prefix, "--") {
			want = value // bash completes what stands after =
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q (%v, %s)", test.line, got, want, err, stderr.String())
		}
	}
}

func TestCompletionOfFish(t *testing.T) {
	t.Parallel()
	dir, environment := shellFolder(t, "fish")
	for _, test := range completions {
		c := exec.Command("fish", "--no-config", "-c", "source script; complete -C $argv[1]", test.line)
		c.Dir, c.Env = dir, environment
		out, err := c.Output()
		var got []string
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%q: %q, want %q (%v)", test.line, got, test.want, err)
		}
	}
}

// The tabulator key completes a line in an interactive shell.
func TestCompletionByKey(t *testing.T) {
	t.Parallel()
	for _, shell := range []struct {
		name  string
		args  []string
		setUp string
	}{
		{"bash", []string{"--norc", "-i"}, "source ./script"},
		{"zsh", []string{"-f", "-i"}, "autoload -Uz compinit; compinit -u -D; source ./script"},
	} {
		t.Run(shell.name, func(t *testing.T) {
			t.Parallel()
			dir, environment := shellFolder(t, shell.name)
			c := exec.Command(shell.name, shell.args...)
			c.Dir, c.Env = dir, environment
			terminal, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 200})
			if err != nil {
				t.Skipf("needs a pseudo-terminal: %v", err)
			}
			defer c.Wait()
			defer c.Process.Kill()
			defer terminal.Close()
			time.AfterFunc(5*time.Minute, func() { terminal.Close() }) // rather an error than for ever
			seen := ""
			until := func(want string) {
				t.Helper()
				buffer := make([]byte, 4096)
				for !strings.Contains(seen, want) {
					n, err := terminal.Read(buffer)
					seen += sequence.ReplaceAllString(string(buffer[:n]), "")
					if err != nil {
						t.Fatalf("%q never came: %v: %q", want, err, seen)
					}
				}
				_, seen, _ = strings.Cut(seen, want)
			}
			io.WriteString(terminal, shell.setUp+"; echo ready=$((6 * 7))\n")
			until("ready=42")
			for _, test := range completions {
				if test.want == "" || strings.Contains(test.want, " ") {
					continue // nothing to see, or a list
				}
				start := test.line[:strings.LastIndex(test.line, " ")+1]
				io.WriteString(terminal, "\x15"+test.line+"\t")
				until(start + test.want)
			}
			io.WriteString(terminal, "\x15exit\n")
		})
	}
}
