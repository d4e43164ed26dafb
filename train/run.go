package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/policy"
)

// ConfigName is the file of a run directory that says what the run is determined by. The
// loop writes it and never reads it.
const ConfigName = "config.yaml"

// Options says where a run lives and who hears of it.
type Options struct {
	// Dir is the run directory: it must not exist for a new run, and must for a
	// resumed one.
	Dir    string
	Resume bool
	// Description is the text of the run's configuration, for ConfigName.
	Description []byte
	// Progress hears of every step; nil is silence. Its first line tells of the Model.
	Progress *Progress
	Model    string
}

// run is one training run.
type run struct {
	*Trainer
	dir               string
	description       []byte
	progress          *Progress
	metrics           *metricsFile
	lock              *os.File // config.yaml, locked as long as the run is at work
	history           []StepMetrics
	started           time.Time
	state             state // after the last step; time and memory are those before started
	warnedOverflow    bool  // that most trajectories overflow
	warnedTruncated   bool  // that nearly all are truncated
	warnedNoAdvantage bool  // that no action is better than another
}

// Run trains, evaluates on unseen tasks before and after, and returns the summary
// that it also writes into the run directory.
func (t *Trainer) Run(ctx context.Context, opts Options) (summary *Summary, err error) {
	if opts.Progress == nil {
		opts.Progress = NewProgress(io.Discard, false)
	}
	r := &run{Trainer: t, dir: opts.Dir, description: opts.Description, progress: opts.Progress, started: time.Now()}
	defer func() {
		// One line: where a disk is full, closing fails for the same reason.
		if err = cmp.Or(err, r.close()); errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: free space, then go on with: infinirl train --resume --run %s", err, r.dir)
		}
	}()
	if err := r.open(ctx, opts); err != nil {
		return nil, err
	}
	return r.train(ctx)
}

// open prepares the directory, the weights and the metrics.
func (r *run) open(ctx context.Context, opts Options) (err error) {
	if err := r.trainable(); err != nil {
		return err
	}
	if opts.Resume {
		if err := r.lockDirectory(); err != nil {
			return err
		}
		if err := removeLeftovers(r.dir); err != nil {
			return err
		}
	} else {
		if err := r.Check(ctx); err != nil {
			return err
		}
		if err := r.createDirectory(); err != nil { // only now: nothing is left of a run that cannot start
			return err
		}
	}
	model := opts.Model
	if model != "" {
		model += ", "
	}
	r.progress.Printf("%s: %swindow %d tokens, %d tasks × %d trajectories a step", r.Tasks.Name(), model, r.cfg.Window, r.cfg.Rollout.Groups, r.cfg.Rollout.GroupSize)
	if opts.Resume {
		if r.state, err = r.loadCheckpoint(ctx); err != nil {
			return inputError{fmt.Errorf("resume: %w", err)}
		}
		r.progress.Printf("resuming after step %d", r.state.Step)
	}
	r.metrics, r.history, err = openMetrics(r.dir, r.state.Step)
	if err != nil {
		return err
	}
	return r.publish(ctx)
}

// publish has the sampler take the learner's weights.
func (r *run) publish(ctx context.Context) error {
	weights, err := r.Learner.Publish(ctx)
	if err != nil {
		return fmt.Errorf("publish the weights: %w", err)
	}
	if err := r.Sampler.(policy.WeightTaker).TakeWeights(ctx, weights); err != nil {
		return fmt.Errorf("hand the weights to the sampler: %w", err)
	}
	return nil
}

func (r *run) close() error {
	var metrics, lock error
	if r.metrics != nil {
		metrics = r.metrics.Close()
	}
	if r.lock != nil {
		lock = r.lock.Close()
	}
	return cmp.Or(metrics, lock)
}

// createDirectory creates the run directory with its configuration.
func (r *run) createDirectory() error {
	err := CreateDirectory(r.dir, func(temporary string) error {
		return atomicfile.WriteBytes(filepath.Join(temporary, ConfigName), r.description)
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
	file, err := os.Open(filepath.Join(r.dir, ConfigName))
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

// train plays the evaluations and the steps between them.
func (r *run) train(ctx context.Context) (*Summary, error) {
	if r.state.WarmStart == nil {
		warm, err := r.evaluate(ctx, "evaluating the base", r.cfg.Eval.Temperature, r.progress)
		if err != nil {
			return nil, err
		}
		greedy, err := r.evaluate(ctx, "evaluating the base, greedy", 0, r.progress)
		if err != nil {
			return nil, err
		}
		r.state.WarmStart, r.state.WarmStartGreedy = &warm, greedy.Success
	}
	r.progress.Printf("base model: success %.3f on %d unseen tasks", r.state.WarmStart.Success, r.state.WarmStart.Tasks)
	if r.state.Step == 0 { // so that a resumed run need not evaluate the base again
		if err := r.checkpoint(ctx); err != nil {
			return nil, err
		}
	}
	r.progress.Printf("%s", stepHeader)
	for step := r.state.Step; step < r.cfg.Train.Steps && !r.reachedTarget(); step++ {
		metrics, err := r.step(ctx, step)
		if err != nil {
			return nil, err
		}
		if err := r.metrics.Append(metrics); err != nil {
			return nil, err
		}
		r.history = append(r.history, metrics)
		r.state.Step = step + 1
		r.state.TrainableTokens += int64(metrics.TrainableTokens)
		last := step+1 == r.cfg.Train.Steps || r.reachedTarget()
		if last || (step+1)%r.cfg.Train.CheckpointEvery == 0 {
			if err := r.checkpoint(ctx); err != nil {
				return nil, err
			}
		}
		r.progress.Printf("%s", stepLine(metrics, r.timeLeft()))
	}
	return r.finish(ctx)
}

// reachedTarget tells whether the run was good enough to stop.
func (r *run) reachedTarget() bool {
	target := r.cfg.Train.StopAtSuccess
	return target > 0 && Reached(r.history, r.cfg.Train.SuccessMetric, target) < len(r.history)
}

// timeLeft extrapolates the steps of this process to those still to do at most.
func (r *run) timeLeft() time.Duration {
	var seconds float64
	for _, m := range r.history[max(0, len(r.history)-5):] {
		seconds += (m.Timing.RolloutSeconds + m.Timing.TrainSeconds) / float64(min(5, len(r.history)))
	}
	left := float64(r.cfg.Train.Steps-r.state.Step) * seconds
	return time.Duration(left * float64(time.Second)).Round(time.Second)
}
