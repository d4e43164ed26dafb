package train

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// step plays one step's rollouts and learns from them.
func (r *run) step(ctx context.Context, step int) (StepMetrics, error) {
	start := time.Now()
	results, err := r.rollouts(ctx, fmt.Sprintf("step %d: rollout", step+1), r.jobs(step), r.cfg.Rollout.Temperature)
	if err != nil {
		return StepMetrics{}, err
	}
	metrics, closed, next := r.summarise(results)
	metrics.Step = step + 1
	if len(closed) == 0 {
		first := results[0]
		if first.Err == nil {
			return metrics, fmt.Errorf("step %d: no trajectory can be trained on: the first ended %s, and train.truncated is %s", step+1, first.Trajectory.Status, r.cfg.Train.Truncated)
		}
		return metrics, fmt.Errorf("step %d: no trajectory can be trained on; the first ended so: %w", step+1, first.Err)
	}
	b, err := batch.FromTrajectories(closed)
	if err != nil {
		return metrics, err
	}
	metrics.RowTokens = b.Tokens()
	metrics.Timing.RolloutSeconds = time.Since(start).Seconds()

	start = time.Now()
	if err := r.assignCredit(ctx, b, next); err != nil {
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

// Streams of random numbers of one seed; those of the steps' episodes are 0, 1, 2, ….
const (
	streamTasks   = 1 << 40
	streamShuffle = 2 << 40
	streamEval    = 3 << 40
)

// jobs are the episodes of a step: every task of a group the same, every seed its own.
func (r *run) jobs(step int) []rollout.Job {
	rng := rand.New(rand.NewPCG(r.cfg.Seed, uint64(step)))
	size := r.cfg.Rollout.GroupSize
	jobs := make([]rollout.Job, r.cfg.Rollout.Groups*size)
	// Runs with other seeds train on other tasks.
	first := rand.New(rand.NewPCG(r.cfg.Seed, streamTasks)).IntN(1<<30) + step*r.cfg.Rollout.Groups
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

// summarise returns the metrics of a step's results, the trajectories that are
// trained on, and the state that each truncated one of them would have gone on from.
func (r *run) summarise(results []rollout.Result) (m StepMetrics, closed []*trajectory.Trajectory, next map[string][]int32) {
	m.Trajectories = len(results)
	next = map[string][]int32{}
	for _, result := range results {
		t := result.Trajectory
		m.SegmentsPerTrajectory += float64(len(t.Segments))
		for _, e := range t.Entries {
			m.TokensPerTrajectory += float64(len(e.IDs))
		}
		if !t.Status.Trainable() {
			m.Failed++
			continue
		}
		if result.Success {
			m.Success++
		}
		m.ReturnMean += t.Score
		if t.Status != trajectory.Finished {
			m.Truncated++
		}
		if len(t.Segments) == 0 || result.Next != nil && r.cfg.Train.Truncated == "drop" {
			continue
		}
		closed = append(closed, t)
		if result.Next != nil && r.cfg.Train.Truncated == "bootstrap" {
			next[t.ID] = result.Next
		}
	}
	n := float64(len(results))
	m.Success /= n
	m.ReturnMean /= n
	m.SegmentsPerTrajectory /= n
	m.TokensPerTrajectory /= n
	return m, closed, next
}

// assignCredit fills everything the loss needs.
func (r *run) assignCredit(ctx context.Context, b *batch.Batch, next map[string][]int32) error {
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
	if r.hasCritic() {
		if err := r.learner.Values(ctx, b); err != nil {
			return err
		}
		if err := r.bootstrap(ctx, b, next); err != nil {
			return err
		}
	}
	if err := ppo.ShapeRewards(r.cfg.PPO, b); err != nil {
		return err
	}
	return advantage.Compute(b, r.cfg.Advantage)
}

// hasCritic tells whether the estimator reads values: otherwise no critic is trained.
func (r *run) hasCritic() bool {
	estimator, err := advantage.Lookup(r.cfg.Advantage.Estimator)
	return err == nil && estimator.Values
}

// bootstrap states V(s_T) on the last segment of each truncated trajectory.
func (r *run) bootstrap(ctx context.Context, b *batch.Batch, next map[string][]int32) error {
	var rows []int
	var states [][]int32
	for i, row := range b.Rows {
		if state, ok := next[row.TrajectoryID]; ok && row.InvIter == 0 {
			rows, states = append(rows, i), append(states, state)
		}
	}
	values, err := r.learner.StateValues(ctx, states)
	if err != nil {
		return err
	}
	for k, i := range rows {
		b.Rows[i].BootstrapValue = float64(values[k])
	}
	return nil
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
	rng := rand.New(rand.NewPCG(r.cfg.Seed, streamShuffle+uint64(step)))
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
			stats, err := r.learner.Update(ctx, b.Select(rows), r.cfg.PPO, Parts{Actor: step >= r.cfg.Train.CriticWarmup, Critic: r.hasCritic()})
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
