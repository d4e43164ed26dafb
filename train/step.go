package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	if name := r.cfg.Train.SuccessMetric; !metrics.states(name) && r.shouldState(metrics, name) {
		return metrics, inputError{fmt.Errorf("train.success_metric: %q: environment %s states no such metric: want one of %s", name, r.Tasks.Name(),
			strings.Join(append([]string{Success}, slices.Sorted(maps.Keys(metrics.Environment))...), ", "))}
	}
	r.warnOverflow(played)
	r.warnTruncated(metrics)
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
	if err := r.assignCredit(ctx, closed, b); err != nil {
		if n, first := countStatus(played, trajectory.Failed); n > 0 { // often why
			err = fmt.Errorf("%w; %d of %d trajectories failed, the first one so: %s", err, n, len(played), first)
		}
		return metrics, fmt.Errorf("step %d: %w", step+1, err)
	}
	if metrics.Credit, err = creditOf(b, r.cfg.Advantage); err != nil {
		return metrics, fmt.Errorf("step %d: %w", step+1, err)
	}
	metrics.AdvantageMean, metrics.AdvantageStd, metrics.TrainableTokens = describe(b.Advantages, b.LossMask)
	r.warnNoAdvantage(metrics)
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

// shouldState tells whether a metric that a step lacks is one that the environment does not
// have: it may be one that trajectories state at their end, to which none came.
func (r *run) shouldState(m StepMetrics, name string) bool {
	before := slices.ContainsFunc(r.history, func(m StepMetrics) bool { return m.states(name) })
	return !before && m.Failed+m.Truncated < m.Trajectories
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
	if n, first := countStatus(played, trajectory.ContextOverflow); 2*n > len(played) && !r.warnedOverflow {
		r.warnedOverflow = true
		r.progress.Printf("warning: %d of %d trajectories end in context_overflow, the first one so: %s: want a larger condense.high, or a rule that drops more", n, len(played), first)
	}
}

// warnTruncated says once, of the first step in which it is so, that hardly any trajectory
// comes to an end of its own: the critic then learns nearly all values from its own.
func (r *run) warnTruncated(m StepMetrics) {
	n := m.Truncated - m.Overflowed
	if 10*n < 9*m.Trajectories || r.warnedTruncated {
		return
	}
	r.warnedTruncated = true
	advice := "want more of them"
	if r.readsValues() && r.cfg.Train.Truncated == "bootstrap" && r.cfg.Advantage.Gamma == 1 {
		advice += ", or an advantage.gamma below 1: at 1 no outcome holds the critic's values, which are learnt from themselves"
	}
	r.progress.Printf("warning: %d of %d trajectories are truncated, by rollout.max_turns %d or rollout.max_segments %d: %s", n, m.Trajectories, r.cfg.Rollout.MaxTurns, r.cfg.Rollout.MaxSegments, advice)
}

