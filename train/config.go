package train

import (
	"cmp"
	"fmt"
	"math"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/ppo"
)

// Config is what the loop itself has to know; the parts that it is handed know the rest.
type Config struct {
	// Seed is that of everything random: tasks, sampling, shuffling.
	Seed uint64
	// Window is the context window in tokens: the prompt and the longest reply must fit.
	Window    int
	Rollout   RolloutConfig
	Advantage advantage.Config
	PPO       ppo.Config
	Train     LoopConfig
	Eval      EvalConfig
}

// RolloutConfig says how many trajectories a step plays and how.
type RolloutConfig struct {
	Groups      int     `yaml:"groups"`
	GroupSize   int     `yaml:"group_size"`
	Temperature float64 `yaml:"temperature"`
	MaxReply    int     `yaml:"max_reply"`
	MaxTurns    int     `yaml:"max_turns"`
	MaxSegments int     `yaml:"max_segments"` // of the condenser
	Concurrency int     `yaml:"concurrency"`
	// MaxStaleness is how many updates the oldest weights that sampled a trajectory may
	// be behind the learner's.
	MaxStaleness int `yaml:"max_staleness"`
}

// LoopConfig says how the learner uses each step's trajectories.
type LoopConfig struct {
	Steps int `yaml:"steps"`
	// SuccessMetric is what StopAtSuccess and comparisons look at: success, or one of the
	// environment's metrics.
	SuccessMetric string  `yaml:"success_metric"`
	StopAtSuccess float64 `yaml:"stop_at_success"`
	Epochs        int     `yaml:"epochs"`
	Minibatches   int     `yaml:"minibatches"`
	// CriticEpochs and CriticMinibatches are the critic's own; 0 is as many as the actor's.
	CriticEpochs      int `yaml:"critic_epochs"`
	CriticMinibatches int `yaml:"critic_minibatches"`
	// ScaleValues has the critic learn values in units of the spread of returns.
	ScaleValues bool `yaml:"scale_values"`
	// TargetKL ends the actor's passes of a step after the mini-batch whose approx_kl
	// exceeds it; 0 is never.
	TargetKL        float64 `yaml:"target_kl"`
	ActorLR         float64 `yaml:"actor_lr"`
	CriticLR        float64 `yaml:"critic_lr"`
	FinalLR         float64 `yaml:"final_lr"`
	CriticWarmup    int     `yaml:"critic_warmup"`
	WeightDecay     float64 `yaml:"weight_decay"`
	MaxGradNorm     float64 `yaml:"max_grad_norm"`
	OldLogProbs     string  `yaml:"old_log_probs"`
	Truncated       string  `yaml:"truncated"`
	CheckpointEvery int     `yaml:"checkpoint_every"`
	KeepCheckpoints int     `yaml:"keep_checkpoints"`
	SaveRollouts    bool    `yaml:"save_rollouts"`
}

// EvalConfig says what the evaluations before and after training play.
type EvalConfig struct {
	Tasks       int     `yaml:"tasks"`
	Temperature float64 `yaml:"temperature"`
}

// criticPasses are the critic's passes over a step's trajectories, and the optimizer steps
// of each.
func (c LoopConfig) criticPasses() (epochs, minibatches int) {
	return cmp.Or(c.CriticEpochs, c.Epochs), cmp.Or(c.CriticMinibatches, c.Minibatches)
}

// learningRateShare is 1 at the first step and falls linearly to final_lr at the last.
func (c Config) learningRateShare(step int) float64 {
	if c.Train.Steps < 2 {
		return 1
	}
	return 1 - (1-c.Train.FinalLR)*float64(step)/float64(c.Train.Steps-1)
}

