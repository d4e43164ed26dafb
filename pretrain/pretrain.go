// Package pretrain makes base models by behaviour cloning: cross-entropy on what
// a scripted demonstrator says, first in drills, then in whole demonstrations, played
// both under the condenser and in windows that never fill.
//
// Cross-entropy is the policy gradient with advantage 1 on every demonstrated token, so
// that any learner can clone.
package pretrain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// Config says what is learnt, stretch by stretch.
type Config struct {
	Stages []Stage `yaml:"stages"`
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

// rules lists the condensing rules that have a share, in the order of condense.Rules.
func (s Stage) rules() []string {
	return slices.DeleteFunc(condense.Rules(), func(rule string) bool { return s.Windows[rule] == 0 })
}

// Parts are what cloning is made of.
type Parts struct {
	Tasks      env.Tasks
	Renderer   chat.Renderer
	Curriculum curriculum.Curriculum
	// Demonstrator samples what the curriculum's demonstrator says.
	Demonstrator policy.Sampler
	// Condenser returns the condenser of a rule; that of rule none never fills.
	Condenser func(rule string) (condense.Condenser, error)
	Learner   learner.Learner
}

// Options say how the demonstrations are played and who hears of progress.
type Options struct {
	MaxReply int
	MaxTurns int
	Seed     uint64
	Report   Report // nil: nobody
}

// Report hears of every step: the mean loss in nats a token, and the number of tokens
// so far.
type Report func(step, steps int, loss float64, tokens int)

// ErrDemonstration marks a demonstration that cannot be played by the settings.
var ErrDemonstration = errors.New("demonstration")

// Validate names the first key that cannot work.
func (c Config) Validate(levels int) error {
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

// Run has the learner clone. The same configuration, seed, parts and machine give the
// same weights.
func Run(ctx context.Context, cfg Config, parts Parts, opts Options) error {
	if err := cfg.Validate(parts.Curriculum.Levels()); err != nil {
		return err
	}
	source, err := newSource(cfg, parts, opts)
	if err != nil {
		return err
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
			exercises, err := source.draw(ctx, stage, step)
			if err != nil {
				return err
			}
			result, err := parts.Learner.Update(ctx, exercises, learner.UpdateConfig{Loss: crossEntropy, LearningRate: rate})
			if err != nil {
				return fmt.Errorf("step %d: %w", step+1, err)
			}
			tokens += exercises.Tokens()
			if step++; opts.Report != nil {
				opts.Report(step, steps, result.Metrics.PolicyLoss, tokens)
			}
		}
	}
	return nil
}

// crossEntropy is −Σ log π / N over the N tokens to be learnt, given advantages of 1.
var crossEntropy = ppo.Config{Loss: ppo.LossPG, Aggregation: ppo.TokenMean, RolloutCorrection: ppo.CorrectionNone}

// source draws exercises.
type source struct {
	tasks      env.Tasks
	curriculum curriculum.Curriculum
	seed       uint64
	windows    map[string]*rollout.Engine // by condensing rule
}

func newSource(cfg Config, parts Parts, opts Options) (*source, error) {
	s := &source{tasks: parts.Tasks, curriculum: parts.Curriculum, seed: opts.Seed, windows: map[string]*rollout.Engine{}}
	var rules []string
	for _, stage := range cfg.Stages {
		rules = append(rules, stage.rules()...)
	}
	for _, rule := range rules {
		if s.windows[rule] != nil {
			continue
		}
		condenser, err := parts.Condenser(rule)
		if err != nil {
			return nil, err
		}
		engine, err := rollout.New(parts.Tasks, parts.Renderer, whole{parts.Demonstrator}, condenser, rollout.Config{
			MaxReply: opts.MaxReply, MaxTurns: opts.MaxTurns, Temperature: 1, Concurrency: 2, Backoff: policy.DefaultBackoff,
		})
		if err != nil {
			return nil, err
		}
		s.windows[rule] = engine
	}
	return s, nil
}

// whole is a demonstrator whose replies are never cut: nobody should learn to say half of
// one, and what follows could not be read back.
type whole struct{ policy.Sampler }

func (w whole) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	c, err := w.Sampler.Sample(ctx, request)
	if err == nil && c.FinishReason == policy.FinishLength {
		err = fmt.Errorf("rollout.max_reply: a reply has more than %d tokens: want more", request.MaxTokens)
	}
	return c, err
}

// draw returns the exercises of one step as a batch to learn from. A demonstration
// counts as one row of its share, however often it is cut.
func (s *source) draw(ctx context.Context, stage Stage, step int) (*batch.Batch, error) {
	rng := rand.New(rand.NewPCG(s.seed, uint64(step)))
	shares, rules := slices.Clone(stage.Drills), stage.rules()
	for _, rule := range rules {
		shares = append(shares, stage.Windows[rule])
	}
	var total float64
	for _, share := range shares {
		total += share
	}
	all := &batch.Batch{CuSeqLens: []int64{0}}
	jobs := make([][]rollout.Job, len(rules))
	for i := range stage.Rows {
		at, k := rng.Float64()*total, 0
		for k < len(shares)-1 && at >= shares[k] {
			at -= shares[k]
			k++
		}
		seed := rng.Uint64()
		if k < len(stage.Drills) {
			ids, mask := s.curriculum.Drill(k, seed)
			all.Rows = append(all.Rows, batch.Row{TrajectoryID: fmt.Sprint("drill ", i)})
			all.TokenIDs, all.LossMask = append(all.TokenIDs, ids...), append(all.LossMask, mask...)
			all.CuSeqLens = append(all.CuSeqLens, int64(len(all.TokenIDs)))
			continue
		}
		k -= len(stage.Drills)
		jobs[k] = append(jobs[k], rollout.Job{Task: s.tasks.Task(env.Clone, step*stage.Rows+i), TrajectoryID: fmt.Sprint(i), Seed: seed})
	}
	for k, rule := range rules {
		more, err := demonstrations(ctx, s.windows[rule], jobs[k])
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule, err)
		}
		if err := all.Append(more); err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule, err)
		}
	}
	all.Advantages, all.OldLogProbs = make([]float32, all.Tokens()), make([]float32, all.Tokens())
	for t, learnt := range all.LossMask {
		if learnt {
			all.Advantages[t] = 1
		}
	}
	return all, nil
}

// demonstrations plays jobs and returns their segments, without the columns that
// cloning does not read.
func demonstrations(ctx context.Context, engine *rollout.Engine, jobs []rollout.Job) (*batch.Batch, error) {
	played, err := engine.Collect(ctx, jobs, nil)
	if err != nil {
		return nil, err
	}
	closed := make([]*trajectory.Trajectory, 0, len(played))
	for i, t := range played {
		switch {
		case t.Status == trajectory.ContextOverflow && len(t.Segments) == 0:
			return nil, fmt.Errorf("%w of task %s: %s: want a larger condense.high", ErrDemonstration, jobs[i].Task.ID, t.Error)
		case !t.Status.Trainable():
			return nil, fmt.Errorf("%w of task %s: %s", ErrDemonstration, jobs[i].Task.ID, t.Error)
		case len(t.Segments) > 0:
			closed = append(closed, t)
		}
	}
	b, err := batch.FromTrajectories(closed)
	if err != nil {
		return nil, err
	}
	b.RolloutLogProbs, b.Rewards = nil, nil
	return b, nil
}
