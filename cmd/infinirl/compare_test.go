package main

import (
	"strings"
	"testing"
)

// Where estimators differ on a batch of the user's own; nothing is written.
func TestAdvantageCompare(t *testing.T) {
	t.Parallel()
	other := strings.ReplaceAll(golden, `"rewards":[0,0,1,0]`, `"rewards":[0,0,0,0]`)
	failed := `{"trajectory_id":"v","group_id":"g","inv_iter":0,"response_ids":[5],"loss_mask":[1],"rewards":[0],"values":[0],"status":"failed"}` + "\n"
	input := golden + strings.ReplaceAll(other, `"trajectory_id":"t"`, `"trajectory_id":"u"`) + failed
	code, out, stderr := command(t, input, "advantage", "--compare", "gae,outcome-copy,dr-grpo", "--gamma", "0.9", "--lambda", "0.8")
	if code != 0 || !strings.Contains(stderr, "1 trajector") {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var table [][]string
	for line := range strings.Lines(out) {
		table = append(table, strings.Fields(line))
	}
	if len(table) < 4 || table[1][0] != "gae" || strings.Join(table[1][3:], " ") != "1.000 0.0% 0.0%" || table[3][0] != "dr-grpo" || table[3][1] != "0" || table[3][2] != "0.5" {
		t.Errorf("table\n%s", out)
	}
	if table[2][5] == "0.0%" {
		t.Errorf("outcome-copy does not differ:\n%s", out)
	}
	for _, test := range []struct{ input, args, want string }{
		{input, "--compare gae,luck", "luck"},
		{input, "--compare gae,grpo -o x.jsonl", "--out x.jsonl"},
		{strings.ReplaceAll(golden, `"group_id":"g",`, ""), "--compare gae,grpo", "group"},
		{"{}", "--compare gae", "stdin"},
		{input, "--compare=", "--compare: the name is empty"},
		{input, "--compare gae,grpo --estimator rloo", "--estimator rloo: without effect"},
	} {
		code, out, stderr := command(t, test.input, append([]string{"advantage"}, strings.Fields(test.args)...)...)
		if code != 2 || !strings.Contains(stderr, test.want) || out != "" {
			t.Errorf("%s: exit %d, error %q, output %q: want 2 and %q", test.args, code, stderr, out, test.want)
		}
	}
}
