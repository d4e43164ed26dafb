package assembly

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		if err := Check(context.Background(), cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		base, err := loadBase(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if base.NumParameters() < 100_000 || base.NumParameters() > 1_000_000 {
			t.Errorf("%s: the base has %d parameters, want a few hundred thousand", name, base.NumParameters())
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
	run, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if !filepath.IsAbs(run.cfg.Base) {
		t.Errorf("base %s, want an absolute path", run.cfg.Base)
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}
