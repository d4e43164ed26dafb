package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bases"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/suites"
	"github.com/infinirl/infinirl/lm"
)

// Check returns the error that Run would return for an unusable configuration.
func Check(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return inputError{err}
	}
	r := &run{cfg: cfg}
	_, err := r.openEnvironment()
	return err
}

// open prepares the directory, the models and the metrics.
func (r *run) open(resume bool) (err error) {
	if resume {
		if err := r.readDirectory(); err != nil {
			return err
		}
	}
	base, err := r.openEnvironment()
	if err != nil {
		return err
	}
	if !resume { // only now, so that nothing is left of a run that cannot start
		if err := r.createDirectory(); err != nil {
			return err
		}
	}
	r.progress.Printf("%s: %d parameters, window %d tokens, %d tasks × %d trajectories a step", r.cfg.Env, base.NumParameters(), r.cfg.Condense.High, r.cfg.Rollout.Groups, r.cfg.Rollout.GroupSize)
	if r.learner, err = newEmbedded(base, r.cfg, nil); err != nil {
		return err
	}
	if resume {
		if r.earlier, err = loadCheckpoint(r.dir, r.learner); err != nil {
			return inputError{fmt.Errorf("resume: %w", err)}
		}
		r.progress.Printf("resuming after step %d", r.earlier.Step)
	}
	r.metrics, r.history, err = openMetrics(r.dir, r.earlier.Step)
	if err != nil {
		return err
	}
	r.sampler, err = newSampler(r.learner.actor, r.cfg, r.learner.Version())
	return err
}

// ErrInput marks errors that are the user's to mend: a configuration, a
// checkpoint or a run directory that cannot be used.
var ErrInput = errors.New("unusable input")

// inputError is an error that is ErrInput without saying so.
type inputError struct{ error }

func (inputError) Is(target error) bool { return target == ErrInput }

func (e inputError) Unwrap() error { return e.error }

// openEnvironment finds the environment and the base model that plays in it.
func (r *run) openEnvironment() (*lm.Model, error) {
	suite, err := suites.ByName(r.cfg.Env)
	if err != nil {
		return nil, inputError{fmt.Errorf("env: %w", err)}
	}
	r.suite = suite
	base, err := LoadBase(r.cfg)
	if err != nil {
		return nil, inputError{err}
	}
	if got, want := base.Config().VocabSize, suite.VocabularySize(); got != want {
		return nil, inputError{fmt.Errorf("base: a vocabulary of %d tokens: environment %s has %d", got, r.cfg.Env, want)}
	}
	if most := base.Config().MaxPositionEmbeddings; r.cfg.Condense.High > most {
		return nil, inputError{fmt.Errorf("condense.high: %d: the base model has %d positions", r.cfg.Condense.High, most)}
	}
	base.Threads = r.cfg.Threads
	return base, r.checkWindow()
}

// checkWindow plays the opening of some tasks: a window that does not even hold
// system, task and one reply cannot be trained in.
func (r *run) checkWindow() error {
	const tasks = 32
	codec := r.suite.Codec()
	for i := range tasks {
		environment := r.suite.New()
		observation, err := environment.Reset(context.Background(), r.suite.Task(env.Eval, i))
		if err != nil {
			return fmt.Errorf("env: reset: %w", err)
		}
		tokens := len(codec.GenerationPrefix())
		for _, m := range observation.Messages {
			ids, err := codec.Encode(m)
			if err != nil {
				return fmt.Errorf("env: %w", err)
			}
			tokens += len(ids)
		}
		if err := environment.Close(); err != nil {
			return fmt.Errorf("env: close: %w", err)
		}
		if need := tokens + r.cfg.Rollout.MaxReply; need > r.cfg.Condense.High { // both are bounded
			return inputError{fmt.Errorf("condense.high: %d: system and task take %d tokens and a reply up to %d: want %d or more", r.cfg.Condense.High, tokens, r.cfg.Rollout.MaxReply, need)}
		}
	}
	return nil
}

