// Package pretrain makes base models by behaviour cloning: cross-entropy on what
// a scripted demonstrator says, first in drills, then in whole demonstrations, played
// both under the condenser and in windows that never fill.
package pretrain

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/scripted"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// Config says what model is made and from what.
type Config struct {
	Model  lm.Config `yaml:"model"`
	Stages []Stage   `yaml:"stages"`
}

// Stage is a stretch of training with one mixture of exercises. The learning rate
// goes from the previous stage's to its own, linearly.
type Stage struct {
	Steps        int     `yaml:"steps"`
	Rows         int     `yaml:"rows"` // a step
	LearningRate float64 `yaml:"learning_rate"`
	// Shares of the rows: one for every drill level, then demonstrations in windows
	// that each condensing rule cuts; under rule none the window never fills. They
	// need not sum to 1.
	Drills  []float64          `yaml:"drills"`
	Windows map[string]float64 `yaml:"windows,omitempty"`
}

// Report hears of every step: the mean loss in nats a token, the share of tokens that
// the model would have chosen with more than half probability, and the number of tokens
// so far.
type Report func(step, steps int, loss, accuracy float64, tokens int)

// Options say how the demonstrations are played and who hears of progress.
type Options struct {
	World curriculum.World
	// Condense returns the configuration of a condensing rule.
	Condense func(rule string) condense.Config
	MaxReply int
	MaxTurns int
	Seed     uint64
	Threads  int
	Report   Report // nil: nobody
}

// Validate names the first key that cannot work.
func (c Config) Validate(levels int) error {
	model := c.Model
	model.VocabSize = 1 // the environment's
	if err := model.Validate(); err != nil {
		return fmt.Errorf("pretrain.model: %w", err)
	}
	for _, k := range []struct {
		key         string
		value, most int
	}{
		{"hidden_size", model.HiddenSize, 4096}, {"intermediate_size", model.IntermediateSize, 16384},
		{"num_hidden_layers", model.NumHiddenLayers, 128}, {"max_position_embeddings", model.MaxPositionEmbeddings, 1 << 20},
	} {
		if k.value > k.most {
			return fmt.Errorf("pretrain.model.%s: %d: want at most %d on this engine", k.key, k.value, k.most)
		}
	}
	if len(c.Stages) == 0 {
		return fmt.Errorf("pretrain.stages: none: want at least one")
	}
	for i, s := range c.Stages {
		key := fmt.Sprintf("pretrain.stages[%d]", i)
		total := 0.0
		for _, d := range s.Drills {
			if d < 0 {
				return fmt.Errorf("%s.drills: %v: want no negative share", key, d)
			}
			total += d
		}
		for rule, share := range s.Windows {
			if !slices.Contains(condense.Rules(), rule) {
				return fmt.Errorf("%s.windows: rule %q: want one of %s", key, rule, strings.Join(condense.Rules(), ", "))
			}
			if share < 0 {
				return fmt.Errorf("%s.windows: %s: %v: want no negative share", key, rule, share)
			}
			total += share
		}
		switch {
		case s.Steps < 1 || s.Steps > 1_000_000_000:
			return fmt.Errorf("%s.steps: %d: want 1 to a billion", key, s.Steps)
		case s.Rows < 1 || s.Rows > 1_000_000:
			return fmt.Errorf("%s.rows: %d: want 1 to a million", key, s.Rows)
		case !(s.LearningRate > 0 && s.LearningRate <= 1):
			return fmt.Errorf("%s.learning_rate: %v: want more than 0 and at most 1", key, s.LearningRate)
		case len(s.Drills) > levels:
			return fmt.Errorf("%s.drills: %d shares: the environment has %d levels", key, len(s.Drills), levels)
		case !(total > 0) || math.IsInf(total, 0):
			return fmt.Errorf("%s: the shares of the exercises sum to %v: want a number above 0", key, total)
		}
	}
	return nil
}

// Run makes a base model. The same configuration, seed and machine give the same bytes.
func Run(ctx context.Context, cfg Config, opts Options) (*lm.Model, error) {
	if err := cfg.Validate(opts.World.Levels()); err != nil {
		return nil, err
	}
	cfg.Model.VocabSize = opts.World.VocabularySize
	model, err := lm.NewActor(cfg.Model, opts.Seed)
	if err != nil {
		return nil, err
	}
	model.Threads = opts.Threads
	source, err := newSource(opts)
	if err != nil {
		return nil, err
	}
	gradients := lm.NewGradients(model)
	optimizer, err := lm.NewAdamW(model, lm.AdamWConfig{MaxGradNorm: 1})
	if err != nil {
		return nil, err
	}
	steps, step, tokens := 0, 0, 0
	for _, s := range cfg.Stages {
		steps += s.Steps
	}
	rate := 0.0
	for _, stage := range cfg.Stages {
		from := rate
		for i := range stage.Steps {
			rate = from + (stage.LearningRate-from)*float64(i+1)/float64(stage.Steps)
			rows, err := source.rows(ctx, stage, step)
			if err != nil {
				return nil, err
			}
			loss, accuracy, err := clone(ctx, model, rows, gradients)
			if err != nil {
				return nil, err
			}
			if _, err := optimizer.Step(gradients, rate); err != nil {
				return nil, fmt.Errorf("step %d: %w", step+1, err)
			}
			for _, r := range rows {
				tokens += len(r.Tokens)
			}
			if step++; opts.Report != nil {
				opts.Report(step, steps, loss, accuracy, tokens)
			}
		}
	}
	return model, nil
}

