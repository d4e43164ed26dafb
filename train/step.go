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
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/trajectory"
)

// step plays one step's rollouts and learns from them.
func (r *run) step(ctx context.Context, step int) (StepMetrics, error) {
	start := time.Now()
	played, err := r.play(ctx, fmt.Sprintf("step %d: rollout", step+1), r.jobs(step), r.cfg.Rollout.Temperature, r.progress)
	if err != nil {
		return StepMetrics{}, err
	}
	metrics := summarise(played)
	if err := mostFailed(played); err != nil {
		return metrics, fmt.Errorf("step %d: %w", step+1, err)
	}
	r.warnOverflow(played)
	closed := r.choose(played, &metrics)
	metrics.Step = step + 1
	if len(closed) == 0 {
		return metrics, fmt.Errorf("step %d: no trajectory can be trained on: %w", step+1, r.whyNone(played, metrics.Stale))
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
	metrics.LogProbDriftMean, metrics.LogProbDriftMax = drift(b)
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

// summarise returns the metrics of trajectories as they were played.
func summarise(played []*trajectory.Trajectory) (m StepMetrics) {
	m.Trajectories = len(played)
	m.Environment = environmentMetrics(played)
	for _, t := range played {
		m.SegmentsPerTrajectory += float64(len(t.Segments))
		for _, e := range t.Entries {
			m.TokensPerTrajectory += float64(len(e.IDs))
		}
		if !t.Status.Trainable() {
			m.Failed++
			continue
		}
		if t.Success {
			m.Success++
		}
		m.ReturnMean += t.Score
		if t.Status != trajectory.Finished {
			m.Truncated++
		}
		if t.Status == trajectory.ContextOverflow {
			m.Overflowed++
		}
	}
	n := float64(len(played))
	m.Success /= n
	m.ReturnMean /= n
	m.SegmentsPerTrajectory /= n
	m.TokensPerTrajectory /= n
	return m
}

// environmentMetrics returns the mean of every metric of the environment over the
// trajectories that state it and did not fail; nil if there is none.
func environmentMetrics(played []*trajectory.Trajectory) map[string]float64 {
	sum, n := map[string]float64{}, map[string]float64{}
	for _, t := range played {
		if !t.Status.Trainable() {
			continue
		}
		for name, value := range t.Metrics {
			sum[name] += value
			n[name]++
		}
	}
	if len(sum) == 0 {
		return nil
	}
	for name := range sum {
		sum[name] /= n[name]
	}
	return sum
}

// mostFailed returns an error that shows the first failure if more than half of the
// trajectories failed: training on the rest would hide what is wrong.
func mostFailed(played []*trajectory.Trajectory) error {
	n, first := countStatus(played, trajectory.Failed)
	if 2*n <= len(played) {
		return nil
	}
	return fmt.Errorf("%d of %d trajectories failed, the first one so: %s: mend the environment or the sampler; a run goes on with --resume", n, len(played), first)
}

// countStatus counts the trajectories of a status and returns why the first has it.
func countStatus(played []*trajectory.Trajectory, status trajectory.Status) (n int, first string) {
	for _, t := range played {
		if t.Status == status {
			if n++; n == 1 {
				first = t.Error
			}
		}
	}
	return n, first
}

// warnOverflow says once, of the first step in which it is so, that most trajectories
// outgrow the window whatever is dropped.
func (r *run) warnOverflow(played []*trajectory.Trajectory) {
	if n, first := countStatus(played, trajectory.ContextOverflow); 2*n > len(played) && !r.warned {
		r.warned = true
		r.progress.Printf("warning: %d of %d trajectories end in context_overflow, the first one so: %s: want a larger condense.high, or a rule that drops more", n, len(played), first)
	}
}

// choose returns the trajectories that are trained on: those that may be, that the
// window ever held, that are not left out as truncated, and whose policy is not too old.
func (r *run) choose(played []*trajectory.Trajectory, m *StepMetrics) (chosen []*trajectory.Trajectory) {
	for _, t := range played {
		switch {
		case !t.Status.Trainable() || len(t.Segments) == 0:
		case t.Next != nil && r.cfg.Train.Truncated == "drop":
		case r.Learner.Version()-t.OldestVersion() > int64(r.cfg.Rollout.MaxStaleness):
			m.Stale++
		default:
			chosen = append(chosen, t)
		}
	}
	return chosen
}

// whyNone tells why choose returned nothing.
func (r *run) whyNone(played []*trajectory.Trajectory, stale int) error {
	first := played[0]
	switch {
	case stale > 0:
		return fmt.Errorf("%d of %d were sampled by weights more than %d updates behind version %d: want a larger rollout.max_staleness, or a sampler that tells the version of its weights",
			stale, len(played), r.cfg.Rollout.MaxStaleness, r.Learner.Version())
	case first.Error == "":
		return fmt.Errorf("the first ended %s, and train.truncated is %s", first.Status, r.cfg.Train.Truncated)
	}
	return fmt.Errorf("the first ended so: %s", first.Error)
}

// assignCredit fills everything the loss needs.
func (r *run) assignCredit(ctx context.Context, b *batch.Batch) (err error) {
	switch {
	case r.cfg.Train.OldLogProbs == "learner":
		if b.OldLogProbs, err = r.Learner.LogProbs(ctx, b); err != nil {
			return err
		}
	case b.RolloutLogProbs == nil:
		return errors.New("train.old_log_probs: rollout: the sampler gives no log-probs: want learner")
	default:
		b.OldLogProbs = b.RolloutLogProbs
	}
	if r.cfg.PPO.KLCoef != 0 {
		if b.RefLogProbs, err = r.Reference.LogProbs(ctx, b); err != nil {
			return err
		}
	}
	if r.readsValues() {
		if b.Values, err = r.Critic.Values(ctx, b); err != nil {
			return err
		}
		if r.cfg.Train.Truncated == "bootstrap" {
			if err := r.bootstrap(ctx, b); err != nil {
				return err
			}
		}
	}
	if err := ppo.ShapeRewards(r.cfg.PPO, b); err != nil {
		return err
	}
	return advantage.Compute(b, r.cfg.Advantage)
}

// bootstrap states V(s_T) on the last segment of each truncated trajectory.
func (r *run) bootstrap(ctx context.Context, b *batch.Batch) error {
	var rows []int
	var states [][]int32
	for i, row := range b.Rows {
		if row.NextIDs != nil {
			rows, states = append(rows, i), append(states, row.NextIDs)
		}
	}
	values, err := r.Critic.StateValues(ctx, states)
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
	rng := rand.New(rand.NewPCG(r.cfg.Seed, streamShuffle+uint64(step)))
	what := fmt.Sprintf("step %d: update", step+1)
	var updates []ppo.Metrics
	total := r.cfg.Train.Epochs * r.cfg.Train.Minibatches
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
			update, err := r.optimize(ctx, step, b.Select(rows), metrics)
			if err != nil {
				return err
			}
			updates = append(updates, update)
			r.progress.Status(what, len(updates), total)
		}
	}
	metrics.Update = ppo.CombineMetrics(updates)
	metrics.ActorGradNorm /= float64(len(updates))
	metrics.CriticGradNorm /= float64(len(updates))
	return r.publish(ctx)
}

