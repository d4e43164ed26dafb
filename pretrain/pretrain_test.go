package pretrain

import (
	"context"
	"testing"

	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/lm"
)

func options(t *testing.T) Options {
	t.Helper()
	return Options{World: keytodoor.World(), MaxReply: 8, MaxTurns: 24, Seed: 1, Condense: func(rule string) condense.Config {
		cfg := condense.DefaultFor(rule, 80)
		cfg.Set("summary_request", "walk")
		cfg.Set("summary_note", "walk ")
		cfg.Set("placeholder", "walk")
		return cfg
	}}
}

// Cloning learns: a model that has seen 60 steps of countdowns knows what comes next
// far better than one that has seen one.
func TestCloningLearns(t *testing.T) {
	t.Parallel()
	var losses []float64
	opts := options(t)
	opts.Report = func(_, _ int, loss, _ float64, _ int) { losses = append(losses, loss) }
	cfg := Config{
		Model: lm.Config{HiddenSize: 32, IntermediateSize: 64, NumHiddenLayers: 2, NumAttentionHeads: 2, TieWordEmbeddings: true,
			LogitScale: 0.5, EmbeddingInit: 0.5, InitializerRange: 0.08},
		Stages: []Stage{{Steps: 60, Rows: 16, LearningRate: 0.005, Drills: []float64{1}}},
	}
	if _, err := Run(context.Background(), cfg, opts); err != nil {
		t.Fatal(err)
	}
	if first, last := losses[0], losses[len(losses)-1]; last > first/2 {
		t.Errorf("the loss went from %.3f to %.3f nats a token", first, last)
	}
}

// Exercises are drawn by their shares, and windows are cut as their rule says.
func TestSharesAreRespected(t *testing.T) {
	t.Parallel()
	source, err := newSource(options(t))
	if err != nil {
		t.Fatal(err)
	}
	rows := func(stage Stage) int {
		stage.Rows = 64
		drawn, err := source.rows(context.Background(), stage, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(drawn)
	}
	if n := rows(Stage{Drills: []float64{1}}); n != 64 {
		t.Errorf("%d rows of 64 drills", n)
	}
	if n := rows(Stage{Windows: map[string]float64{condense.None: 1}}); n != 64 {
		t.Errorf("%d rows of 64 uncut demonstrations", n)
	}
	if n := rows(Stage{Windows: map[string]float64{condense.ToolFIFO: 1}}); n < 3*64 {
		t.Errorf("%d rows of 64 condensed demonstrations, want three segments of each or more", n)
	}
	if n := rows(Stage{Drills: []float64{1}, Windows: map[string]float64{condense.ToolFIFO: 1}}); n < 100 || n > 300 {
		t.Errorf("%d rows of drills and condensed demonstrations half and half", n)
	}
}

func TestBadStagesAreNamed(t *testing.T) {
	t.Parallel()
	good := Config{Model: lm.Config{HiddenSize: 8, IntermediateSize: 8, NumHiddenLayers: 1, NumAttentionHeads: 1},
		Stages: []Stage{{Steps: 1, Rows: 1, LearningRate: 0.1, Drills: []float64{1}}}}
	if err := good.Validate(2); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no stage":       func(c *Config) { c.Stages = nil },
		"steps":          func(c *Config) { c.Stages[0].Steps = 0 },
		"rows":           func(c *Config) { c.Stages[0].Rows = -1 },
		"learning rate":  func(c *Config) { c.Stages[0].LearningRate = 0 },
		"levels":         func(c *Config) { c.Stages[0].Drills = []float64{1, 1, 1} },
		"negative share": func(c *Config) { c.Stages[0].Drills = []float64{-1, 2} },
		"no share":       func(c *Config) { c.Stages[0].Drills = []float64{0} },
		"rule":           func(c *Config) { c.Stages[0].Windows = map[string]float64{"lifo": 1} },
		"model":          func(c *Config) { c.Model.HiddenSize = 0 },
	} {
		c := good
		c.Stages = []Stage{good.Stages[0]}
		change(&c)
		if c.Validate(2) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
