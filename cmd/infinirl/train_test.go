package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the tests run this binary as infinirl itself.
func TestMain(m *testing.M) {
	if os.Getenv("INFINIRL_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is infinirl in a process of its own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary, args...)
	c.Env = append(os.Environ(), "INFINIRL_TEST_MAIN=1")
	return c
}

func smallRun(dir string) []string {
	return []string{"train", "--env", "keytodoor", "--run", dir, "--set", "rollout.groups=8", "--set", "train.steps=4",
		"--set", "train.minibatches=2", "--set", "eval.tasks=16"}
}

// timing are the fields of metrics and summary that two runs of one seed differ in.
var timing = []string{"timing", "wall_seconds", "peak_rss_bytes", "train_tokens_per_second", "rollout_tokens_per_second"}

// untimed reads a run's metrics and summary but for the timing.
func untimed(t *testing.T, dir string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, name := range []string{"metrics.jsonl", "summary.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for decoder := json.NewDecoder(strings.NewReader(string(text))); decoder.More(); {
			var object map[string]any
			if err := decoder.Decode(&object); err != nil {
				t.Fatal(err)
			}
			for _, name := range timing {
				delete(object, name)
			}
			all = append(all, object)
		}
	}
	return all
}

// A run that is killed with SIGKILL again and again, after every line that it
// prints, and resumed, ends at the metrics of a run that was left alone.
func TestKilledRunEndsAsAnUninterruptedOne(t *testing.T) {
	t.Parallel()
	whole, killed := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "killed")
	if out, err := process(t, smallRun(whole)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	kills := 0
	for lines := 1; ; lines++ {
		args := smallRun(killed)
		if lines > 1 {
			args = []string{"train", "--resume", "--run", killed}
		}
		c := process(t, args...)
		progress, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(progress)
		for i := 0; i < lines && scanner.Scan(); i++ {
		}
		c.Process.Kill()
		for scanner.Scan() {
		}
		if c.Wait() == nil {
			break
		}
		if kills++; kills > 30 {
			t.Fatal("the run never ends")
		}
	}
	if kills < 4 {
		t.Errorf("the run was killed %d times, want a few", kills)
	}
	// The last process may have ended before it was killed, or not at all.
	if out, err := process(t, "train", "--resume", "--run", killed).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if a, b := untimed(t, whole), untimed(t, killed); !reflect.DeepEqual(a, b) {
		t.Errorf("killed %d times, the run ended differently:\n%v\n%v", kills, a, b)
	}
}

func TestInterruptStopsAtOnceAndSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	c := process(t, "train", "--run", dir) // the default run takes minutes
	var out strings.Builder
	progress, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(progress)
	for scanner.Scan() && !strings.Contains(scanner.Text(), "success") {
	}
	interrupted := time.Now()
	c.Process.Signal(syscall.SIGINT)
	for scanner.Scan() {
		out.WriteString(scanner.Text() + "\n")
	}
	c.Wait()
	if took := time.Since(interrupted); took > 2*time.Second {
		t.Errorf("it took %v to stop, want 2 s at most", took)
	}
	if code := c.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
	if want := "infinirl train --resume --run " + dir; !strings.Contains(out.String(), want) {
		t.Errorf("it said\n%s\nwant %q in it", out.String(), want)
	}
}

// Bad input is one line on standard error, exit status 2, and no file.
func TestTrainBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base, err := os.ReadFile("../../bases/keytodoor.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	exists := filepath.Join(dir, "exists")
	if err := os.Mkdir(exists, 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join("exists", "thesis.txt"), "do not lose")
	run := filepath.Join(dir, "run")
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown key", []string{"--config", write("unknown.yaml", "train:\n  stepz: 3\n")}, []string{"unknown.yaml", "line 2", "stepz"}},
		{"not YAML", []string{"--config", write("broken.yaml", "train: [3\n")}, []string{"broken.yaml"}},
		{"missing file", []string{"--config", filepath.Join(dir, "missing.yaml")}, []string{"missing.yaml"}},
		{"unknown override", []string{"--set", "train.stepz=3"}, []string{"stepz"}},
		{"out of range", []string{"--set", "advantage.gamma=2"}, []string{"advantage: gamma: 2"}},
		{"window below system and task", []string{"--set", "condense.high=30", "--set", "condense.low=20"}, []string{"condense.high: 30", "system and task"}},
		{"window above the model's", []string{"--set", "condense.high=100000"}, []string{"condense.high: 100000", "2048 positions"}},
		{"unknown environment", []string{"--env", "chess"}, []string{"chess", "search", "keytodoor"}},
		{"directory exists", []string{"--run", exists}, []string{"exists", "--resume"}},
		{"nothing to resume", []string{"--resume", "--run", filepath.Join(dir, "nothing")}, []string{"nothing", "not a run directory"}},
		{"resume which", []string{"--resume"}, []string{"--run"}},
		{"resume with overrides", []string{"--resume", "--run", exists, "--set", "seed=3"}, []string{"--set"}},
		{"truncated checkpoint", []string{"--env", "keytodoor", "--base", write("cut.safetensors", string(base[:len(base)/2]))}, []string{"cut.safetensors"}},
		{"damaged checkpoint", []string{"--env", "keytodoor", "--base", write("bad.safetensors", string(base[:len(base)-9])+"xxxxxxxxx")}, []string{"bad.safetensors", "damaged"}},
		{"other vocabulary", []string{"--env", "search", "--base", write("other.safetensors", string(base))}, []string{"vocabulary"}},
	} {
		args := append([]string{"train"}, test.args...)
		if !strings.Contains(strings.Join(args, " "), "--run") && test.name != "resume which" {
			args = append(args, "--run", run)
		}
		code, out, stderr := command(t, "", args...)
		if code != 2 || out != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, output %q, error %q: want status 2 and one line", test.name, code, out, stderr)
		}
		for _, want := range test.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: error %q, want %q in it", test.name, stderr, want)
			}
		}
		if _, err := os.Stat(run); err == nil {
			t.Fatalf("%s: a run directory was left behind", test.name)
		}
	}
}

func TestEvalPretrainAblateBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ablation := filepath.Join(dir, "ablation")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"eval", "--count", "0"}, "eval.tasks: 0"},
		{[]string{"eval", "--count", "1000000000000"}, "eval.tasks"},
		{[]string{"eval", "--temperature", "nan"}, "--temperature"},
		{[]string{"eval", "--temperature", "1e-300"}, "--temperature"},
		{[]string{"eval", "--run", filepath.Join(dir, "nope")}, "not a run directory"},
		{[]string{"eval", "--model", "/dev/zero"}, "a device or a pipe"},
		{[]string{"eval", "--model", dir}, "base"},
		{[]string{"pretrain", "-o", filepath.Join(dir, "nope", "x")}, "nope"},
		{[]string{"pretrain", "-o", dir}, "directory"},
		{[]string{"pretrain", "-o", filepath.Join(dir, "x"), "--set", "pretrain.model.hidden_size=-1"}, "hidden_size"},
		{[]string{"pretrain", "-o", filepath.Join(dir, "x"), "--learner", "tinker", "--tinker-url", "http://x", "--set", "learner.tinker.model=m"}, "learner.engine: tinker"},
		{[]string{"ablate", "--seeds", "0"}, "--seeds"},
		{[]string{"ablate", "--over", "luck"}, "--over"},
		{[]string{"ablate", "--methods", "magic"}, "--methods magic: want some of carry, "},
		{[]string{"ablate", "--grid", "train.actor_lr"}, "--grid"},
		{[]string{"ablate", "--parallel", "0"}, "--parallel"},
		{[]string{"ablate", "--resume", "--run", ablation, "--methods", "carry"}, "leave out"},
		{[]string{"ablate", "--resume", "--run", ablation, "--seeds", "3"}, "leave out"},
		{[]string{"ablate", "--resume", "--run", ablation, "--threshold", "0.9"}, "leave out"},
		{[]string{"ablate", "--resume", "--run", ablation, "--over", "condense"}, "leave out"},
		{[]string{"ablate", "--seeds", "100000000000"}, "--seeds 100000000000: want 1 to 10000"},
		{[]string{"ablate", "--threshold", "NaN"}, "--threshold NaN: want a number"},
		{[]string{"ablate", "--threshold", "90"}, "--threshold 90: want more than 0 and at most 1"},
		{[]string{"ablate", "--methods", ""}, "--methods: the name is empty"},
		{[]string{"ablate", "--methods", "carry,carry"}, "--methods carry: it is there twice"},
		{[]string{"ablate", "--run", ablation, "--set", "base=/nope"}, "/nope"},
		{[]string{"ablate", "--run", ablation, "--set", "condense.high=20", "--set", "condense.low=20"}, "condense.high: 20"},
		{[]string{"ablate", "--run", ablation, "--set", "rollout.max_reply=3000", "--set", "condense.high=4000"}, "carry: condense.high: 4000"},
	} {
		code, out, stderr := command(t, "", test.args...)
		if code != 2 || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("infinirl %s: status %d, output %q, error %q: want status 2 and one line with %q", strings.Join(test.args, " "), code, out, stderr, test.want)
		}
		if _, err := os.Stat(ablation); err == nil {
			t.Fatalf("infinirl %s left its folder behind", strings.Join(test.args, " "))
		}
	}
}

// A full disk ends the run with one line; what was whole stays, and nothing else.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", disk).Run() })
	dir := filepath.Join(disk, "run")
	c := process(t, smallRun(dir)...)
	var out, stderr strings.Builder
	c.Stdout, c.Stderr = &out, &stderr
	c.Run()
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	last := lines[len(lines)-1]
	if code := c.ProcessState.ExitCode(); code != 1 || !strings.Contains(last, "no space left on device") || strings.Count(stderr.String(), "no space left") != 1 || strings.Contains(last, `\n`) || out.String() != "" {
		t.Errorf("status %d, output %q, last line %q: want status 1 and the reason", code, out.String(), last)
	}
	filepath.Walk(disk, func(path string, info os.FileInfo, err error) error {
		if err == nil && strings.HasPrefix(info.Name(), ".") {
			t.Errorf("%s was left half-written", path)
		}
		return nil
	})
}

