package config

import (
	"slices"
	"strings"
	"testing"
)

// The decoder's errors are in the words of who wrote the file: no types of Go.
func TestYAMLErrorsAreInTheUsersWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"train:\n  steps: many", `line 2: "many": want a whole number`},
		{"train:\n  steps: 1.5", "line 2: 1.5: want a whole number"},
		{"train:\n  steps: 9223372036854775808", "want a whole number of at most 9223372036854775807"},
		{"train:\n  steps: [1]", "line 2: a list: want a whole number"},
		{"train:\n  steps: {a: 1}", "line 2: keys with values: want a whole number"},
		{"seed: -1", "line 1: -1: want a whole number from 0 to 18446744073709551615"},
		{"train:\n  actor_lr: fast", `line 2: "fast": want a number`},
		{"train:\n  save_rollouts: 3", "line 2: 3: want true or false"},
		{"base: [1]", "line 1: a list: want a text"},
		{"train: 3", "line 1: 3: want keys with values"},
		{"condense:\n  keep_last: x", `line 2: "x": want a whole number`},
		{"condense:\n  exclude_tools: open", `line 2: "open": want a list, as in [a, b]`},
		{"pretrain:\n  stages: 3", "line 2: 3: want a list, as in [a, b]"},
		{"train:\n  stepz: 3", "line 2: unknown key stepz: did you mean steps?"},
		{"trian:\n  steps: 3", "line 1: unknown key trian: did you mean train?"},
		{"steps: 3", "line 1: unknown key steps: did you mean train.steps?"},
		{"advantage:\n  Gamma: 1", "line 2: unknown key Gamma: did you mean gamma?"},
		{"pretrain:\n  stages:\n    - {step: 3}", "line 3: unknown key step: did you mean steps?"},
		{"pretrain:\n  model:\n    hiden_size: 3", "line 3: unknown key hiden_size: did you mean hidden_size?"},
		{"qwertyuiop: 3", "line 1: unknown key qwertyuiop"},
		{"train:\n  steps: x\n  epochs: y", `line 2: "x": want a whole number`},
	} {
		cfg, err := Shipped(DefaultEnv)
		if err != nil {
			t.Fatal(err)
		}
		err = cfg.MergeBytes([]byte(test.text), "my.yaml")
		if err == nil || !strings.HasSuffix(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "my.yaml: line ") {
			t.Errorf("%q: error %v, want %q", test.text, err, test.want)
			continue
		}
		for _, word := range []string{"!!", "construct", "float64", "uint64", "struct", "config.", "train.LoopConfig", "\n"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%q: error %q has %q", test.text, err, word)
			}
		}
	}
}

// An option that no rule has may be a key of condensing, or another option, mistyped.
func TestExplain(t *testing.T) {
	t.Parallel()
	for assignment, want := range map[string]string{
		"condense.hihg=4":          "condense: hihg: no rule has such an option: did you mean high?",
		"condense.placehoder=x":    "condense: placehoder: no rule has such an option: did you mean placeholder?",
		"condense.qwertyuiopasd=x": "condense: qwertyuiopasd: no rule has such an option",
		"train.steps=-1":           "train.steps: -1: want 0 to 999999",
	} {
		cfg, err := Shipped(DefaultEnv)
		if err != nil {
			t.Fatal(err)
		}
		if err := cfg.Set(assignment); err != nil {
			t.Fatal(err)
		}
		if err := Explain(cfg.Validate()); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %q", assignment, err, want)
		}
	}
	if err := Explain(nil); err != nil {
		t.Error(err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	keys := Keys()
	for _, key := range []string{"env", "seed", "train.steps", "condense.rule", "condense.placeholder", "pretrain.model.hidden_size", "pretrain.stages"} {
		if !slices.Contains(keys, key) {
			t.Errorf("keys lack %s", key)
		}
	}
	if slices.Contains(keys, "train") || !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
		t.Errorf("keys %v: want leaves, in order, each once", keys)
	}
}
