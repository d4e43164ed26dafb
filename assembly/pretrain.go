package assembly

import (
	"context"
	"fmt"

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
	world, err := World(cfg.Env)
	if err != nil {
		return train.BadInput(fmt.Errorf("env: %w", err))
	}
	if err := cfg.Pretrain.Validate(world.Levels()); err != nil {
		return train.BadInput(err)
	}
	_, err = kernel.Default()
	return train.BadInput(err)
}

// Pretrain makes the base model of a configuration's world.
func Pretrain(ctx context.Context, cfg config.Config, report pretrain.Report) (*lm.Model, error) {
	if err := CheckPretrain(cfg); err != nil {
		return nil, err
	}
	world, err := World(cfg.Env)
	if err != nil {
		return nil, err
	}
	shape := cfg.Pretrain.Model
	shape.VocabSize = world.VocabularySize
	model, err := lm.NewActor(shape, cfg.Seed)
	if err != nil {
		return nil, err
	}
	actor, err := embedded.NewActor(model, embedded.Config{Threads: cfg.Threads, Temperature: 1, MaxGradNorm: 1})
	if err != nil {
		return nil, err
	}
	parts := pretrain.Parts{
		Tasks: world.Tasks, Renderer: world.Renderer, Curriculum: world.Curriculum,
		Demonstrator: scripted.New(world.Renderer, world.Demonstrator),
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
	return actor.Model(), err
}
