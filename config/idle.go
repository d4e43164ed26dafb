package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/ppo"
)

// idle returns an error that names the first key that somebody has set and that can have
// no effect beside the others: whoever set it expects one. The shipped defaults may idle.
func (c Config) idle() error {
	estimator, err := advantage.Lookup(c.Advantage.Estimator)
	if err != nil {
		return fmt.Errorf("advantage: %w", err)
	}
	of := "estimator " + estimator.Name
	for _, k := range []struct {
		key string
		// set tells that the value asks for something.
		set, idle bool
		why       string
	}{
		{"advantage.gamma", c.Advantage.Gamma != 1, estimator.Batch, of + " compares scores: there is no discount"},
		{"advantage.lambda", c.Advantage.Lambda != 1, !estimator.Values, of + " has no λ"},
		{"advantage.lambda_alpha", c.Advantage.LambdaAlpha != 0, !estimator.Values, of + " has no λ"},
		{"advantage.critic_lambda", c.Advantage.CriticLambda != 1, !estimator.Values, of + " has no critic"},
		{"advantage.lambda", true, c.Advantage.LambdaAlpha != 0, "advantage.lambda_alpha takes its place"},
		{"advantage.whiten", !c.Advantage.Whiten, estimator.Whiten, of + " always whitens"},
		{"ppo.value_clip", c.PPO.ValueClip != 0, !estimator.Values, of + " has no critic"},
		{"train.critic_lr", true, !estimator.Values, of + " has no critic"},
		{"train.scale_values", c.Train.ScaleValues, !estimator.Values, of + " has no critic"},
		{"train.critic_epochs", c.Train.CriticEpochs != 0, !estimator.Values, of + " has no critic"},
		{"train.critic_minibatches", c.Train.CriticMinibatches != 0, !estimator.Values, of + " has no critic"},
		{"train.truncated", c.Train.Truncated == "bootstrap", !estimator.Values, of + " has no critic to bootstrap with: want zero or drop"},
		{"ppo.dual_clip", c.PPO.DualClip != 0, c.PPO.Loss != ppo.LossPPO, "only loss ppo has a dual clip, not " + c.PPO.Loss},
		{"ppo.clip_low", true, c.PPO.Loss == ppo.LossPG || c.PPO.Loss == ppo.LossCISPO, "loss " + c.PPO.Loss + " has no lower clip"},
		{"ppo.clip_high", true, c.PPO.Loss == ppo.LossPG, "loss pg does not clip"},
		{"ppo.kl_kind", true, c.PPO.KLCoef == 0, "ppo.kl_coef is 0"},
		{"ppo.kl_in", true, c.PPO.KLCoef == 0, "ppo.kl_coef is 0"},
		{"ppo.rollout_cap", true, c.PPO.RolloutCorrection == ppo.CorrectionNone, "ppo.rollout_correction is none"},
	} {
		if k.set && k.idle && slices.Contains(c.chosen[c.mayIdle:], k.key) {
			return fmt.Errorf("%s: without effect: %s", k.key, k.why)
		}
	}
	return cmp.Or(c.idleRule(), c.idleLearner(), c.idleTasks())
}

// MayIdle returns the configuration as one that serves several methods: what somebody has
// set so far may have no effect in some of them.
func (c Config) MayIdle() Config {
	c.mayIdle = len(c.chosen)
	return c
}

// Chosen tells whether somebody has set a key, beyond the shipped configuration.
func (c Config) Chosen(key string) bool { return slices.Contains(c.chosen, key) }

// idleRule is idle for what condensing rules read.
func (c Config) idleRule() error {
	rule, err := condense.Lookup(c.Condense.Rule)
	if err != nil {
		return err
	}
	for _, key := range c.chosen[c.mayIdle:] {
		option, ours := strings.CutPrefix(key, "condense.")
		if _, known := rule.Options[option]; known || !ours || option == "rule" || option == "high" {
			continue
		}
		_, other := c.Condense.Options[option]
		if other || rule.Name == condense.None {
			return fmt.Errorf("%s: without effect: rule %s does not read it", key, rule.Name)
		}
	}
	return nil
}