// clone sets gradients to those of the mean cross-entropy over all targets.
func clone(ctx context.Context, model *lm.Model, rows []lm.Sequence, gradients *lm.Gradients) (loss, accuracy float64, err error) {
	targets := 0
	for _, r := range rows {
		targets += len(r.Targets)
	}
	weight := -1 / float32(targets)
	gradients.Zero()
	losses, sure := make([]float64, len(rows)), make([]int, len(rows))
	err = model.AccumulatePolicy(ctx, rows, 1, func(i int, logProbs, _ []float32) ([]float32, []float32) {
		d := make([]float32, len(logProbs))
		for k, p := range logProbs {
			d[k] = weight
			losses[i] -= float64(p)
			if p > -0.6931472 {
				sure[i]++
			}
		}
		return d, nil
	}, gradients)
	for i := range rows {
		loss += losses[i] / float64(targets)
		accuracy += float64(sure[i]) / float64(targets)
	}
	return loss, accuracy, err
}

// source draws exercises.
type source struct {
	world   curriculum.World
	seed    uint64
	windows map[string]*rollout.Engine // by condensing rule
}

func newSource(opts Options) (*source, error) {
	s := &source{world: opts.World, seed: opts.Seed, windows: map[string]*rollout.Engine{}}
	for _, rule := range condense.Rules() {
		cfg := opts.Condense(rule)
		if rule == condense.None {
			cfg.High = 1 << 20 // never full
		}
		condenser, err := condense.New(cfg)
		if err != nil {
			return nil, err
		}
		sampler := scripted.New(opts.World.Renderer, opts.World.Demonstrator)
		engine, err := rollout.New(opts.World.Tasks, opts.World.Renderer, sampler, condenser, rollout.Config{
			MaxReply: opts.MaxReply, MaxTurns: opts.MaxTurns, Temperature: 1, Concurrency: 2, Backoff: policy.DefaultBackoff,
		})
		if err != nil {
			return nil, err
		}
		s.windows[rule] = engine
	}
	return s, nil
}

// rows draws the exercises of one step. A demonstration counts as one row of its share,
// however often it is cut.
func (s *source) rows(ctx context.Context, stage Stage, step int) ([]lm.Sequence, error) {
	rng := rand.New(rand.NewPCG(s.seed, uint64(step)))
	shares := slices.Clone(stage.Drills)
	for _, rule := range condense.Rules() {
		shares = append(shares, stage.Windows[rule])
	}
	var total float64
	for _, share := range shares {
		total += share
	}
	var rows []lm.Sequence
	jobs := make([][]rollout.Job, len(condense.Rules()))
	for i := range stage.Rows {
		at, k := rng.Float64()*total, 0
		for k < len(shares)-1 && at >= shares[k] {
			at -= shares[k]
			k++
		}
		seed := rng.Uint64()
		if k < len(stage.Drills) {
			ids, mask := s.world.Drill(k, seed)
			rows = append(rows, row(ids, mask))
			continue
		}
		k -= len(stage.Drills)
		jobs[k] = append(jobs[k], rollout.Job{Task: s.world.Tasks.Task(env.Clone, step*stage.Rows+i), TrajectoryID: fmt.Sprint(i), Seed: seed})
	}
	for k, rule := range condense.Rules() {
		more, err := demonstrations(ctx, s.windows[rule], jobs[k])
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// demonstrations plays jobs and returns their segments.
func demonstrations(ctx context.Context, engine *rollout.Engine, jobs []rollout.Job) ([]lm.Sequence, error) {
	played, err := engine.Collect(ctx, jobs, nil)
	if err != nil {
		return nil, err
	}
	closed := make([]*trajectory.Trajectory, 0, len(played))
	for i, t := range played {
		switch {
		case !t.Status.Trainable():
			return nil, fmt.Errorf("demonstration of task %s: %s", jobs[i].Task.ID, t.Error)
		case len(t.Segments) > 0:
			closed = append(closed, t)
		}
	}
	b, err := batch.FromTrajectories(closed)
	if err != nil {
		return nil, err
	}
	rows := make([]lm.Sequence, len(b.Rows))
	for i := range b.Rows {
		start, end := b.Span(i)
		rows[i] = row(b.TokenIDs[start:end], b.LossMask[start:end])
	}
	return rows, nil
}

func row(ids []int32, mask []bool) lm.Sequence {
	r := lm.Sequence{Tokens: ids}
	for t, learnt := range mask {
		if learnt && t > 0 {
			r.Targets = append(r.Targets, int32(t))
		}
	}
	return r
}
