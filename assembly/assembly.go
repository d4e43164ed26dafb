// Package assembly turns a configuration into the parts of a run. It is the only
// place that knows every implementation by name: worlds, models, learners, samplers.
package assembly

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/errands"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/env/search"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/train"
)

// worlds are the synthetic worlds, the default one first.
var worlds = []func() curriculum.World{search.World, keytodoor.World, errands.World, errands.WithLuck}

// World returns the world of a name; the error lists the names there are.
func World(name string) (curriculum.World, error) {
	var names []string
	for _, of := range worlds {
		world := of()
		if world.Tasks.Name() == name {
			return world, nil
		}
		names = append(names, world.Tasks.Name())
	}
	return curriculum.World{}, fmt.Errorf("environment %q: want one of %s", name, strings.Join(names, ", "))
}

// Run is a set of parts that belong together, with what has to be closed after use.
type Run struct {
	*train.Trainer
	cfg        config.Config
	sampler    *lm.Sampler
	vocabulary int
	parameters int // of the actor
}

// VocabularySize is the number of token ids of the models.
func (r *Run) VocabularySize() int { return r.vocabulary }

// Close ends what the parts have started.
func (r *Run) Close() error { return r.sampler.Close() }

// Train trains; see train.Trainer.Run.
func (r *Run) Train(ctx context.Context, opts train.Options) (*train.Summary, error) {
	text, err := r.cfg.YAML()
	if err != nil {
		return nil, err
	}
	opts.Description = text
	opts.Model = fmt.Sprintf("%d parameters", r.parameters)
	return r.Trainer.Run(ctx, opts)
}

// Open builds the parts of a configuration.
func Open(cfg config.Config) (*Run, error) {
	base, err := findBase(&cfg)
	if err != nil {
		return nil, train.BadInput(err)
	}
	return build(cfg, base, true)
}

// reopen builds the parts of a run that goes on. The base model is only needed to keep
// close to: where its file has gone, the shape of the model is that of the newest
// checkpoint.
func reopen(cfg config.Config, dir string) (*Run, error) {
	base, err := findBase(&cfg)
	original := err == nil
	if errors.Is(err, fs.ErrNotExist) && cfg.PPO.KLCoef == 0 {
		if actor, missing := LatestActor(dir); missing == nil {
			base, err = lm.Load(actor)
		}
	}
	if err != nil {
		return nil, train.BadInput(fmt.Errorf("resume: %w", err))
	}
	return build(cfg, base, original)
}

// build puts the parts together. original tells that base is the run's own base model.
func build(cfg config.Config, base *lm.Model, original bool) (*Run, error) {
	world, err := fit(cfg, base)
	if err != nil {
		return nil, train.BadInput(err)
	}
	condenser, err := condense.New(cfg.Condenser(cfg.Condense.Rule))
	if err != nil {
		return nil, train.BadInput(err)
	}
	settings := embedded.Config{Threads: cfg.Threads, Temperature: cfg.Rollout.Temperature, WeightDecay: cfg.Train.WeightDecay, MaxGradNorm: cfg.Train.MaxGradNorm}
	parts := train.Parts{Tasks: world.Tasks, Renderer: world.Renderer, Condenser: condenser}
	if original {
		parts.Reference = embedded.NewReference(base, settings)
	}
	actor, err := embedded.NewActor(base, settings)
	if err != nil {
		return nil, err
	}
	parts.Learner = actor
	if estimator, err := advantage.Lookup(cfg.Advantage.Estimator); err == nil && estimator.Values {
		if parts.Critic, err = embedded.NewCritic(base, settings); err != nil {
			return nil, err
		}
	}
	const cacheBytes = 128 << 20 // forgotten sessions are kept only within this
	sampler, err := actor.Sampler(lm.Options{Threads: cfg.Threads, MaxBatch: cfg.Rollout.Concurrency, CacheBytes: cacheBytes})
	if err != nil {
		return nil, err
	}
	parts.Sampler = sampler
	trainer, err := train.New(parts, cfg.Loop())
	if err != nil {
		return nil, errors.Join(err, sampler.Close())
	}
	return &Run{trainer, cfg, sampler, world.VocabularySize, base.NumParameters()}, nil
}

// findBase loads the base model of a valid configuration.
func findBase(cfg *config.Config) (*lm.Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if _, err := World(cfg.Env); err != nil {
		return nil, fmt.Errorf("env: %w", err)
	}
	if cfg.Base != "" { // so that the run can be resumed from any folder
		absolute, err := filepath.Abs(cfg.Base)
		if err != nil {
			return nil, err
		}
		cfg.Base = absolute
	}
	return loadBase(*cfg)
}

// fit returns the world of a configuration if the base model can play in it, and if what
// the condensing rule writes can be spelled there.
func fit(cfg config.Config, base *lm.Model) (curriculum.World, error) {
	world, err := World(cfg.Env)
	if err != nil {
		return world, fmt.Errorf("env: %w", err)
	}
	if err := cfg.Pretrain.Validate(world.Levels()); err != nil {
		return world, err
	}
	if got, want := base.Config().VocabSize, world.VocabularySize; got != want {
		return world, fmt.Errorf("base: a vocabulary of %d tokens: environment %s has %d", got, cfg.Env, want)
	}
	if most := base.Config().MaxPositionEmbeddings; cfg.Condense.High > most {
		return world, fmt.Errorf("condense.high: %d: the base model has %d positions", cfg.Condense.High, most)
	}
	base.Threads = cfg.Threads
	for _, option := range written[cfg.Condense.Rule] {
		if text, ok := cfg.Condense.Options[option].(string); ok {
			if _, err := world.Renderer.EncodeText(text); err != nil {
				return world, fmt.Errorf("condense.%s: %w: want words of environment %s", option, err, cfg.Env)
			}
		}
	}
	return world, nil
}

// written are the options of condensing rules that stand in prompts as they are.
var written = map[string][]string{
	condense.ToolClear: {"placeholder"},
	condense.Summary:   {"summary_request", "summary_note"},
}

// Check returns the error that a run of the configuration would fail with at its start.
func Check(ctx context.Context, cfg config.Config) (err error) {
	run, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return run.Check(ctx)
}

// Train trains from a configuration.
func Train(ctx context.Context, cfg config.Config, opts train.Options) (summary *train.Summary, err error) {
	run, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return run.Train(ctx, opts)
}

// Resume goes on with the run in a directory.
func Resume(ctx context.Context, dir string, progress *train.Progress) (summary *train.Summary, err error) {
	cfg, err := config.ReadRun(dir)
	if err != nil {
		return nil, train.BadInput(fmt.Errorf("resume: %w", err))
	}
	run, err := reopen(cfg, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return run.Train(ctx, train.Options{Dir: dir, Resume: true, Progress: progress})
}

// Evaluate plays unseen tasks with the base model of a configuration.
func Evaluate(ctx context.Context, cfg config.Config, temperature float64, progress *train.Progress) (e train.Evaluation, err error) {
	run, err := Open(cfg)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return run.Evaluate(ctx, temperature, progress)
}
