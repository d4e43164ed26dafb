package assembly

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/lm/kernel"
	"github.com/infinirl/infinirl/policy/scripted"
	"github.com/infinirl/infinirl/pretrain"
	"github.com/infinirl/infinirl/train"
)

// CheckPretrain returns the error that Pretrain would fail with at its start.
func CheckPretrain(cfg config.Config) error {
	if cfg.Env == config.OwnTasks {
		return train.BadInput(errors.New("env: tasks of your own have no demonstrator to clone: want one of the worlds"))
	}
	if cfg.Learner.Engine != config.EngineEmbedded {
		return train.BadInput(fmt.Errorf("learner.engine: %s: base models are made on this machine: want %s", cfg.Learner.Engine, config.EngineEmbedded))
	}
	world, err := World(cfg.Env)
	if err != nil {
		return train.BadInput(fmt.Errorf("env: %w", err))
	}
	if err := cfg.Pretrain.Validate(world.Levels()); err != nil {
		return train.BadInput(err)
	}
	if cfg.Base != "" || cfg.Chat.Tokenizer != "" {
		for i, stage := range cfg.Pretrain.Stages {
			if slices.ContainsFunc(stage.Drills, func(share float64) bool { return share > 0 }) {
				return train.BadInput(fmt.Errorf("pretrain.stages[%d].drills: they are written in the words of environment %s, which a language model does not have: want windows alone (examples/language-model has stages)", i, cfg.Env))
			}
		}
	}
	_, err = kernel.Default()
	return train.BadInput(err)
}

// Pretrain makes the base model of a configuration's world: a small one of its words from
// fresh weights, or that of a language model which learns how the world is played.
func Pretrain(ctx context.Context, cfg config.Config, report pretrain.Report) (*lm.Model, error) {
	if err := CheckPretrain(cfg); err != nil {
		return nil, err
	}
	if err := settle(&cfg); err != nil {
		return nil, train.BadInput(err)
	}
	world, err := World(cfg.Env)
	if err != nil {
		return nil, err
	}
	model, played, err := student(ctx, cfg)
	if err != nil {
		return nil, err
	}
	actor, err := embedded.TakeActor(model, embedded.Config{Threads: cfg.Threads, Temperature: 1, MaxGradNorm: 1})
	if err != nil {
		return nil, err
	}
	renderer := scripted.NewRecall(played.renderer)
	parts := pretrain.Parts{
		Tasks: world.Tasks, Renderer: renderer, Curriculum: world.Curriculum,
		Demonstrator: scripted.New(renderer, world.Demonstrator),
		Condenser: func(rule string) (condense.Condenser, error) {
			c := cfg.Condenser(rule)
			if rule == condense.None {
				c.High = 1 << 20 // never full
			}
			return condense.New(c)
		},
		Learner: actor,
	}
	err = pretrain.Run(ctx, cfg.Pretrain.Config, parts, pretrain.Options{
		MaxReply: cfg.Rollout.MaxReply, MaxTurns: cfg.Rollout.MaxTurns, Seed: cfg.Seed, Report: report,
	})
	if errors.Is(err, pretrain.ErrDemonstration) {
		err = train.BadInput(err)
	}
	return actor.Model(), err
}

// student is the model that clones, and what it plays.
func student(ctx context.Context, cfg config.Config) (*lm.Model, played, error) {
	run := &Run{cfg: cfg}
	p, err := run.open(ctx)
	if err != nil {
		return nil, p, train.BadInput(err)
	}
	if cfg.Base != "" {
		base, err := loadBase(cfg)
		if err != nil {
			return nil, p, train.BadInput(err)
		}
		return base, p, train.BadInput(fits(cfg, base, p))
	}
	shape := cfg.Pretrain.Model
	shape.VocabSize = p.vocabulary
	model, err := lm.NewActor(shape, cfg.Seed)
	return model, p, err
}
