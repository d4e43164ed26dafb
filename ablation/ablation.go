// Package ablation trains from one base model under several ways to assign credit, or to
// cut the window, and compares what comes out.
package ablation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/train"
)

// Plan is what is compared: every method on every seed, counted up from the first.
type Plan struct {
	Env     string   `json:"env"`
	Over    string   `json:"over"`
	Methods []Method `json:"methods"`
	First   uint64   `json:"first_seed"`
	Seeds   int      `json:"seeds"`
	// Metric is what is compared, of every step and of unseen tasks: success, or one of the
	// environment's metrics. A method has learnt when it reaches Threshold.
	Metric    string  `json:"metric"`
	Threshold float64 `json:"threshold"`
}

// The files of a comparison beside its runs.
const (
	planName   = "plan.json"
	resultName = "ablation.json"
	curvesName = "curves.svg"
)

// IsComparison tells whether a directory is that of a comparison.
func IsComparison(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, planName))
	return err == nil
}

// ReadPlan reads the plan of a comparison that was begun.
func ReadPlan(dir string) (Plan, error) {
	var plan Plan
	const most = 1 << 20
	path := filepath.Join(dir, planName)
	text, err := bounded.ReadFile(path, most)
	if err != nil {
		return plan, fmt.Errorf("%s is no comparison: %w", dir, err)
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return plan, fmt.Errorf("%s: %w", path, err)
	}
	if len(plan.Methods) == 0 || plan.Seeds < 1 {
		return plan, fmt.Errorf("%s: %d methods on %d seeds: want at least one of each", path, len(plan.Methods), plan.Seeds)
	}
	return plan, nil
}

// Runner trains methods. It knows the configuration that they override.
type Runner interface {
	// Check returns the error that training a method would fail with at its start.
	Check(ctx context.Context, m Method) error
	// Train trains a method from a seed, in a run directory, on some threads; 0 is all.
	Train(ctx context.Context, m Method, seed uint64, threads int, dir string, progress *train.Progress) (*train.Summary, error)
	// Resume goes on with a run of Train.
	Resume(ctx context.Context, dir string, progress *train.Progress) (*train.Summary, error)
	// Epochs is how often the method goes through each step's trajectories.
	Epochs(m Method) int
}

// Options says where a comparison lives and who hears of it.
type Options struct {
	Dir string
	// Resume goes on with a plan that was interrupted: runs that have ended stay as they
	// are.
	Resume bool
	// Parallel is how many runs are trained at once, each on Threads threads. A run comes
	// to the same whatever they are, but for its time.
	Parallel, Threads int
	// Description is the text of the configuration, for train.ConfigName.
	Description []byte
	Progress    *train.Progress
}

// Run trains a plan, each method and seed in a run directory of its own, and writes
// ablation.json and curves.svg beside them.
func Run(ctx context.Context, runner Runner, plan Plan, opts Options) (*Result, error) {
	for _, method := range plan.Methods { // before anything is trained
		if err := runner.Check(ctx, method); err != nil {
			return nil, fmt.Errorf("%s: %w", method.Name, err)
		}
	}
	if !opts.Resume {
		if err := begin(plan, opts); err != nil {
			return nil, err
		}
	}
	c := &comparison{runner: runner, plan: plan, opts: opts, outcomes: make([]*outcome, plan.Seeds*len(plan.Methods))}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, opts.Parallel) {
		workers.Go(func() {
			for i := range next {
				if err := c.run(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range c.outcomes {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return c.result(), nil
}

// comparison is a plan at work. Outcome i is that of method i mod methods.
type comparison struct {
	runner Runner
	plan   Plan
	opts   Options

	mu       sync.Mutex
	outcomes []*outcome // nil until the run has ended
}

// outcome is what one run came to.
type outcome struct {
	summary *train.Summary
	steps   []train.StepMetrics
}

// run trains one method on one seed and writes what is there so far.
func (c *comparison) run(ctx context.Context, i int) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	method, seed := c.plan.Methods[i%len(c.plan.Methods)], c.plan.First+uint64(i/len(c.plan.Methods))
	name := fmt.Sprintf("%s, seed %d", method.Name, seed)
	c.say("%s (run %d of %d)", name, i+1, len(c.outcomes))
	dir := filepath.Join(c.opts.Dir, fmt.Sprintf("%s-seed%d", method.Name, seed))
	o, err := c.train(ctx, method, seed, dir, c.progress(name))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	value, ok := o.summary.Sampled.Metric(c.plan.Metric)
	if !ok {
		return fmt.Errorf("%s: %s: the evaluation has no metric of that name", name, c.plan.Metric)
	}
	c.say("%s: %s %.3f after %d steps", name, c.plan.Metric, value, o.summary.Steps)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes[i] = o
	return c.write()
}

// train trains one method on one seed, goes on with a run that was interrupted, or reads
// what one that has ended came to.
func (c *comparison) train(ctx context.Context, method Method, seed uint64, dir string, progress *train.Progress) (o *outcome, err error) {
	o = new(outcome)
	if o.summary, err = train.ReadSummary(dir); err != nil {
		if train.IsRun(dir) {
			o.summary, err = c.runner.Resume(ctx, dir, progress)
		} else {
			o.summary, err = c.runner.Train(ctx, method, seed, c.opts.Threads, dir, progress)
		}
	}
	if err != nil {
		return nil, err
	}
	o.steps, err = train.ReadMetrics(dir)
	return o, err
}

// say tells one line, one run at a time.
func (c *comparison) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Progress.Printf(format, args...)
}

// progress is what one run tells: everything if it is alone, else its warnings.
func (c *comparison) progress(name string) *train.Progress {
	if c.opts.Parallel <= 1 {
		return c.opts.Progress
	}
	return train.NewProgress(&warnings{say: func(line string) { c.say("%s: %s", name, line) }}, false)
}

// begin makes the directory of a comparison, with its plan. An empty one will do.
func begin(plan Plan, opts Options) error {
	text, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		return err
	}
	err = train.CreateDirectory(opts.Dir, func(temporary string) error {
		return errors.Join(
			atomicfile.WriteBytes(filepath.Join(temporary, train.ConfigName), opts.Description),
			atomicfile.WriteBytes(filepath.Join(temporary, planName), append(text, '\n')),
		)
	})
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: choose another --run, or add --resume to go on with it", err)
	}
	return err
}