// optimize takes one step of the policy, but in the first steps that train the critic
// alone, and one of the critic, if there is one to train.
func (r *run) optimize(ctx context.Context, step int, mini *batch.Batch, metrics *StepMetrics) (ppo.Metrics, error) {
	share := r.cfg.learningRateShare(step)
	var update ppo.Metrics
	if step >= r.cfg.Train.CriticWarmup {
		result, err := r.Learner.Update(ctx, mini, learner.UpdateConfig{Loss: r.cfg.PPO, LearningRate: share * r.cfg.Train.ActorLR})
		if err != nil {
			return update, err
		}
		update = result.Metrics
		metrics.ActorGradNorm += result.GradNorm
	}
	if r.readsValues() {
		result, err := r.Critic.Update(ctx, mini, learner.UpdateConfig{Loss: r.cfg.PPO, LearningRate: share * r.cfg.Train.CriticLR})
		if err != nil {
			return update, err
		}
		update = update.WithCritic(result.Metrics)
		metrics.CriticGradNorm += result.GradNorm
	}
	return update, nil
}

// drift is the mean and the largest difference between the learner's log-probs and the
// sampler's; 0 where those are not known.
func drift(b *batch.Batch) (mean, largest float64) {
	if b.RolloutLogProbs == nil {
		return 0, 0
	}
	n := 0
	for t, trainable := range b.LossMask {
		if trainable {
			difference := math.Abs(float64(b.OldLogProbs[t]) - float64(b.RolloutLogProbs[t]))
			mean, largest = mean+difference, max(largest, difference)
			n++
		}
	}
	return mean / float64(max(1, n)), largest
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