// warnNoAdvantage says once, of the first step in which it is so, that every advantage is 0:
// without a critic, where all returns are equal, or all of each group.
func (r *run) warnNoAdvantage(m StepMetrics) {
	if m.AdvantageMean != 0 || m.AdvantageStd != 0 || r.warnedNoAdvantage {
		return
	}
	r.warnedNoAdvantage = true
	r.progress.Printf("warning: step %d: every advantage is 0, so that the policy learns nothing: mean return is %g, success %g: want tasks at which some trajectories do better than others, if this goes on",
		m.Step, m.ReturnMean, m.Success)
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
func (r *run) assignCredit(ctx context.Context, played []*trajectory.Trajectory, b *batch.Batch) (err error) {
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
		if b.Values, err = r.critic().values(ctx, b); err != nil {
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
	cfg := r.cfg.Advantage
	if r.readsValues() && cfg.Gamma == 1 && paidAlike(played) {
		cfg.Whiten = false
	}
	if err := advantage.Compute(b, cfg); err != nil {
		return err
	}
	if r.cfg.Train.ScaleValues {
		r.critic().measure(b.Returns, b.LossMask)
	}
	return nil
}

// paidAlike tells whether all of several trajectories came to their end and to the same
// rewards, because the task is learnt or out of reach. Undiscounted, their advantages are
// what the critic is off by: whitened, that noise would move the policy as far as the credit
// of any other step.
func paidAlike(played []*trajectory.Trajectory) bool {
	if len(played) < 2 {
		return false
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, t := range played {
		if t.Status != trajectory.Finished {
			return false
		}
		least, most = min(least, t.Score), max(most, t.Score)
	}
	const rounding = 1e-6
	return most-least <= rounding*max(math.Abs(least), math.Abs(most))
}

// critic is the critic in the unit of this run's values.
func (r *run) critic() scaledCritic { return scaledCritic{r.Critic, &r.state.ValueScale} }

// bootstrap states V(s_T) on the last segment of each truncated trajectory.
func (r *run) bootstrap(ctx context.Context, b *batch.Batch) error {
	var rows []int
	var states [][]int32
	for i, row := range b.Rows {
		if row.NextIDs != nil {
			rows, states = append(rows, i), append(states, row.NextIDs)
		}
	}
	values, err := r.critic().stateValues(ctx, states)
	if err != nil {
		return err
	}
	for k, i := range rows {
		b.Rows[i].BootstrapValue = float64(values[k])
	}
	return nil
}

// update runs the passes of a step: those of the policy, but in the first steps that train
// the critic alone, and those of the critic, if there is one to train.
func (r *run) update(ctx context.Context, step int, b *batch.Batch, metrics *StepMetrics) error {
	trajectories, err := b.Trajectories()
	if err != nil {
		return err
	}
	share := r.cfg.learningRateShare(step)
	var actor, critic part
	if step >= r.cfg.Train.CriticWarmup {
		actor = part{epochs: r.cfg.Train.Epochs, minibatches: r.cfg.Train.Minibatches, update: r.Learner.Update, rate: share * r.cfg.Train.ActorLR, targetKL: r.cfg.Train.TargetKL}
	}
	if r.readsValues() {
		critic = part{update: r.critic().update, rate: share * r.cfg.Train.CriticLR}
		critic.epochs, critic.minibatches = r.cfg.Train.criticPasses()
	}
	total, done := 0, 0
	for _, p := range []*part{&actor, &critic} {
		p.minibatches = min(p.minibatches, len(trajectories)) // a trajectory each at least
		total += p.epochs * p.minibatches
	}
	for _, p := range []*part{&actor, &critic} {
		ended := func() {
			done++
			r.progress.Status(fmt.Sprintf("step %d: update", step+1), done, total)
		}
		if err := r.passes(ctx, step, b, trajectories, p, ended); err != nil {
			return err
		}
	}
	metrics.Update = ppo.CombineMetrics(actor.metrics).WithCritic(ppo.CombineMetrics(critic.metrics))
	metrics.ActorUpdates, metrics.CriticUpdates = len(actor.metrics), len(critic.metrics)
	metrics.ActorGradNorm = actor.gradNorm / float64(max(1, len(actor.metrics)))
	metrics.CriticGradNorm = critic.gradNorm / float64(max(1, len(critic.metrics)))
	return r.publish(ctx)
}

// part is what one of the two, policy or critic, goes through in a step, and what came of it.
type part struct {
	epochs, minibatches int
	rate                float64
	targetKL            float64
	update              func(context.Context, *batch.Batch, learner.UpdateConfig) (learner.UpdateResult, error)

	metrics  []ppo.Metrics
	gradNorm float64 // summed over the updates
}

// passes takes the optimizer steps of a part. Mini-batches are whole trajectories, so their
// number does not depend on how often those were cut; policy and critic go through them in
// one order.
func (r *run) passes(ctx context.Context, step int, b *batch.Batch, trajectories []batch.Trajectory, p *part, ended func()) error {
	rng := rand.New(rand.NewPCG(r.cfg.Seed, streamShuffle+uint64(step)))
	for range p.epochs {
		order := rng.Perm(len(trajectories))
		for k := range p.minibatches {
			var rows []int
			for _, i := range order[k*len(order)/p.minibatches : (k+1)*len(order)/p.minibatches] {
				rows = append(rows, trajectories[i].Rows...)
			}
			result, err := p.update(ctx, b.Select(rows), learner.UpdateConfig{Loss: r.cfg.PPO, LearningRate: p.rate})
			if err != nil {
				return err
			}
			p.metrics, p.gradNorm = append(p.metrics, result.Metrics), p.gradNorm+result.GradNorm
			if ended(); p.targetKL > 0 && result.Metrics.ApproxKL > p.targetKL {
				return nil
			}
		}
	}
	return nil
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