// newSampler returns a sampler for as many episodes as are in flight at once.
func newSampler(actor *lm.Model, cfg Config, version int64) (*lm.Sampler, error) {
	const cacheBytes = 128 << 20 // forgotten sessions are kept only within this
	return lm.NewSampler(actor, lm.Options{Threads: cfg.Threads, MaxBatch: cfg.Rollout.Concurrency, CacheBytes: cacheBytes, Version: version})
}

func (r *run) close() error {
	var errs []error
	if r.sampler != nil {
		errs = append(errs, r.sampler.Close())
	}
	if r.metrics != nil {
		errs = append(errs, r.metrics.Close())
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	return errors.Join(errs...)
}

// createDirectory creates the run directory with its configuration.
func (r *run) createDirectory() error {
	if r.cfg.Base != "" { // so that the run can be resumed from any folder
		absolute, err := filepath.Abs(r.cfg.Base)
		if err != nil {
			return err
		}
		r.cfg.Base = absolute
	}
	text, err := r.cfg.YAML()
	if err != nil {
		return err
	}
	err = createDirectory(r.dir, func(temporary string) error {
		return atomicfile.WriteBytes(filepath.Join(temporary, configName), text)
	})
	if errors.Is(err, os.ErrExist) {
		return inputError{fmt.Errorf("run directory %w: choose another --run, or add --resume to go on with it", err)}
	}
	if err != nil {
		return err
	}
	return r.lockDirectory()
}

// lockDirectory makes sure that no other process is at the same run.
func (r *run) lockDirectory() error {
	file, err := os.Open(filepath.Join(r.dir, configName))
	if err != nil {
		return err
	}
	if err := lockFile(file); err != nil {
		file.Close()
		return inputError{fmt.Errorf("run directory %s: another process is at this run: wait for it to end", r.dir)}
	}
	r.lock = file
	return nil
}

// readDirectory reads the configuration of the run to resume.
func (r *run) readDirectory() error {
	cfg, err := ReadConfig(r.dir)
	if err != nil {
		return inputError{fmt.Errorf("resume: %w", err)}
	}
	r.cfg = cfg
	if err := r.lockDirectory(); err != nil {
		return err
	}
	return removeLeftovers(r.dir)
}

// ReadConfig returns the configuration of a run directory.
func ReadConfig(dir string) (Config, error) {
	var cfg Config
	path := filepath.Join(dir, configName)
	text, err := os.ReadFile(path)
	if err != nil {
		return cfg, fmt.Errorf("%s is not a run directory: %w", dir, err)
	}
	// A key that the file lacks, written by an older version, has its default.
	if err := cfg.MergeBytes(text, path); err != nil {
		return cfg, err
	}
	defaults, err := Shipped(cfg.Env)
	if err != nil {
		return cfg, fmt.Errorf("%s: env: %w", path, err)
	}
	cfg = defaults
	if err := cfg.MergeBytes(text, path); err != nil {
		return cfg, err
	}
	if err := cfg.Validate(); err != nil {
		return cfg, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// LatestActor returns the path of the actor in the newest checkpoint of a run.
func LatestActor(dir string) (string, error) {
	checkpoint, err := LatestCheckpoint(dir)
	return filepath.Join(checkpoint, actorName), err
}

const configName = "config.yaml"

// LoadBase returns the base model of a configuration: the file it names, or the
// embedded one of its environment.
func LoadBase(cfg Config) (*lm.Model, error) {
	if cfg.Base != "" {
		return loadModel(cfg.Base)
	}
	data, err := bases.Read(cfg.Env)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	model, err := lm.Unmarshal(data)
	if err != nil {
		return nil, fmt.Errorf("embedded base of %s: %w", cfg.Env, err)
	}
	return model, nil
}

// loadModel reads a checkpoint: one file, or a directory with config.json.
func loadModel(path string) (*lm.Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	if info.IsDir() {
		model, err := lm.Load(path)
		if err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
		return model, nil
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("base: %s is neither a file nor a folder", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	model, err := lm.Unmarshal(data)
	if err != nil {
		return nil, fmt.Errorf("base: %s: %w", path, err)
	}
	return model, nil
}
