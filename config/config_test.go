package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/configs"
	"github.com/infinirl/infinirl/train"
)

func TestEveryShippedConfigurationLoads(t *testing.T) {
	t.Parallel()
	names := configs.Names()
	if !slices.Contains(names, DefaultEnv) {
		t.Errorf("shipped configurations %v lack %s", names, DefaultEnv)
	}
	for _, name := range names {
		cfg, err := Shipped(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := cfg.YAML()
		if err != nil {
			t.Fatal(err)
		}
		var again Config
		if err := again.MergeBytes(text, name); err != nil {
			t.Fatal(err)
		}
		back, err := again.YAML()
		if err != nil || string(back) != string(text) {
			t.Errorf("%s: written and read again it is another configuration:\n%s\n%s", name, text, back)
		}
	}
}

func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d configurations, %v: want those of the examples", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var names struct{ Env string }
		if err := yaml.Unmarshal(text, &names); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		cfg, err := Shipped(names.Env)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := cfg.MergeBytes(text, file); err != nil {
			t.Error(err)
		}
		if err := cfg.Set("base=MODEL"); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The default file names every key, so that `infinirl config` hides nothing.
func TestTheDefaultFileIsComplete(t *testing.T) {
	t.Parallel()
	text, err := configs.Read(DefaultEnv)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	var check func(kind reflect.Type, at string)
	check = func(kind reflect.Type, at string) {
		for i := range kind.NumField() {
			field := kind.Field(i)
			name, flags, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if flags == "inline" {
				checkOptions(t, lines)
			}
			if name == "" || name == "-" || at+name == "pretrain.model.vocab_size" { // the world's words decide
				continue
			}
			if !slices.ContainsFunc(lines, func(line string) bool {
				return strings.HasPrefix(strings.TrimLeft(line, " -{"), name+":") || strings.Contains(line, " "+name+":")
			}) {
				t.Errorf("key %s%s is not in %s.yaml", at, name, DefaultEnv)
			}
			if field.Type.Kind() == reflect.Struct {
				check(field.Type, at+name+".")
			}
		}
	}
	check(reflect.TypeFor[Config](), "")
}

func TestBadConfigurationsNameTheirKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ assignment, want string }{
		{"train.stepz=3", "unknown key stepz"},
		{"train.steps=many", "many"},
		{"train.steps=-1", "train.steps: -1"},
		{"train", "want key=value"},
		{"train..steps=1", `train..steps=1: the key has the part "": want names`},
		{"train.=1", `the part ""`},
		{".steps=3", `the part ""`},
		{"=3", "want key=value"},
		{"train=null", "no value"},
		{"train={}", "no value"},
		{"train=#3", "no value"},
		{"base=~", "no value"},
		{"train.steps=#3", "train.steps: no value"},
		{"train.steps=1\nseed: 5", "a line end in the value"},
		{" =3", `the part " "`},
		{"#=3", `the part "#"`},
		{"train.#steps=3", `the part "#steps"`},
		{"rollout.temperature=0", "rollout.temperature"},
		{"condense.high=0", "condense: high"},
		{"condense.low=999", "condense: low"},
		{"condense.rule=lifo", "condense: rule"},
		{"advantage.gamma=1.5", "advantage: gamma"},
		{"advantage.estimator=magic", "magic"},
		{"ppo.clip_low=-1", "ppo: clip_low"},
		{"train.final_lr=2", "train.final_lr"},
		{"train.minibatches=1000", "train.minibatches"},
		{"rollout.temperature=.inf", "rollout.temperature: +Inf"},
		{"rollout.temperature=1e-40", "rollout.temperature: 1e-40"},
		{"eval.temperature=.nan", "eval.temperature: NaN"},
		{"rollout.max_reply=9223372036854775807", "rollout.max_reply"},
		{"rollout.groups=100000000", "rollout.groups"},
		{"rollout.groups=4611686018427387904", "rollout.groups"},
		{"rollout.group_size=1000000", "rollout.group_size"},
		{"eval.tasks=1000000000000", "eval.tasks"},
		{"threads=100000", "threads"},
		{"rollout.concurrency=9223372036854775807", "rollout.concurrency"},
		{"train.actor_lr=.inf", "train.actor_lr"},
		{"train.weight_decay=.inf", "train.weight_decay"},
		{"ppo.entropy_coef=1e300", "ppo.entropy_coef"},
	} {
		cfg, err := Shipped(DefaultEnv)
		if err != nil {
			t.Fatal(err)
		}
		if err = cfg.Set(test.assignment); err == nil {
			err = cfg.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") && !strings.Contains(test.assignment, "\n") {
			t.Errorf("--set %s: error %q, want one line with %q", test.assignment, err, test.want)
		}
	}
}

