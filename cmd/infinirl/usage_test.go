package main

import (
	"strings"
	"testing"
)

// What the parser refuses is told without types of Go, in one line, with status 2.
func TestUsageIsInTheUsersWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ line, want string }{
		{"train --seed -1", `--seed: "-1": want a whole number of 0 or more (see infinirl train --help)`},
		{"train --seed x", `--seed: "x": want a whole number of 0 or more`},
		{"train --seed 99999999999999999999", `--seed: "99999999999999999999": want a whole number of at most 18446744073709551615`},
		{"train --seed", "--seed: the value is missing"},
		{"train --set", "--set: the value is missing"},
		{"train --env -x", "--env: a value that begins with a dash is written --env=-x"},
		{"train --resume=maybe", `--resume: "maybe": want true or false`},
		{"eval --count 1.5", `--count: "1.5": want a whole number`},
		{"eval --count 99999999999999999999", `--count: "99999999999999999999": want a whole number of at most 9223372036854775807`},
		{"eval --temperature warm", `--temperature: "warm": want a number`},
		{"batch show --trajectories -1", "--trajectories: a value that begins with a dash is written --trajectories=-1"},
		{"ablate --over luck", `--over: "luck": want one of "credit", "condense"`},
		{"ablate --seeds", "--seeds: the value is missing"},
		{"batch", `which command? Want one of "show", "convert", "check"`},
		{"batch check", "the <file> is missing"},
		{"completion csh", `shell: "csh": want one of "bash", "zsh", "fish"`},
		{"condense x", "missing flags: --high=N"},
		{"train --env=", "--env: the name is empty"},
		{"train --run=", "--run: the name is empty"},
		{"train --base=", "--base: the name is empty"},
		{"train --config=", "--config: the name is empty"},
		{"eval --model=", "--model: the name is empty"},
		{"eval --run=", "--run: the name is empty"},
		{"ablate --run=", "--run: the name is empty"},
		{"pretrain --output=", "--output: the name is empty"},
		{"advantage --out=", "--out: the name of the file is empty"},
		{"train --set train.steps=x", `--set train.steps=x: "x": want a whole number` + "\n"},
		{"train --set train.stepz=3", "--set train.stepz=3: unknown key stepz: did you mean steps?\n"},
		{"train --set condense.hihg=3", "condense: hihg: no rule has such an option: did you mean high?\n"},
		{"train --set train..steps=1", `--set train..steps=1: the key has the part "": want names`},
		{"condense x --high 9 --scores=", "--scores: the name of the file is empty"},
		{"condense x --high 9 --score=", "--score: the name is empty"},
		{"condense x --high 9 --group-by=", "--group-by: the name is empty"},
		{"condense x --high 9 --chat-template=", "--chat-template: the value is empty"},
		{"condense x --high 9 --call-format=", "--call-format: the value is empty"},
		{"condense x --high 9 --tokenizer=", "--tokenizer: the value is empty"},
		{"condense x --high 9 --placeholder=", "--placeholder: the value is empty"},
		{"condense x --high 9 --exclude-tools=,", "--exclude-tools: a name is empty"},
		{"replay x --tokenizer=", "--tokenizer: the value is empty"},
		{"replay x --log=", "--log: the value is empty"},
		{"replay x --model=", "--model: the value is empty"},
		{"condense x --high 9 --rule window --mode result", "--mode: without effect: rule window does not read it, want --rule tool-fifo\n"},
		{"condense x --high 9 --placeholder [gone]", "--placeholder: without effect: rule tool-fifo does not read it, want --rule tool-clear\n"},
		{"condense x --high 9 --clear-tool-inputs", "--clear-tool-inputs: without effect: "},
		{"condense x --high 9 --train-summary", "--train-summary: without effect: rule tool-fifo does not read it, want --rule summary\n"},
		{"condense x --high 9 --rule discard-all --summary-tokens 3", "--summary-tokens: without effect: "},
		{"condense x --high 9 --rule none --low 3", "--low: without effect: rule none never condenses\n"},
		{"replay x --temperature 0.5", "--temperature: without effect: only --model recomputes log-probs\n"},
		{"replay x --model m --temperature NaN", "--temperature: NaN, want "},
		{"replay x --model m --temperature 0", "--temperature: 0, want "},
		{"replay x --show=-1", "--show: -1, want at least 0\n"},
		{"eval --set train.steps=x", `--set train.steps=x: "x": want a whole number` + "\n"},
	} {
		code, out, stderr := command(t, "", strings.Fields(test.line)...)
		if code != 2 || out != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "infinirl: "+test.want) {
			t.Errorf("%s: exit %d, %q, want %q", test.line, code, stderr, test.want)
		}
		for _, word := range []string{"uint", "int value", "64 bit", "EOL", "(string)", "expecting"} {
			if strings.Contains(stderr, word) {
				t.Errorf("%s: %q has %q", test.line, stderr, word)
			}
		}
	}
	for _, args := range [][]string{{"advantage", ""}, {"batch", "check", ""}, {"batch", "show", ""}} {
		if code, _, stderr := command(t, "", args...); code != 2 || !strings.Contains(stderr, ": the name of the file is empty") || strings.ContainsAny(stderr, "[<") {
			t.Errorf("%q: exit %d, %q", args, code, stderr)
		}
	}
}

// No help text names a type of Go, or what only the scripts of shells call.
func TestHelpIsInTheUsersWords(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "train", "pretrain", "eval", "ablate", "config", "advantage", "batch", "batch show", "batch convert", "batch check", "condense", "replay", "completion"} {
		code, out, stderr := command(t, "", append(strings.Fields(line), "--help")...)
		if code != 0 {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
		if strings.Contains(out, "=INT") || strings.Contains(out, "=UINT") || strings.Contains(out, "=FLOAT") || strings.Contains(out, "=GIVEN-TEXT") || strings.Contains(out, completeWord) {
			t.Errorf("%s --help names a type of Go:\n%s", line, out)
		}
	}
}