// Validate returns an error that names the first key whose value cannot work.
func (c Config) Validate() error {
	const many = 1_000_000
	for _, k := range []struct {
		key         string
		value       int
		least, most int
	}{
		{"rollout.groups", c.Rollout.Groups, 1, many},
		{"rollout.group_size", c.Rollout.GroupSize, 1, many / max(1, min(many, c.Rollout.Groups))}, // a million in all
		{"rollout.max_reply", c.Rollout.MaxReply, 1, many},
		{"rollout.max_turns", c.Rollout.MaxTurns, 1, many},
		{"rollout.max_segments", c.Rollout.MaxSegments, 1, many},
		{"rollout.concurrency", c.Rollout.Concurrency, 1, 100_000},
		{"rollout.max_staleness", c.Rollout.MaxStaleness, 0, many},
		{"train.steps", c.Train.Steps, 0, 999_999},
		{"train.epochs", c.Train.Epochs, 1, many},
		{"train.minibatches", c.Train.Minibatches, 1, c.Rollout.Groups * c.Rollout.GroupSize}, // a trajectory each, at least
		{"train.critic_epochs", c.Train.CriticEpochs, 0, many},
		{"train.critic_minibatches", c.Train.CriticMinibatches, 0, many}, // a trajectory each at least, whatever the number
		{"train.critic_warmup", c.Train.CriticWarmup, 0, math.MaxInt32},
		{"train.checkpoint_every", c.Train.CheckpointEvery, 1, math.MaxInt32},
		{"train.keep_checkpoints", c.Train.KeepCheckpoints, 1, math.MaxInt32},
		{"eval.tasks", c.Eval.Tasks, 1, many},
	} {
		if k.value < k.least || k.value > k.most {
			return fmt.Errorf("%s: %d: want %d to %d", k.key, k.value, k.least, k.most)
		}
	}
	for _, k := range []struct {
		key         string
		value       float64
		least, most float64
	}{
		{"rollout.temperature", c.Rollout.Temperature, minTemperature, maxTemperature},
		{"train.stop_at_success", c.Train.StopAtSuccess, 0, 1},
		{"train.target_kl", c.Train.TargetKL, 0, 1e3},
		{"train.actor_lr", c.Train.ActorLR, 1e-12, 1},
		{"train.critic_lr", c.Train.CriticLR, 1e-12, 1},
		{"train.final_lr", c.Train.FinalLR, 0, 1},
		{"train.weight_decay", c.Train.WeightDecay, 0, 1},
		{"train.max_grad_norm", c.Train.MaxGradNorm, 0, 1e12},
		{"eval.temperature", c.Eval.Temperature, minTemperature, maxTemperature}, // the greedy evaluation is always run too
		{"ppo.entropy_coef", c.PPO.EntropyCoef, -1e3, 1e3},
		{"ppo.kl_coef", c.PPO.KLCoef, 0, 1e3},
	} {
		if !(k.value >= k.least && k.value <= k.most) {
			return fmt.Errorf("%s: %v: want %v to %v", k.key, k.value, k.least, k.most)
		}
	}
	if c.Train.SuccessMetric == "" {
		return fmt.Errorf("train.success_metric: %q: want %s, or the name of one of the environment's metrics", c.Train.SuccessMetric, Success)
	}
	if c.Train.OldLogProbs != "rollout" && c.Train.OldLogProbs != "learner" {
		return fmt.Errorf("train.old_log_probs: %q: want rollout or learner", c.Train.OldLogProbs)
	}
	if t := c.Train.Truncated; t != "bootstrap" && t != "zero" && t != "drop" {
		return fmt.Errorf("train.truncated: %q: want bootstrap, zero or drop", t)
	}
	if err := c.Advantage.Validate(); err != nil {
		return fmt.Errorf("advantage: %w", err)
	}
	if err := c.PPO.Validate(); err != nil {
		return fmt.Errorf("ppo: %w", err)
	}
	return c.validateTogether()
}

// validateTogether refuses settings that could have no effect beside others.
func (c Config) validateTogether() error {
	estimator, err := advantage.Lookup(c.Advantage.Estimator)
	switch {
	case err != nil:
		return fmt.Errorf("advantage: %w", err)
	case c.PPO.RolloutCorrection != ppo.CorrectionNone && c.Train.OldLogProbs != "learner":
		return fmt.Errorf("ppo.rollout_correction: %s: want train.old_log_probs learner beside it: with the sampler's own there is nothing to correct", c.PPO.RolloutCorrection)
	case c.PPO.KLCoef != 0 && c.PPO.KLIn == ppo.KLInReward && estimator.Batch:
		return fmt.Errorf("ppo.kl_in: reward: estimator %s compares scores and reads no rewards: want loss", estimator.Name)
	case estimator.Batch && c.Rollout.GroupSize < 2:
		return fmt.Errorf("rollout.group_size: %d: estimator %s compares the trajectories of a task: want 2 or more", c.Rollout.GroupSize, estimator.Name)
	case c.Train.CriticWarmup > 0 && !estimator.Values:
		return fmt.Errorf("train.critic_warmup: %d: estimator %s has no critic: want 0", c.Train.CriticWarmup, estimator.Name)
	}
	return nil
}

// The temperatures within which a softmax in float32 means something.
const (
	minTemperature = 1e-3
	maxTemperature = 1e3
)

// ValidTemperature returns an error unless t is 0 (greedy) or one to sample at.
func ValidTemperature(t float64) error {
	if t == 0 || t >= minTemperature && t <= maxTemperature {
		return nil
	}
	return fmt.Errorf("%v: want 0 (greedy) or %v to %v", t, minTemperature, maxTemperature)
}