func TestConfigEvalAndHelp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"config"}, "# everything follows from it"},
		{[]string{"config", "--env", "keytodoor", "--set", "train.steps=7"}, "steps: 7"},
		{[]string{"eval", "--env", "keytodoor", "--count", "8"}, "keytodoor"},
		{[]string{"eval", "--env", "keytodoor", "--count", "8", "--temperature", "0", "--json"}, `"tasks":8`},
		{[]string{"eval", "--env", "errands", "--count", "2"}, "right_keys"},
		{[]string{"train", "--help"}, "Example:"},
		{[]string{"pretrain", "--help"}, "Example:"},
		{[]string{"eval", "--help"}, "Example:"},
		{[]string{"ablate", "--help"}, "Example:"},
		{[]string{"config", "--help"}, "Example:"},
	} {
		code, out, stderr := command(t, "", test.args...)
		if code != 0 || !strings.Contains(out, test.want) {
			t.Errorf("infinirl %s: status %d, output %q, error %q: want %q", strings.Join(test.args, " "), code, out, stderr, test.want)
		}
	}
}

// The ablation trains every method and leaves what it promises.
func TestAblate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ablation")
	code, out, stderr := command(t, "", "ablate", "--env", "keytodoor", "--seeds", "2", "--run", dir, "--set", "rollout.groups=4",
		"--set", "train.steps=2", "--set", "train.minibatches=1", "--set", "eval.tasks=8", "--parallel", "2",
		"--methods", "carry,terminal,full-context", "--grid", "train.epochs=1 | train.epochs=2")
	if code != 0 {
		t.Fatalf("status %d: %s", code, stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ablation.json"))
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Env     string
		Success map[string][]float64
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"carry,epochs=1", "carry,epochs=2", "terminal,epochs=1", "full-context,epochs=2"} {
		if len(result.Success[method]) != 2 || !strings.Contains(out, method) {
			t.Errorf("%s: success %v, table\n%s", method, result.Success[method], out)
		}
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(line)) - 1; n > 80 && !strings.Contains(line, dir) {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "curves.svg")); err != nil || !strings.HasPrefix(string(svg), "<svg") {
		t.Errorf("curves.svg: %v, %.40q", err, svg)
	}
}

// With --json what comes out is the file that the directory has, on one line, and nothing
// else; progress is on standard error.
func TestJSONOfTrainAndAblate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small := []string{"--env", "keytodoor", "--json", "--set", "rollout.groups=8", "--set", "train.steps=1", "--set", "train.minibatches=1", "--set", "eval.tasks=4"}
	for _, test := range []struct{ command, file string }{{"train", "summary.json"}, {"ablate --seeds 1", "ablation.json"}} {
		name := strings.Fields(test.command)
		run := filepath.Join(dir, name[0])
		code, out, stderr := command(t, "", slices.Concat(name, []string{"--run", run}, small)...)
		if code != 0 {
			t.Fatalf("%s: exit %d, %s", test.command, code, stderr)
		}
		file, err := os.ReadFile(filepath.Join(run, test.file))
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := errors.Join(json.Unmarshal([]byte(out), &got), json.Unmarshal(file, &want)); err != nil {
			t.Fatalf("%s: %v: %q", test.command, err, out)
		}
		if !reflect.DeepEqual(got, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %s, want one line as %s", test.command, out, file)
		}
		if !strings.Contains(stderr, "base model: success") {
			t.Errorf("%s: no progress on standard error: %q", test.command, stderr)
		}
	}
}

// Pretraining twice gives the same bytes, and they train.
func TestPretrain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files [2][]byte
	for i, name := range []string{"a.safetensors", "b.safetensors"} {
		path := filepath.Join(dir, name)
		code, _, stderr := command(t, "", "pretrain", "--env", "keytodoor", "-o", path,
			"--set", "pretrain.stages=[{steps: 20, rows: 8, learning_rate: 0.003, drills: [1, 1], windows: {tool-fifo: 1, none: 1}}]")
		if code != 0 {
			t.Fatalf("status %d: %s", code, stderr)
		}
		var err error
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if string(files[0]) != string(files[1]) {
		t.Error("two runs of one seed wrote different bytes")
	}
	if code, _, stderr := command(t, "", "eval", "--env", "keytodoor", "--count", "4", "--model", filepath.Join(dir, "a.safetensors")); code != 0 {
		t.Errorf("the model cannot be evaluated: status %d: %s", code, stderr)
	}
}

// The examples of the help texts work as printed. That of pretrain, the longest, is
// run by hand: it makes one of the embedded models.
func TestExamplesOfTheHelpWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"config", "eval", "train", "ablate"} {
		_, help, _ := command(t, "", name, "--help")
		_, example, found := strings.Cut(help, "Example:\n\n")
		if !found {
			t.Fatalf("%s --help has no example", name)
		}
		args := strings.Fields(strings.SplitN(example, "\n", 2)[0])
		if len(args) < 2 || args[0] != "infinirl" || args[1] != name {
			t.Fatalf("%s --help: example %q", name, args)
		}
		c := process(t, args[1:]...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
