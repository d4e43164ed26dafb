package assembly

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/bases"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/configs"
	"github.com/infinirl/infinirl/train"
)

// Every shipped configuration has a world and a base model, and its openings fit.
func TestEveryShippedConfigurationOpens(t *testing.T) {
	t.Parallel()
	for _, name := range configs.Names() {
		cfg, err := config.Shipped(name)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Env == config.OwnTasks { // which are the user's, as their model is
			continue
		}
		if err := Check(context.Background(), cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		base, err := loadBase(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if n := base.NumParameters(); n < 100_000 || n > 1_000_000 {
			t.Errorf("%s: the base has %d parameters, want a few hundred thousand", name, n)
		}
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ assignment, want string }{
		{"env=chess", "want one of search, keytodoor"},
		{"base=/nowhere", "base: stat /nowhere"},
		{"condense.high=100000", "the base model has 2048 positions"},
		{"condense.high=20", "condense.high: 20: system and task take"},
		{"condense.placeholder=zzz", "condense.placeholder"},
		{"pretrain.model.vocab_size=7", "pretrain.model.vocab_size"},
		{"pretrain.model.hidden_size=-1", "hidden_size is -1"},
		{"pretrain.model.num_hidden_layers=1000000", "pretrain.model.num_hidden_layers"},
	} {
		cfg, err := config.Shipped(config.DefaultEnv)
		if err != nil {
			t.Fatal(err)
		}
		if test.assignment == "condense.high=20" {
			cfg.Condense.Low = 10
		}
		if err := cfg.Set(test.assignment); err != nil {
			t.Fatal(err)
		}
		if err := Check(context.Background(), cfg); !errors.Is(err, train.ErrInput) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", test.assignment, err, test.want)
		}
	}
}

// A base that is named by a relative path is found again from any folder.
func TestResumedRunsFindTheirBase(t *testing.T) {
	t.Parallel()
	cfg, err := config.Shipped("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Rel(must(os.Getwd()), must(filepath.Abs("../bases/keytodoor.safetensors")))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Base = file
	run, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if !filepath.IsAbs(run.cfg.Base) {
		t.Errorf("base %s, want an absolute path", run.cfg.Base)
	}
}

// A run goes on without the file of its base model, unless it keeps close to it.
func TestResumeWithoutTheBaseFile(t *testing.T) {
	t.Parallel()
	for _, kl := range []string{"0", "0.1"} {
		dir := t.TempDir()
		data, err := bases.Read("keytodoor")
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Join(dir, "base.safetensors")
		if err := os.WriteFile(base, data, 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Shipped("keytodoor")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []string{"base=" + base, "train.steps=1", "rollout.groups=2", "train.minibatches=1", "eval.tasks=2", "ppo.kl_coef=" + kl} {
			if err := cfg.Set(o); err != nil {
				t.Fatal(err)
			}
		}
		run := filepath.Join(dir, "run")
		if err := os.Mkdir(run, 0o755); err != nil { // an empty folder may become the run's
			t.Fatal(err)
		}
		if _, err := Train(context.Background(), cfg, train.Options{Dir: run}); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(base); err != nil {
			t.Fatal(err)
		}
		_, err = Resume(context.Background(), run, nil)
		if wantError := kl != "0"; (err != nil) != wantError || err != nil && !errors.Is(err, train.ErrInput) {
			t.Errorf("kl_coef %s: error %v", kl, err)
		}
	}
}

// A run that was killed before its first checkpoint, and whose base model has gone, says
// what is missing.
func TestResumeWithNeitherBaseNorCheckpoint(t *testing.T) {
	t.Parallel()
	cfg, err := config.Shipped("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg.Base = filepath.Join(dir, "gone.safetensors")
	text, err := cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, train.ConfigName), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(context.Background(), dir, nil); !errors.Is(err, train.ErrInput) || !strings.Contains(err.Error(), cfg.Base) {
		t.Errorf("error %v, want one that names %s", err, cfg.Base)
	}
}

// A checkpoint of a run is a base model, and its folder of the actor, and one file of
// weights is.
func TestBasesAreFound(t *testing.T) {
	t.Parallel()
	cfg, err := config.Shipped("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []string{"train.steps=0", "rollout.groups=2", "train.minibatches=1", "eval.tasks=2"} {
		if err := cfg.Set(o); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(t.TempDir(), "run")
	if _, err := Train(context.Background(), cfg, train.Options{Dir: run}); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{"checkpoints/step-000000", "checkpoints/step-000000/actor", "checkpoints/step-000000/actor/model.safetensors"} {
		cfg.Base = filepath.Join(run, base)
		if _, err := Evaluate(context.Background(), cfg, "", 1, nil); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// The directory of a run is no model: which of its checkpoints is meant is not known.
func TestARunIsNoBase(t *testing.T) {
	t.Parallel()
	cfg, err := config.Shipped("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Base = t.TempDir()
	if err := os.WriteFile(filepath.Join(cfg.Base, train.ConfigName), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Check(context.Background(), cfg); !errors.Is(err, train.ErrInput) || !strings.Contains(err.Error(), "want one of its checkpoints") {
		t.Errorf("error %v", err)
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// What a condensing rule writes must be words of the world.
func TestPlaceholdersAreSpelled(t *testing.T) {
	t.Parallel()
	for _, overrides := range [][]string{
		{"condense.rule=tool-clear", "condense.placeholder=zzz"},
		{"condense.rule=summary", "condense.summary_request=please"},
	} {
		cfg, err := config.Shipped(config.DefaultEnv)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range overrides {
			if err := cfg.Set(o); err != nil {
				t.Fatal(err)
			}
		}
		want, _, _ := strings.Cut(overrides[1], "=")
		if err := Check(context.Background(), cfg); !errors.Is(err, train.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one that names %s", overrides, err, want)
		}
	}
}
