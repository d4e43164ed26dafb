// Package config is the configuration of a run: one YAML file whose keys, defaults and
// meanings are those of configs/search.yaml.
package config

import (
	"fmt"
	"maps"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/pretrain"
	"github.com/infinirl/infinirl/train"
)

// Config is everything a run is determined by.
type Config struct {
	Env     string `yaml:"env"`
	Seed    uint64 `yaml:"seed"`
	Base    string `yaml:"base"`
	Threads int    `yaml:"threads"`

	Learner   Learner             `yaml:"learner"`
	Chat      Chat                `yaml:"chat"`
	Tasks     Tasks               `yaml:"tasks"`
	Condense  Condense            `yaml:"condense"`
	Rollout   train.RolloutConfig `yaml:"rollout"`
	Advantage advantage.Config    `yaml:"advantage"`
	PPO       ppo.Config          `yaml:"ppo"`
	Train     train.LoopConfig    `yaml:"train"`
	Eval      train.EvalConfig    `yaml:"eval"`
	Pretrain  Pretrain            `yaml:"pretrain"`

	// chosen are the keys that somebody set, beyond the shipped configuration.
	chosen []string
	// mayIdle of them, the first ones, may be without effect.
	mayIdle int
}

// Pretrain says what base model is made, and from what.
type Pretrain struct {
	Model           lm.Config `yaml:"model"`
	pretrain.Config `yaml:",inline"`
}

// Validate names the first key that cannot work, given the drill levels of a world.
func (p Pretrain) Validate(levels int) error {
	model := p.Model
	if model.VocabSize != 0 {
		return fmt.Errorf("pretrain.model.vocab_size: %d: want none: the world's words decide", model.VocabSize)
	}
	model.VocabSize = 1
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
	return p.Config.Validate(levels)
}

// Condense chooses the rule that cuts trajectories. Lengths in tokens.
type Condense struct {
	Rule string `yaml:"rule"`
	High int    `yaml:"high"`
	Low  int    `yaml:"low"`
	// KeepLast, if nil, is what suits the rule.
	KeepLast     *int     `yaml:"keep_last"`
	KeepFirst    int      `yaml:"keep_first"`
	ExcludeTools []string `yaml:"exclude_tools"`
	ClearAtLeast int      `yaml:"clear_at_least"`
	CutOversize  bool     `yaml:"cut_oversize"`
	// Options are the rules' own, under their names.
	Options map[string]any `yaml:",inline"`
}

// own gives the configuration memory of its own for what a copy would share.
func (c *Condense) own() {
	c.Options = maps.Clone(c.Options)
	if c.KeepLast != nil {
		keep := *c.KeepLast
		c.KeepLast = &keep
	}
}

// Condenser is the configuration of a condensing rule: the chosen one, or another.
func (c Config) Condenser(rule string) condense.Config {
	out := condense.DefaultFor(rule, c.Condense.High)
	if c.Condense.KeepLast != nil {
		out.KeepLast = *c.Condense.KeepLast
	}
	out.Low, out.KeepFirst, out.ExcludeTools = c.Condense.Low, c.Condense.KeepFirst, c.Condense.ExcludeTools
	out.ClearAtLeast, out.CutOversize = c.Condense.ClearAtLeast, c.Condense.CutOversize
	out.MaxSegments, out.Options = c.Rollout.MaxSegments, c.Condense.Options
	return out
}

// Loop is what the training loop has to know.
func (c Config) Loop() train.Config {
	return train.Config{Seed: c.Seed, Window: c.Condense.High, Rollout: c.Rollout, Advantage: c.Advantage, PPO: c.PPO, Train: c.Train, Eval: c.Eval}
}

// Validate returns an error that names the first key whose value cannot work, whatever
// the environment and the models.
func (c Config) Validate() error {
	if c.Threads < 0 || c.Threads > 1024 {
		return fmt.Errorf("threads: %d: want 0 to 1024", c.Threads)
	}
	if err := c.Learner.validate(); err != nil {
		return err
	}
	if c.Env == OwnTasks {
		if err := c.Tasks.validate(); err != nil {
			return err
		}
	}
	if err := c.Condenser(c.Condense.Rule).Validate(); err != nil {
		return err // it names condense itself
	}
	if err := c.Loop().Validate(); err != nil {
		return err
	}
	return c.idle()
}