// Settings that could have no effect beside others are refused, if somebody chose them.
func TestSettingsWithoutEffectAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings []string
		want     string // "": none
	}{
		{[]string{"ppo.rollout_correction=mask"}, "ppo.rollout_correction"},
		{[]string{"advantage.estimator=grpo", "ppo.kl_coef=0.1", "ppo.kl_in=reward"}, "ppo.kl_in"},
		{[]string{"advantage.estimator=grpo", "train.critic_warmup=1"}, "train.critic_warmup"},
		{[]string{"advantage.estimator=grpo", "rollout.group_size=1"}, "rollout.group_size: 1"},
		{[]string{"advantage.estimator=rloo", "advantage.lambda=0.9"}, "advantage.lambda: without effect"},
		{[]string{"advantage.estimator=grpo", "advantage.gamma=0.9"}, "advantage.gamma: without effect"},
		{[]string{"advantage.estimator=reinforce++", "advantage.whiten=false"}, "advantage.whiten: without effect"},
		{[]string{"advantage.estimator=reinforce++", "advantage.lambda=0.9"}, "advantage.lambda: without effect"},
		{[]string{"advantage.estimator=grpo", "train.truncated=bootstrap"}, "train.truncated: without effect"},
		{[]string{"advantage.estimator=grpo", "ppo.value_clip=0.2"}, "ppo.value_clip: without effect"},
		{[]string{"advantage.lambda_alpha=0.05", "advantage.lambda=1"}, "advantage.lambda: without effect"},
		{[]string{"ppo.loss=pg", "ppo.dual_clip=3"}, "ppo.dual_clip: without effect"},
		{[]string{"ppo.loss=gspo", "ppo.dual_clip=3"}, "ppo.dual_clip: without effect"},
		{[]string{"ppo.loss=cispo", "ppo.clip_low=0.1"}, "ppo.clip_low: without effect"},
		{[]string{"ppo.loss=pg", "ppo.clip_high=0.1"}, "ppo.clip_high: without effect"},
		{[]string{"ppo.kl_kind=k1"}, "ppo.kl_kind: without effect"},
		{[]string{"ppo.rollout_cap=3"}, "ppo.rollout_cap: without effect"},
		{[]string{"condense.placeholder=gone"}, "condense.placeholder: without effect: rule tool-fifo"},
		{[]string{"condense.rule=summary", "condense.mode=result"}, "condense.mode: without effect"},
		{[]string{"condense.rule=none", "condense.low=50"}, "condense.low: without effect"},
		// The shipped defaults may idle, and what has an effect is let through.
		{[]string{"advantage.estimator=grpo"}, ""},
		{[]string{"ppo.loss=pg"}, ""},
		{[]string{"advantage.estimator=grpo", "advantage.lambda=1"}, ""},
		{[]string{"condense.rule=tool-clear", "condense.placeholder=gone"}, ""},
		{[]string{"condense.rule=none", "condense.high=2048"}, ""},
		{[]string{"ppo.kl_coef=0.1", "ppo.kl_kind=k1"}, ""},
		{[]string{"advantage.lambda=0.9", "ppo.dual_clip=0"}, ""},
	} {
		cfg, err := Shipped(DefaultEnv)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range test.settings {
			if err := cfg.Set(s); err != nil {
				t.Fatal(err)
			}
		}
		err = cfg.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%v: error %v, want %q", test.settings, err, test.want)
		}
	}
}

func TestConfigurationsOfRunsAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), train.ConfigName)
	if err := os.WriteFile(path, make([]byte, MaxSize+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRun(filepath.Dir(path)); !errors.Is(err, bounded.ErrTooLarge) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names %s", err, path)
	}
}

// A key without a value would silently leave its default.
func TestKeysWithoutAValueAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"train:\n  steps:\n":                        "line 2: train.steps: no value",
		"train:\n  steps: null\n":                   "line 2: train.steps: no value",
		"condense:\n  placeholder: ~\n":             "condense.placeholder: no value",
		"condense:\n  keep_last:\n":                 "", // the rule's own
		"train:\n":                                  "", // a section in which nothing is set
		"# nothing but a comment\n":                 "",
		"pretrain:\n  model:\n    head_dim: null\n": "pretrain.model.head_dim: no value",
	} {
		cfg, err := Shipped(DefaultEnv)
		if err != nil {
			t.Fatal(err)
		}
		err = cfg.MergeBytes([]byte(text), "run.yaml")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// checkOptions holds that the options of every condensing rule are among lines.
func checkOptions(t *testing.T, lines []string) {
	t.Helper()
	for _, name := range condense.Rules() {
		rule, err := condense.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for option := range rule.Options {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  "+option+":") }) {
				t.Errorf("option %s of rule %s is not in %s.yaml", option, name, DefaultEnv)
			}
		}
	}
}

// A copy of a configuration can be changed without the first.
func TestCopiesShareNothing(t *testing.T) {
	t.Parallel()
	cfg, err := Shipped(DefaultEnv)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Set("condense.keep_last=2"); err != nil {
		t.Fatal(err)
	}
	before, err := cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	other := cfg
	for _, assignment := range []string{"condense.placeholder=gone", "condense.keep_last=5", "condense.exclude_tools=[a, b]", "pretrain.stages=[]"} {
		if err := other.Set(assignment); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := cfg.YAML(); err != nil || string(after) != string(before) {
		t.Errorf("the first is now\n%s", after)
	}
	if c := other.Condenser("tool-clear"); c.KeepLast != 5 || c.Options["placeholder"] != "gone" || len(c.ExcludeTools) != 2 {
		t.Errorf("condenser %+v", c)
	}
}

// Every knob that condensing has can be set for training.
func TestEveryKnobOfCondensing(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]int{"tool-fifo": 1, "tool-clear": 1, "window": 1, "discard-all": 0, "summary": 0} {
		cfg, err := Shipped(DefaultEnv)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Condenser(rule).KeepLast; got != want {
			t.Errorf("%s keeps %d rounds by default, want %d", rule, got, want)
		}
	}
	cfg, err := Shipped(DefaultEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, assignment := range []string{"condense.keep_last=3", "condense.keep_first=2", "condense.exclude_tools=[open]", "condense.clear_at_least=7",
		"condense.cut_oversize=true", "rollout.max_segments=9", "condense.mode=result"} {
		if err := cfg.Set(assignment); err != nil {
			t.Fatal(err)
		}
	}
	c := cfg.Condenser("tool-fifo")
	want := condense.Config{Rule: "tool-fifo", High: 160, Low: 110, KeepLast: 3, KeepFirst: 2, ExcludeTools: []string{"open"}, ClearAtLeast: 7, CutOversize: true, MaxSegments: 9, Options: c.Options}
	if !reflect.DeepEqual(c, want) || c.Options["mode"] != "result" {
		t.Errorf("condenser %+v, want %+v", c, want)
	}
	for _, bad := range []struct{ assignment, want string }{
		{"condense.placeholders=x", "condense: placeholders: no rule has such an option"},
		{"condense.mode=3", "condense: mode: 3, want a text"},
		{"condense.mode=triple", "condense: mode"},
	} {
		cfg := cfg
		err := cfg.Set(bad.assignment)
		if err == nil {
			err = cfg.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("--set %s: error %v, want %q", bad.assignment, err, bad.want)
		}
	}
}
