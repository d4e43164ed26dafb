// Package train is the training loop: rollouts by the current policy, credit
// across the cuts, PPO updates on whole trajectories, and a run directory from
// which a run that was killed at any instant goes on as if it had not been.
//
// A step's tasks, sampling seeds and shuffles follow from the run's seed and the
// step's number alone, so the state to resume from is weights, optimizers and
// the number of steps done.
package train

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/lm"
)

// Options says where a run lives and who hears of it.
type Options struct {
	// Dir is the run directory: it must not exist for a new run, and must for a
	// resumed one, whose configuration is then the directory's.
	Dir    string
	Resume bool
	// Progress hears of every step; nil is silence.
	Progress *Progress
}

// run is one training run.
type run struct {
	cfg      Config
	dir      string
	progress *Progress
	suite    env.Suite
	learner  *embedded
	sampler  *lm.Sampler
	metrics  *metricsFile
	lock     *os.File // config.yaml, locked as long as the run is at work
	history  []StepMetrics
	started  time.Time
	earlier  state // what the run did before it was resumed
}

// Run trains, evaluates on unseen tasks before and after, and returns the summary
// that it also writes into the run directory.
func Run(ctx context.Context, cfg Config, opts Options) (summary *Summary, err error) {
	if opts.Progress == nil {
		opts.Progress = NewProgress(io.Discard, false)
	}
	r := &run{cfg: cfg, dir: opts.Dir, progress: opts.Progress, started: time.Now()}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(opts.Resume); err != nil {
		return nil, err
	}
	return r.train(ctx)
}

// train plays the evaluations and the steps between them.
func (r *run) train(ctx context.Context) (*Summary, error) {
	if r.earlier.WarmStart == nil {
		warm, err := r.evaluate(ctx, "evaluating the base", r.cfg.Eval.Temperature)
		if err != nil {
			return nil, err
		}
		r.earlier.WarmStart = &warm
	}
	r.progress.Printf("base model: success %.3f on %d unseen tasks", r.earlier.WarmStart.Success, r.earlier.WarmStart.Tasks)
	if r.earlier.Step == 0 { // so that a resumed run need not evaluate the base again
		if err := r.checkpoint(); err != nil {
			return nil, err
		}
	}
	r.progress.Printf("%s", stepHeader)
	for step := r.earlier.Step; step < r.cfg.Train.Steps && !r.reachedTarget(); step++ {
		metrics, err := r.step(ctx, step)
		if err != nil {
			return nil, err
		}
		if err := r.metrics.Append(metrics); err != nil {
			return nil, err
		}
		r.history = append(r.history, metrics)
		r.earlier.Step = step + 1
		r.earlier.TrainableTokens += int64(metrics.TrainableTokens)
		last := step+1 == r.cfg.Train.Steps || r.reachedTarget()
		if last || (step+1)%r.cfg.Train.CheckpointEvery == 0 {
			if err := r.checkpoint(); err != nil {
				return nil, err
			}
		}
		r.progress.Printf("%s", stepLine(metrics, r.timeLeft()))
	}
	return r.finish(ctx)
}

// reachedTarget tells whether the last three steps were good enough to stop.
func (r *run) reachedTarget() bool {
	const steps = 3
	n := len(r.history)
	if r.cfg.Train.StopAtSuccess == 0 || n < steps {
		return false
	}
	mean := 0.0
	for _, m := range r.history[n-steps:] {
		mean += m.Success / steps
	}
	return mean >= r.cfg.Train.StopAtSuccess
}

// timeLeft extrapolates the steps of this process to those still to do at most.
func (r *run) timeLeft() time.Duration {
	var seconds float64
	for _, m := range r.history[max(0, len(r.history)-5):] {
		seconds += (m.Timing.RolloutSeconds + m.Timing.TrainSeconds) / float64(min(5, len(r.history)))
	}
	left := float64(r.cfg.Train.Steps-r.earlier.Step) * seconds
	return time.Duration(left * float64(time.Second)).Round(time.Second)
}
