package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/lm"
)

// What is refused is refused in one line that can be shown anywhere, with status 2 and
// nothing on standard output.
func TestRefusedInOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	critic, err := lm.NewCritic(lm.Config{VocabSize: 300, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 1, NumAttentionHeads: 2, MaxPositionEmbeddings: 64}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := critic.Save(filepath.Join(dir, "critic")); err != nil {
		t.Fatal(err)
	}
	data, err := critic.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	const row = `{"trajectory_id":"t","inv_iter":0,"prompt_ids":[1],"response_ids":[2],"loss_mask":[1],"score":1,"values":[0],MORE,"condense":{"version":1,"rule":"none","rule_version":1,"messages":1,"keep":[[0,1]],"tokens_before":1,"tokens_after":1,"lengths":[1]}}`
	more := func(text string) string { return strings.Replace(row, "MORE", text, 1) }
	write(t, dir, map[string]string{
		"c.yaml": "env: search\n", "critic.safetensors": string(data),
		"empty.jsonl": `{"form":"infinirl-trajectory","version":1,"trajectory_id":"t","group_id":"g","status":"finished","entries":[],"segments":[]}` + "\n",
	})
	for name, c := range map[string]struct {
		args  []string
		input string
		want  string
	}{
		"two environments":      {[]string{"config", "--env", "keytodoor", "--config", "DIR/c.yaml"}, "", "--env keytodoor: DIR/c.yaml says env: search: want one of them"},
		"no segment":            {[]string{"replay", "DIR/empty.jsonl"}, "", "DIR/empty.jsonl: no segment"},
		"base is a critic":      {[]string{"train", "--base", "DIR/critic", "--run", "DIR/run"}, "", "DIR/critic: a critic, which has values and no tokens to sample: want the checkpoint, or the actor in it"},
		"model is a critic":     {[]string{"eval", "--model", "DIR/critic.safetensors"}, "", "DIR/critic.safetensors: a critic, "},
		"scorer is a critic":    {[]string{"replay", "-", "--model", "DIR/critic"}, more(`"status":"finished"`), "--model: DIR/critic: a critic, "},
		"run in no place":       {[]string{"train", "--env", "keytodoor", "--set", "eval.tasks=8", "--run", "/proc/x"}, "", "create /proc/x: "},
		"comparison in none":    {[]string{"ablate", "--env", "keytodoor", "--set", "eval.tasks=8", "--run", "/proc/x"}, "", "create /proc/x: "},
		"line end in a name":    {[]string{"batch", "check", "a\nb.jsonl"}, "", `a\nb.jsonl: no such file`},
		"line end in a value":   {[]string{"config", "--set", "train.steps=1\nx"}, "", `train.steps=1\nx`},
		"line end in a key":     {[]string{"config", "--set", "train\n.steps=1"}, "", `the key has the part "train\n"`},
		"line end in a folder":  {[]string{"config", "--config", "a\nb"}, "", `a\nb: no such file`},
		"escape in a name":      {[]string{"batch", "check", "\x1b[2J\x07.jsonl"}, "", `\x1b[2J\a.jsonl: no such file`},
		"escape in a recording": {[]string{"condense", "\x1b[2J\r", "--high", "9"}, "", `\x1b[2J\r: no such file`},
		"bootstrap value null":  {[]string{"batch", "check", "-"}, more(`"bootstrap_value":null`), "bootstrap_value NaN: want a finite number"},
		"and truncated":         {[]string{"advantage"}, more(`"status":"truncated","bootstrap_value":null`), "bootstrap_value NaN: want a finite number"},
		"and overflown":         {[]string{"advantage"}, more(`"status":"context_overflow","bootstrap_value":NaN`), "bootstrap_value NaN: want a finite number"},
		"negative version":      {[]string{"batch", "check", "-"}, more(`"policy_version":-1`), "policy_version -1: want 0 or more"},
		"positive log-prob":     {[]string{"batch", "check", "-"}, more(`"rollout_log_probs":[0.5]`), "response token 0: rollout_log_probs: 0.5: want a log-prob, at most 0"},
	} {
		if strings.HasPrefix(c.want, "create /proc/") && !isFolder("/proc/self") {
			continue // a place where nothing can be made, not even by root
		}
		var args []string
		for _, arg := range c.args {
			args = append(args, strings.ReplaceAll(arg, "DIR", dir))
		}
		code, out, stderr := command(t, c.input, args...)
		line, ended := strings.CutSuffix(stderr, "\n")
		if code != 2 || out != "" || !strings.Contains(line, strings.ReplaceAll(c.want, "DIR", dir)) || !ended || strings.ContainsAny(line, "\n\r\a\x1b") {
			t.Errorf("%s: exit %d, output %q, %q: want 2 and one line with %q", name, code, out, stderr, c.want)
		}
	}
	// What is left out is 0, and fine.
	if code, out, stderr := command(t, more(`"status":"truncated"`), "advantage"); code != 0 || out == "" {
		t.Errorf("truncated, no value: exit %d, %s", code, stderr)
	}
}
