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
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bases"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/suites"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
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
		err = r.readDirectory()
	} else {
		err = r.createDirectory()
	}
	if err != nil {
		return err
	}
	base, err := r.openEnvironment()
	if err != nil {
		return err
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
func (e inputError) Unwrap() error      { return e.error }

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

// createDirectory creates the run directory with its configuration, after the
// environment and the base model have been found usable.
func (r *run) createDirectory() error {
	if _, err := r.openEnvironment(); err != nil {
		return err
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

// step plays one step's rollouts and learns from them.
func (r *run) step(ctx context.Context, step int) (StepMetrics, error) {
	start := time.Now()
	results, err := r.rollouts(ctx, fmt.Sprintf("step %d: rollout", step+1), r.jobs(step), r.cfg.Rollout.Temperature)
	if err != nil {
		return StepMetrics{}, err
	}
	metrics, closed := summarise(results)
	metrics.Step = step + 1
	if len(closed) == 0 {
		return metrics, fmt.Errorf("step %d: no trajectory can be trained on; the first ended so: %w", step+1, results[0].Err)
	}
	b, err := batch.FromTrajectories(closed)
	if err != nil {
		return metrics, err
	}
	metrics.RowTokens = b.Tokens()
	metrics.Timing.RolloutSeconds = time.Since(start).Seconds()

	start = time.Now()
	if err := r.assignCredit(ctx, b); err != nil {
		return metrics, fmt.Errorf("step %d: %w", step+1, err)
	}
	metrics.AdvantageMean, metrics.AdvantageStd, metrics.TrainableTokens = describe(b.Advantages, b.LossMask)
	metrics.LogProbDriftMax = drift(b)
	if r.cfg.Train.SaveRollouts {
		if err := r.saveRollouts(step, b); err != nil {
			return metrics, err
		}
	}
	if err := r.update(ctx, step, b, &metrics); err != nil {
		return metrics, fmt.Errorf("step %d: %w", step+1, err)
	}
	metrics.Timing.TrainSeconds = time.Since(start).Seconds()
	metrics.Timing.RolloutTokensPerSecond = metrics.TokensPerTrajectory * float64(metrics.Trajectories) / metrics.Timing.RolloutSeconds
	metrics.Timing.TrainTokensPerSecond = float64(metrics.RowTokens) * float64(r.cfg.Train.Epochs) / metrics.Timing.TrainSeconds
	return metrics, nil
}

// jobs are the episodes of a step: every task of a group the same, every seed its own.
func (r *run) jobs(step int) []rollout.Job {
	rng := rand.New(rand.NewPCG(r.cfg.Seed, uint64(step)))
	size := r.cfg.Rollout.GroupSize
	jobs := make([]rollout.Job, r.cfg.Rollout.Groups*size)
	// Runs with other seeds train on other tasks.
	first := rand.New(rand.NewPCG(r.cfg.Seed, math.MaxUint64)).IntN(1<<30) + step*r.cfg.Rollout.Groups
	for i := range jobs {
		task := r.suite.Task(env.Train, first+i/size)
		jobs[i] = rollout.Job{
			Task:         task,
			TrajectoryID: fmt.Sprintf("step-%06d/%s/%d", step+1, task.ID, i%size),
			GroupID:      fmt.Sprintf("step-%06d/%s", step+1, task.ID),
			Seed:         rng.Uint64(),
		}
	}
	return jobs
}

// rollouts plays jobs with the current weights.
func (r *run) rollouts(ctx context.Context, what string, jobs []rollout.Job, temperature float64) ([]rollout.Result, error) {
	engine, err := rollout.New(r.suite, r.sampler, rollout.Config{
		Condense:    r.cfg.condenser(),
		MaxReply:    r.cfg.Rollout.MaxReply,
		MaxTurns:    r.cfg.Rollout.MaxTurns,
		Temperature: temperature,
		Concurrency: r.cfg.Rollout.Concurrency,
		Forget:      r.sampler.Forget,
	})
	if err != nil {
		return nil, err
	}
	ended := 0
	r.progress.Status(what, 0, len(jobs))
	return engine.Run(ctx, jobs, func(rollout.Result) {
		ended++
		r.progress.Status(what, ended, len(jobs))
	})
}

// summarise returns the metrics of a step's results and the trajectories that may
// be trained on.
func summarise(results []rollout.Result) (StepMetrics, []*trajectory.Trajectory) {
	m := StepMetrics{Trajectories: len(results)}
	var closed []*trajectory.Trajectory
	for _, r := range results {
		if r.Success {
			m.Success++
		}
		m.ReturnMean += r.Trajectory.Score
		m.SegmentsPerTrajectory += float64(len(r.Trajectory.Segments))
		for _, e := range r.Trajectory.Entries {
			m.TokensPerTrajectory += float64(len(e.IDs))
		}
		switch {
		case !r.Trajectory.Status.Trainable():
			m.Failed++
			continue
		case r.Trajectory.Status != trajectory.Finished:
			m.Truncated++
		}
		if len(r.Trajectory.Segments) > 0 {
			closed = append(closed, r.Trajectory)
		}
	}
	n := float64(len(results))
	m.Success /= n
	m.ReturnMean /= n
	m.SegmentsPerTrajectory /= n
	m.TokensPerTrajectory /= n
	return m, closed
}

// assignCredit fills everything the loss needs.
func (r *run) assignCredit(ctx context.Context, b *batch.Batch) error {
	if r.cfg.Train.OldLogProbs == "learner" {
		if err := r.learner.LogProbs(ctx, b); err != nil {
			return err
		}
	} else {
		b.OldLogProbs = b.RolloutLogProbs
	}
	if r.cfg.PPO.KLCoef != 0 {
		if err := r.learner.RefLogProbs(ctx, b); err != nil {
			return err
		}
	}
	if err := r.learner.Values(ctx, b); err != nil {
		return err
	}
	if err := ppo.ShapeRewards(r.cfg.PPO, b); err != nil {
		return err
	}
	return advantage.Compute(b, r.cfg.Advantage)
}

// update runs the epochs of a step. Mini-batches are whole trajectories, so the
// number of optimizer steps does not depend on how often they were cut.
func (r *run) update(ctx context.Context, step int, b *batch.Batch, metrics *StepMetrics) error {
	trajectories, err := b.Trajectories()
	if err != nil {
		return err
	}
	done, total := 0, len(b.Rows)*r.cfg.Train.Epochs
	what := fmt.Sprintf("step %d: update", step+1)
	r.learner.progress = func(rows int) {
		done += rows
		r.progress.Status(what, done, total)
	}
	r.learner.decay(r.cfg.learningRateShare(step))
	rng := rand.New(rand.NewPCG(r.cfg.Seed, ^uint64(step)))
	var losses ppo.Stats
	updates := 0
	for range r.cfg.Train.Epochs {
		order := rng.Perm(len(trajectories))
		for k := range r.cfg.Train.Minibatches {
			var rows []int
			for _, i := range order[k*len(order)/r.cfg.Train.Minibatches : (k+1)*len(order)/r.cfg.Train.Minibatches] {
				rows = append(rows, trajectories[i].Rows...)
			}
			if len(rows) == 0 {
				continue
			}
			stats, err := r.learner.Update(ctx, b.Select(rows), r.cfg.PPO, step < r.cfg.Train.CriticWarmup)
			if err != nil {
				return err
			}
			losses.Merge(stats.Losses)
			metrics.ActorGradNorm += stats.ActorGradNorm
			metrics.CriticGradNorm += stats.CriticGradNorm
			updates++
		}
	}
	if err := r.sampler.Refresh(ctx, r.learner.Version(), nil); err != nil {
		return err
	}
	metrics.Update = losses.Metrics().PerUpdate(updates)
	metrics.ActorGradNorm /= float64(updates)
	metrics.CriticGradNorm /= float64(updates)
	return nil
}

// drift is the largest difference between the learner's log-probs and the sampler's.
func drift(b *batch.Batch) (largest float64) {
	for t, trainable := range b.LossMask {
		if trainable {
			largest = max(largest, math.Abs(float64(b.OldLogProbs[t]-b.RolloutLogProbs[t])))
		}
	}
	return largest
}

// describe returns mean and standard deviation of a column at trainable tokens.
func describe(column []float32, mask []bool) (mean, std float64, n int) {
	for t, m := range mask {
		if m {
			mean += float64(column[t])
			n++
		}
	}
	mean /= float64(max(1, n))
	for t, m := range mask {
		if m {
			d := float64(column[t]) - mean
			std += d * d
		}
	}
	return mean, math.Sqrt(std / float64(max(1, n))), n
}

// saveRollouts writes the step's batch with everything it was trained on.
func (r *run) saveRollouts(step int, b *batch.Batch) error {
	dir := filepath.Join(r.dir, "rollouts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, fmt.Sprintf("step-%06d.safetensors", step+1))
	return atomicfile.Write(path, func(w io.Writer) error { return b.WriteSafetensors(w, batch.Packed) })
}
