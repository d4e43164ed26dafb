package train

import (
	"fmt"
	"math"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/env/suites"
	"github.com/infinirl/infinirl/ppo"
)

// Validate returns an error that names the first key whose value cannot work.
func (c Config) Validate() error {
	const many = 1_000_000
	for _, k := range []struct {
		key         string
		value       int
		least, most int
	}{
		{"threads", c.Threads, 0, 1024},
		{"rollout.groups", c.Rollout.Groups, 1, many},
		{"rollout.group_size", c.Rollout.GroupSize, 1, many / max(1, min(many, c.Rollout.Groups))}, // a million in all
		{"rollout.max_reply", c.Rollout.MaxReply, 1, many},
		{"rollout.max_turns", c.Rollout.MaxTurns, 1, many},
		{"rollout.max_segments", c.Rollout.MaxSegments, 1, many},
		{"rollout.concurrency", c.Rollout.Concurrency, 1, 100_000},
		{"train.steps", c.Train.Steps, 0, 999_999},
		{"train.epochs", c.Train.Epochs, 1, many},
		{"train.minibatches", c.Train.Minibatches, 1, c.Rollout.Groups * c.Rollout.GroupSize},  // a trajectory each, at least
		{"train.micro_batch_tokens", c.Train.MicroBatchTokens, c.Condense.High, math.MaxInt32}, // a row must fit
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
		{"train.actor_lr", c.Train.ActorLR, 1e-12, 1},
		{"train.critic_lr", c.Train.CriticLR, 1e-12, 1},
		{"train.final_lr", c.Train.FinalLR, 0, 1},
		{"train.weight_decay", c.Train.WeightDecay, 0, 1},
		{"train.max_grad_norm", c.Train.MaxGradNorm, 1e-12, 1e12},
		{"eval.temperature", c.Eval.Temperature, minTemperature, maxTemperature}, // the greedy evaluation is always run too
		{"ppo.entropy_coef", c.PPO.EntropyCoef, -1e3, 1e3},
		{"ppo.kl_coef", c.PPO.KLCoef, 0, 1e3},
	} {
		if !(k.value >= k.least && k.value <= k.most) {
			return fmt.Errorf("%s: %v: want %v to %v", k.key, k.value, k.least, k.most)
		}
	}
	if c.Train.OldLogProbs != "rollout" && c.Train.OldLogProbs != "learner" {
		return fmt.Errorf("train.old_log_probs: %q: want rollout or learner", c.Train.OldLogProbs)
	}
	if t := c.Train.Truncated; t != "bootstrap" && t != "zero" && t != "drop" {
		return fmt.Errorf("train.truncated: %q: want bootstrap, zero or drop", t)
	}
	suite, err := suites.ByName(c.Env)
	if err != nil {
		return fmt.Errorf("env: %w", err)
	}
	if err := c.Pretrain.Validate(suite.Levels()); err != nil {
		return err
	}
	if err := c.condenser().Validate(); err != nil {
		return err // it names condense itself
	}
	if err := c.Advantage.Validate(); err != nil {
		return fmt.Errorf("advantage: %w", err)
	}
	if err := c.PPO.Validate(); err != nil {
		return fmt.Errorf("ppo: %w", err)
	}
	return c.validateTogether()
}

// validateTogether refuses settings that would have no effect beside others.
func (c Config) validateTogether() error {
	estimator, err := advantage.Lookup(c.Advantage.Estimator)
	switch {
	case err != nil:
		return fmt.Errorf("advantage: %w", err)
	case c.PPO.RolloutCorrection != ppo.CorrectionNone && c.Train.OldLogProbs != "learner":
		return fmt.Errorf("ppo.rollout_correction: %s: want train.old_log_probs learner beside it: with the sampler's own there is nothing to correct", c.PPO.RolloutCorrection)
	case c.PPO.KLCoef != 0 && c.PPO.KLIn == ppo.KLInReward && estimator.Batch:
		return fmt.Errorf("ppo.kl_in: reward: estimator %s compares scores and reads no rewards: want loss", estimator.Name)
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
