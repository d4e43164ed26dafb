package pretrain

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy/scripted"
)

func parts(t *testing.T) Parts {
	t.Helper()
	world := keytodoor.World()
	model, err := lm.NewActor(lm.Config{VocabSize: world.VocabularySize, HiddenSize: 32, IntermediateSize: 64, NumHiddenLayers: 2, NumAttentionHeads: 2, TieWordEmbeddings: true,
		LogitScale: 0.5, EmbeddingInit: 0.5, InitializerRange: 0.08}, 1)
	if err != nil {
		t.Fatal(err)
	}
	actor, err := embedded.NewActor(model, embedded.Config{Temperature: 1, MaxGradNorm: 1})
	if err != nil {
		t.Fatal(err)
	}
	return Parts{Tasks: world.Tasks, Renderer: world.Renderer, Curriculum: world.Curriculum, Demonstrator: scripted.New(world.Renderer, world.Demonstrator), Learner: actor,
		Condenser: func(rule string) (condense.Condenser, error) {
			cfg := condense.DefaultFor(rule, 80)
			if rule == condense.None {
				cfg.High = 1 << 20
			}
			cfg.Set("summary_request", "walk")
			cfg.Set("summary_note", "walk ")
			cfg.Set("placeholder", "walk")
			return condense.New(cfg)
		}}
}

var options = Options{MaxReply: 8, MaxTurns: 24, Seed: 1}

// Cloning learns: a model that has seen 60 steps of countdowns knows what comes next
// far better than one that has seen one.
func TestCloningLearns(t *testing.T) {
	t.Parallel()
	var losses []float64
	opts := options
	opts.Report = func(_, _ int, loss float64, _ int) { losses = append(losses, loss) }
	cfg := Config{
		Stages: []Stage{{Steps: 60, Rows: 16, LearningRate: 0.005, Drills: []float64{1}}},
	}
	if err := Run(context.Background(), cfg, parts(t), opts); err != nil {
		t.Fatal(err)
	}
	if first, last := losses[0], losses[len(losses)-1]; last > first/2 {
		t.Errorf("the loss went from %.3f to %.3f nats a token", first, last)
	}
}

// Exercises are drawn by their shares, and windows are cut as their rule says.
func TestSharesAreRespected(t *testing.T) {
	t.Parallel()
	mixture := map[string]float64{condense.None: 1, condense.ToolFIFO: 1}
	source, err := newSource(Config{Stages: []Stage{{Windows: mixture}}}, parts(t), options)
	if err != nil {
		t.Fatal(err)
	}
	rows := func(stage Stage) int {
		stage.Rows = 64
		drawn, err := source.draw(context.Background(), stage, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(drawn.Rows)
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

// Rules that no stage asks for are not made: one that is registered by others may want
// options that nobody has set.
func TestOnlyRulesWithAShareAreMade(t *testing.T) {
	t.Parallel()
	p := parts(t)
	made := map[string]int{}
	condenser := p.Condenser
	p.Condenser = func(rule string) (condense.Condenser, error) {
		made[rule]++
		return condenser(rule)
	}
	stage := Stage{Windows: map[string]float64{condense.ToolFIFO: 1, condense.Summary: 0}}
	if _, err := newSource(Config{Stages: []Stage{stage, stage}}, p, options); err != nil {
		t.Fatal(err)
	}
	if len(made) != 1 || made[condense.ToolFIFO] != 1 {
		t.Errorf("made %v, want one of %s", made, condense.ToolFIFO)
	}
}

func TestBadStagesAreNamed(t *testing.T) {
	t.Parallel()
	good := Config{
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
	} {
		c := good
		c.Stages = []Stage{good.Stages[0]}
		change(&c)
		if c.Validate(2) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A demonstration that the settings cannot hold is an error, not one row less to learn.
func TestDemonstrationsMustFit(t *testing.T) {
	t.Parallel()
	cfg := Config{Stages: []Stage{{Steps: 1, Rows: 2, LearningRate: 0.1, Windows: map[string]float64{condense.ToolFIFO: 1}}}}
	p, opts := parts(t), options
	opts.MaxReply = 2
	if err := Run(context.Background(), cfg, p, opts); !errors.Is(err, ErrDemonstration) || !strings.Contains(err.Error(), "rollout.max_reply") {
		t.Errorf("replies of two tokens: error %v", err)
	}
	p.Condenser = func(rule string) (condense.Condenser, error) {
		cfg := condense.DefaultFor(rule, 20)
		cfg.Low = 10
		return condense.New(cfg)
	}
	if err := Run(context.Background(), cfg, p, options); !errors.Is(err, ErrDemonstration) || !strings.Contains(err.Error(), "condense.high") {
		t.Errorf("a window of 20 tokens: error %v", err)
	}
}
