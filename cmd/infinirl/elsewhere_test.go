package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/bases"
	"github.com/infinirl/infinirl/learner/tinker/tinkertest"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/train"
)

// tinkerServer serves the base model of keytodoor under the name tiny.
func tinkerServer(t *testing.T, cfg tinkertest.Config) (address string) {
	t.Helper()
	data, err := bases.Read("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Base, err = lm.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	cfg.Name = "tiny"
	server := tinkertest.NewServer(cfg)
	network := httptest.NewServer(server)
	t.Cleanup(func() { network.Close(); server.Close() })
	return network.URL
}

// overTinker is a short run over a server.
func overTinker(address, dir string, more ...string) []string {
	return append([]string{"train", "--env", "keytodoor", "--learner", "tinker", "--tinker-url", address, "--model", "tiny", "--run", dir,
		"--set", "rollout.groups=4", "--set", "train.steps=2", "--set", "train.minibatches=1", "--set", "train.epochs=1", "--set", "eval.tasks=4", "--set", "rollout.max_turns=12",
		"--set", "learner.tinker.rank=0", "--set", "learner.tinker.critic_tokens=[red, blue]", "--set", "chat.template=words"}, more...)
}

// A run over a Tinker server starts, ends, goes on and is evaluated from the command line.
func TestTrainOverTinker(t *testing.T) {
	t.Setenv("TINKER_API_KEY", "secret-of-the-server")
	var models atomic.Int64
	address := tinkerServer(t, tinkertest.Config{Key: "secret-of-the-server", Fault: func(path string, _ int) (none tinkertest.Fault) {
		if path == "create_model" {
			models.Add(1)
		}
		return none
	}})
	dir := filepath.Join(t.TempDir(), "run")
	if code, _, stderr := command(t, "", overTinker(address, dir)...); code != 0 {
		t.Fatal(stderr)
	}
	metrics, err := train.ReadMetrics(dir)
	if err != nil || len(metrics) != 2 || metrics[1].CriticGradNorm <= 0 {
		t.Fatalf("metrics %+v, error %v: want two steps with a critic", metrics, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("the key is in config.yaml (error %v)", err)
	}
	if code, _, stderr := command(t, "", "train", "--resume", "--run", dir); code != 0 {
		t.Error(stderr)
	}
	models.Store(0)
	if code, stdout, stderr := command(t, "", "eval", "--run", dir, "--count", "4"); code != 0 || !strings.Contains(stdout, "keytodoor") {
		t.Error(stdout, stderr)
	}
	if n := models.Load(); n != 1 {
		t.Errorf("an evaluation makes %d models on the server, want the policy alone", n)
	}
	if code, stdout, stderr := command(t, "", "eval", "--env", "keytodoor", "--learner", "tinker", "--tinker-url", address, "--model", "tiny",
		"--set", "learner.tinker.rank=0", "--set", "chat.template=words", "--set", "advantage.estimator=grpo", "--count", "4"); code != 0 || !strings.Contains(stdout, "keytodoor") {
		t.Error(stdout, stderr)
	}
}

// What cannot work over a server is told in one line that says what to change.
func TestTinkerBadInput(t *testing.T) {
	address := tinkerServer(t, tinkertest.Config{Key: "right"})
	for _, test := range []struct {
		key  string
		args []string
		code int
		want string
	}{
		{"wrong", nil, 2, "TINKER_API_KEY"},
		{"right", []string{"--model", "Qwen/Qwen3-8B"}, 2, `base model "Qwen/Qwen3-8B": want one that the server has: tiny`},
		{"right", []string{"--tinker-profile", "vllm"}, 2, "learner.tinker.profile"},
		{"right", []string{"--tinker-profile", "skyrl-jax"}, 2, "train.max_grad_norm"},
		{"right", []string{"--set", "rollout.temperature=0.7"}, 2, "rollout.temperature"},
		{"right", []string{"--set", "ppo.entropy_coef=0.01"}, 2, "ppo.entropy_coef"},
		{"right", []string{"--set", "condense.high=100000"}, 2, "condense.high: 100000: tiny has 2048 positions"},
		{"right", []string{"--set", "learner.tinker.critic_tokens=[Y, N]"}, 2, "learner.tinker.critic_tokens"},
		{"right", []string{"--set", "learner.tinker.critic_tokens=[red]"}, 2, "learner.tinker.critic_tokens"},
		{"right", []string{"--tinker-url", "localhost:80"}, 2, "learner.tinker.url"},
		{"right", []string{"--tinker-url", address + "/api/v1"}, 2, "without its /api/v1"},
		{"right", []string{"--base", "x.safetensors"}, 2, "base: without effect"},
		{"right", []string{"--set", "chat.template=auto"}, 2, "chat.template=words for a model on the server"},
		{"right", []string{"--learner", "ray"}, 2, `learner.engine: "ray": want embedded or tinker`},
		{"right", []string{"--learner", "embedded"}, 2, "without effect: learner.engine is embedded"},
	} {
		t.Setenv("TINKER_API_KEY", test.key)
		dir := filepath.Join(t.TempDir(), "run")
		code, _, stderr := command(t, "", overTinker(address, dir, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "right\n") {
			t.Errorf("%v: exit %d, %q: want %d and one line with %q", test.args, code, stderr, test.code, test.want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v: a run directory is left", test.args)
		}
	}
}

// languageModel is a folder as those of Hugging Face models, with small random weights.
func languageModel(t *testing.T) string {
	t.Helper()
	dir := modelFolder(t)
	tokenizer, err := assembly.Tokenizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	model, err := lm.NewActor(lm.Config{VocabSize: tokenizer.Size() + 3, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 1, NumAttentionHeads: 2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Tasks of a user, played by a Python program, train a model in Hugging Face's form with
// no Go written; and so do questions over documents.
func TestTrainOnOwnTasks(t *testing.T) {
	t.Parallel()
	base, dir := languageModel(t), t.TempDir()
	write(t, dir, map[string]string{
		"documents.jsonl": `{"id":"1","title":"Ada","text":"Ada works at the mill."}` + "\n" + `{"id":"2","title":"Ben","text":"Ben works at the well."}` + "\n",
		"questions.jsonl": `{"id":"a","split":"train","question":"Where does Ada work?","answer":["the mill","mill"]}` + "\n" +
			`{"id":"b","split":"train","question":"Where does Ben work?","answer":"the well"}` + "\n" + `{"id":"c","split":"eval","question":"Who works at the well?","answer":"Ben"}` + "\n",
	})
	short := []string{"--base", base, "--set", "tasks.split=split", "--set", "chat.template=" + filepath.Join(base, "plain.jinja"), "--set", "condense.high=1500", "--set", "condense.low=700",
		"--set", "rollout.max_reply=16", "--set", "rollout.groups=2", "--set", "rollout.group_size=2", "--set", "rollout.max_turns=3", "--set", "train.steps=1", "--set", "eval.tasks=2"}
	for name, args := range map[string][]string{
		"environment": {"--tasks", "../../examples/exec/tasks.jsonl", "--env-command", "python3 numbers.py", "--set", "tasks.dir=../../examples/exec"},
		"adapter":     {"--tasks", filepath.Join(dir, "questions.jsonl"), "--set", "learner.lora.rank=4", "--set", "ppo.kl_coef=0.01", "--set", "train.old_log_probs=learner"},
		"reward":      {"--tasks", filepath.Join(dir, "questions.jsonl"), "--reward-command", `[python3, "grader.py"]`, "--set", "tasks.dir=../../examples/exec"},
		"corpus":      {"--tasks", filepath.Join(dir, "questions.jsonl"), "--corpus", filepath.Join(dir, "documents.jsonl"), "--set", "tasks.system=Answer with one word."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := filepath.Join(t.TempDir(), "run")
			code, stdout, stderr := command(t, "", append(append([]string{"train", "--json", "--run", run}, short...), args...)...)
			if code != 0 {
				t.Fatal(stderr)
			}
			var summary train.Summary
			if err := json.Unmarshal([]byte(stdout), &summary); err != nil || summary.Sampled.Failed != 0 || summary.Steps != 1 {
				t.Errorf("%s (error %v)", stdout, err)
			}
			if code, _, stderr := command(t, "", "eval", "--run", run, "--count", "1"); code != 0 {
				t.Error(stderr)
			}
			if code, _, stderr := command(t, "", "train", "--resume", "--run", run); code != 0 {
				t.Error(stderr)
			}
		})
	}
}

// What is wrong with tasks of a user is told before anything is played.
func TestOwnTasksBadInput(t *testing.T) {
	t.Parallel()
	base, dir := languageModel(t), t.TempDir()
	write(t, dir, map[string]string{"bad.jsonl": "{\"id\":1,\"question\":\"?\",\"answer\":\"!\"}\n{\"id\":2\n", "mute.jsonl": "{\"answer\":\"a\"}\n{\"answer\":\"b\"}\n", "unanswered.jsonl": "{\"question\":\"a\"}\n{\"question\":\"b\"}\n"})
	numbers := []string{"--tasks", "../../examples/exec/tasks.jsonl", "--set", "tasks.split=split"}
	template := []string{"--base", base, "--set", "chat.template=" + filepath.Join(base, "plain.jinja")}
	for _, test := range []struct {
		args []string
		want string
	}{
		{append([]string{"--learner", "tinker", "--tinker-url", "http://127.0.0.1:1", "--model", "m"}, numbers...), "chat.tokenizer: want the folder"},
		{append([]string{"--tokenizer", base}, numbers...), "base: want the model that is trained"},
		{append([]string{"--env", "search"}, numbers...), "--tasks"},
		{[]string{"--env", "tasks", "--base", base}, "tasks.file: want the tasks"},
		{append([]string{"--tasks", filepath.Join(dir, "gone.jsonl")}, template...), "gone.jsonl"},
		{append([]string{"--tasks", filepath.Join(dir, "bad.jsonl")}, template...), "line 2"},
		{append([]string{"--tasks", filepath.Join(dir, "unanswered.jsonl")}, template...), "answer"},
		{append(append([]string{"--env-command", "no-such-program"}, numbers...), template...), "tasks.env_command: "},
		{append(append([]string{"--env-url", "ftp://x"}, numbers...), template...), "tasks.env_url"},
		{append(append([]string{"--env-url", "http://127.0.0.1:1", "--env-command", "python3"}, numbers...), template...), "want one of them"},
		{append(append([]string{"--env-url", "http://127.0.0.1:1", "--set", "tasks.headers={Authorization: Bearer $INFINIRL_UNSET}"}, numbers...), template...), "tasks.headers: Authorization: the environment variable INFINIRL_UNSET is not set"},
		{append([]string{"--base", base, "--set", "chat.template=chatml", "--set", "chat.call_format=hermes"}, numbers...), "chat.call_format: \"hermes\": chatml writes calls in its own"},
		{append([]string{"--base", base, "--set", "chat.template=" + filepath.Join(dir, "gone.jinja")}, numbers...), "chat.template: "},
		{[]string{"--env", "keytodoor", "--set", "chat.tools=false"}, "chat.tools: without effect"},
		{append(append([]string{"--corpus", filepath.Join(dir, "gone")}, numbers...), template...), "corpus"},
		{append(append([]string{"--set", "tasks.mcp=[{name: x}]"}, numbers...), template...), "tasks.mcp: server 1: want a command or a url"},
		{append(append([]string{"--set", "tasks.mcp=[{command: [x], headers: {a: b}}]"}, numbers...), template...), "tasks.mcp: server 1: headers: without effect"},
		{append(append([]string{"--env-command", "sh -c 'exit 1'"}, numbers...), template...), "--env-command: sh -c 'exit 1': there is no shell that reads quotes"},
		{append(append([]string{"--env-command", " "}, numbers...), template...), "--env-command: the value is empty"},
		{append(append([]string{"--reward-command", "[]"}, numbers...), template...), "--reward-command: []: want a list"},
		{append(append([]string{"--env-command", "[sh, {a: b}]"}, numbers...), template...), "--env-command: [sh, {a: b}]: want a list"},
		{append(append([]string{"--env-command", "./tasks.jsonl", "--set", "tasks.dir=../../examples/exec"}, numbers...), template...), "permission denied"},
		{append(append([]string{"--set", "tasks.dir=no/such"}, numbers...), template...), "tasks.dir: "},
		{append(append([]string{"--set", "chat.call_format=zzz"}, numbers...), template...), "chat.call_format: call format \"zzz\": want one of"},
		{append([]string{"--tasks", filepath.Join(dir, "mute.jsonl")}, template...), "mute.jsonl: task \"line 1\": want messages"},
		{append(append([]string{"--set", "tasks.parallel=0"}, numbers...), template...), "tasks.parallel: 0"},
		{append([]string{"--tasks", "../../examples/exec/tasks.jsonl", "--set", "tasks.eval=1"}, template...), "tasks.eval and tasks.clone: 1 and 0"},
		{append([]string{"--tasks", "../../examples/exec/tasks.jsonl", "--set", "tasks.eval=0"}, template...), "want tasks.eval above 0"},
		{append(append([]string{"--set", "tasks.page=100"}, numbers...), template...), "tasks.page: without effect"},
		{[]string{"--env", "keytodoor", "--set", "tasks.page=100"}, "tasks.page: without effect"},
		{[]string{"--env", "keytodoor", "--base", base}, "condense.high: 80: system and task take"},
		{append(append([]string{"--set", "condense.high=100000", "--env-command", "python3 numbers.py"}, numbers...), template...), "condense.high: 100000: the base model has 2048 positions"},
	} {
		code, _, stderr := command(t, "", append([]string{"train", "--run", filepath.Join(dir, "run")}, test.args...)...)
		if code != 2 || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q: want 2 and one line with %q", test.args, code, stderr, test.want)
		}
	}
}
