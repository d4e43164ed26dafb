// Package assembly turns a configuration into the parts of a run. It is the only
// place that knows every implementation by name: worlds, models, learners, samplers.
package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/infinirl/infinirl/ablation"
	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/train"
)

// Run is a set of parts that belong together, with what has to be closed after use.
type Run struct {
	*train.Trainer
	cfg        config.Config
	vocabulary int
	model      string // in words
	opened     []func() error
}

// VocabularySize is the number of token ids of the models.
func (r *Run) VocabularySize() int { return r.vocabulary }

// Close ends what the parts have started, the last first.
func (r *Run) Close() error {
	var errs []error
	for len(r.opened) > 0 {
		last := len(r.opened) - 1
		errs = append(errs, r.opened[last]())
		r.opened = r.opened[:last]
	}
	return errors.Join(errs...)
}

// closes has Close call end.
func (r *Run) closes(end func() error) { r.opened = append(r.opened, end) }

// Train trains; see train.Trainer.Run.
func (r *Run) Train(ctx context.Context, opts train.Options) (*train.Summary, error) {
	text, err := r.cfg.YAML()
	if err != nil {
		return nil, err
	}
	opts.Description = text
	opts.Model = r.model
	return r.Trainer.Run(ctx, opts)
}

// Open builds the parts of a configuration. Close ends what they start; commands end with
// ctx too.
func Open(ctx context.Context, cfg config.Config) (*Run, error) {
	return build(ctx, cfg, true, loadBase)
}

// reopen builds the parts of a run that goes on. The base model is only needed to keep
// close to, or to adapt: where its file has gone, the shape of the model is that of the newest
// checkpoint.
func reopen(ctx context.Context, cfg config.Config, dir string) (*Run, error) {
	run, err := build(ctx, cfg, true, func(cfg config.Config) (*lm.Model, error) {
		base, err := loadBase(cfg)
		if errors.Is(err, fs.ErrNotExist) && cfg.PPO.KLCoef == 0 && !cfg.Learner.LoRA.Enabled() {
			if actor, missing := LatestActor(dir); missing == nil {
				return lm.Load(actor)
			}
		}
		return base, err
	})
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	return run, nil
}

// build puts the parts together, those too that only training needs if it is to train. load
// gives the base model of an embedded engine.
func build(ctx context.Context, cfg config.Config, trains bool, load func(config.Config) (*lm.Model, error)) (_ *Run, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, train.BadInput(err)
	}
	if err := settle(&cfg); err != nil {
		return nil, train.BadInput(err)
	}
	run := &Run{cfg: cfg}
	defer func() {
		if err != nil {
			err = cmp.Or(err, run.Close())
		}
	}()
	var base *lm.Model
	if cfg.Learner.Engine == config.EngineEmbedded {
		if base, err = load(cfg); err != nil {
			return nil, train.BadInput(err)
		}
	}
	played, err := run.open(ctx)
	if err != nil {
		return nil, train.BadInput(err)
	}
	condenser, err := condense.New(cfg.Condenser(cfg.Condense.Rule))
	if err != nil {
		return nil, train.BadInput(err)
	}
	parts := train.Parts{Tasks: played.tasks, Renderer: played.renderer, Condenser: condenser}
	if cfg.Learner.Engine == config.EngineTinker {
		err = run.remote(ctx, played, trains, &parts)
	} else {
		err = run.embedded(base, played, trains, &parts)
	}
	if err != nil {
		return nil, err
	}
	run.Trainer, err = train.New(parts, cfg.Loop())
	return run, err
}

// settle makes the paths of a configuration absolute, so that the run can be resumed from
// any folder, and finds the tokenizer of the base model.
func settle(cfg *config.Config) error {
	if cfg.Chat.Tokenizer == "" && isFolder(cfg.Base) && isFile(filepath.Join(cfg.Base, tokenizerFile)) {
		cfg.Chat.Tokenizer = cfg.Base
	}
	if cfg.Env == config.OwnTasks && cfg.Tasks.Dir == "" {
		cfg.Tasks.Dir = "."
	}
	paths := []*string{&cfg.Base, &cfg.Chat.Tokenizer, &cfg.Tasks.File, &cfg.Tasks.Corpus, &cfg.Tasks.Index, &cfg.Tasks.Dir}
	if t := cfg.Chat.Template; t != OwnTemplate && t != config.ChatML && t != config.Words {
		paths = append(paths, &cfg.Chat.Template)
	}
	for _, path := range paths {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	return nil
}

// readsValues tells whether a configuration needs a critic.
func readsValues(cfg config.Config) bool {
	estimator, err := advantage.Lookup(cfg.Advantage.Estimator)
	return err == nil && estimator.Values
}

// Check returns the error that a run of the configuration would fail with at its start.
func Check(ctx context.Context, cfg config.Config) (err error) {
	run, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, run.Close()) }()
	return run.Check(ctx)
}

// Train trains from a configuration.
func Train(ctx context.Context, cfg config.Config, opts train.Options) (summary *train.Summary, err error) {
	run, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, run.Close()) }()
	return run.Train(ctx, opts)
}

// Resume goes on with the run in a directory.
func Resume(ctx context.Context, dir string, progress *train.Progress) (summary *train.Summary, err error) {
	if ablation.IsComparison(dir) {
		return nil, train.BadInput(fmt.Errorf("resume: %s is a comparison of runs: want infinirl ablate --resume --run %[1]s, or one of the runs in it", dir))
	}
	cfg, err := config.ReadRun(dir)
	if err != nil {
		return nil, train.BadInput(fmt.Errorf("resume: %w", err))
	}
	run, err := reopen(ctx, cfg, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, run.Close()) }()
	return run.Train(ctx, train.Options{Dir: dir, Resume: true, Progress: progress})
}

// Evaluate plays unseen tasks with the base model of a configuration, or with the weights
// of a checkpoint of a run of it.
func Evaluate(ctx context.Context, cfg config.Config, checkpoint string, temperature float64, progress *train.Progress) (e train.Evaluation, err error) {
	run, err := build(ctx, cfg, false, loadBase)
	if err != nil {
		return e, err
	}
	defer func() { err = cmp.Or(err, run.Close()) }()
	if err := run.start(ctx, checkpoint); err != nil {
		return e, err
	}
	return run.Evaluate(ctx, temperature, progress)
}
