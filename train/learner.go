package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/ppo"
)

// Learner owns the trainable weights. It is blind to how credit was assigned: it
// sees log-probs, advantages, returns and masks, one row at a time.
type Learner interface {
	// LogProbs fills old_log_probs with those of the current policy.
	LogProbs(ctx context.Context, b *batch.Batch) error
	// RefLogProbs fills ref_log_probs with those of the frozen base policy.
	RefLogProbs(ctx context.Context, b *batch.Batch) error
	// Values fills values with those of the current critic.
	Values(ctx context.Context, b *batch.Batch) error
	// StateValues returns the critic's value of states, prompts of token ids.
	StateValues(ctx context.Context, prompts [][]int32) ([]float32, error)
	// Update takes one optimizer step on a mini-batch of whole trajectories, of the
	// parts that are named.
	Update(ctx context.Context, mini *batch.Batch, cfg ppo.Config, parts Parts) (UpdateStats, error)
	// Save writes weights and optimizer state into a directory, Load reads them.
	Save(dir string) error
	Load(dir string) error
	// Version counts the updates.
	Version() int64
}

// Parts says which of the learner's models an update changes.
type Parts struct{ Actor, Critic bool }

// UpdateStats is what one optimizer step reports.
type UpdateStats struct {
	Losses ppo.Stats
	// Norms of the gradients before clipping.
	ActorGradNorm, CriticGradNorm float64
}

var _ Learner = (*embedded)(nil)

// embedded is the learner over the embedded engine.
type embedded struct {
	actor, critic         *lm.Model
	reference             *lm.Model // frozen
	actorGrad, criticGrad *lm.Gradients
	actorOpt, criticOpt   *lm.AdamW
	cfg                   LoopConfig
	rateShare             float64 // of the configured learning rates
	temperature           float32
	version               int64
	progress              func(rows int) // hears of rows that were learnt from
}

// newEmbedded starts from a base policy; the critic is the same trunk with a zero head.
func newEmbedded(base *lm.Model, cfg Config, progress func(rows int)) (*embedded, error) {
	critic, err := lm.NewCriticFrom(base)
	if err != nil {
		return nil, err
	}
	l := &embedded{
		actor: base.Clone(), critic: critic, reference: base,
		cfg: cfg.Train, rateShare: 1,
		temperature: float32(cfg.Rollout.Temperature),
		progress:    progress,
	}
	for _, m := range []*lm.Model{l.actor, l.critic, l.reference} {
		m.Threads = cfg.Threads
	}
	l.actorGrad, l.criticGrad = lm.NewGradients(l.actor), lm.NewGradients(l.critic)
	optimizer := lm.AdamWConfig{WeightDecay: cfg.Train.WeightDecay, MaxGradNorm: cfg.Train.MaxGradNorm}
	if l.actorOpt, err = lm.NewAdamW(l.actor, optimizer); err != nil {
		return nil, err
	}
	if l.criticOpt, err = lm.NewAdamW(l.critic, optimizer); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *embedded) Version() int64 { return l.version }

// decay sets the learning rates to a share of the configured ones.
func (l *embedded) decay(share float64) { l.rateShare = share }

// The files of a checkpoint, beside the loop's state.
const (
	actorName           = "actor"
	criticName          = "critic"
	actorOptimizerName  = "optimizer-actor.safetensors"
	criticOptimizerName = "optimizer-critic.safetensors"
)

func (l *embedded) Save(dir string) error {
	return errors.Join(
		l.actor.Save(filepath.Join(dir, actorName)),
		l.critic.Save(filepath.Join(dir, criticName)),
		l.actorOpt.Save(filepath.Join(dir, actorOptimizerName)),
		l.criticOpt.Save(filepath.Join(dir, criticOptimizerName)),
	)
}

func (l *embedded) Load(dir string) error {
	for name, into := range map[string]*lm.Model{actorName: l.actor, criticName: l.critic} {
		model, err := lm.Load(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := into.CopyFrom(model); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
	}
	if err := l.actorOpt.Load(filepath.Join(dir, actorOptimizerName)); err != nil {
		return err
	}
	if err := l.criticOpt.Load(filepath.Join(dir, criticOptimizerName)); err != nil {
		return err
	}
	l.version = max(l.actorOpt.Steps(), l.criticOpt.Steps()) // every update takes one of either
	return nil
}

// engineRows views a batch as the engine's rows: the targets are the trainable
// tokens. out has one slice a row, of the length of its targets.
func engineRows(b *batch.Batch) (rows []lm.Row, out [][]float32) {
	rows, out = make([]lm.Row, len(b.Rows)), make([][]float32, len(b.Rows))
	for i := range b.Rows {
		start, end := b.Span(i)
		rows[i].Tokens = b.TokenIDs[start:end]
		for t, trainable := range b.LossMask[start:end] {
			if trainable {
				rows[i].Targets = append(rows[i].Targets, int32(t))
			}
		}
		out[i] = make([]float32, len(rows[i].Targets))
	}
	return rows, out
}

// scatter writes what the engine returned into a token column.
func scatter(b *batch.Batch, rows []lm.Row, of [][]float32) []float32 {
	column := make([]float32, b.Tokens())
	for i := range rows {
		start, _ := b.Span(i)
		for k, t := range rows[i].Targets {
			column[start+int(t)] = of[i][k]
		}
	}
	return column
}

func (l *embedded) LogProbs(ctx context.Context, b *batch.Batch) (err error) {
	b.OldLogProbs, err = l.logProbs(ctx, l.actor, b)
	return err
}

func (l *embedded) RefLogProbs(ctx context.Context, b *batch.Batch) (err error) {
	b.RefLogProbs, err = l.logProbs(ctx, l.reference, b)
	return err
}

func (l *embedded) logProbs(ctx context.Context, m *lm.Model, b *batch.Batch) ([]float32, error) {
	rows, logProbs := engineRows(b)
	if err := m.LogProbs(ctx, rows, l.temperature, logProbs, nil); err != nil {
		return nil, err
	}
	return scatter(b, rows, logProbs), nil
}

func (l *embedded) Values(ctx context.Context, b *batch.Batch) error {
	rows, values := engineRows(b)
	if err := l.critic.Values(ctx, rows, values); err != nil {
		return err
	}
	b.Values = scatter(b, rows, values)
	return nil
}

// StateValues returns the critic's value of each state, a prompt of token ids.
func (l *embedded) StateValues(ctx context.Context, prompts [][]int32) ([]float32, error) {
	rows, values := make([]lm.Row, len(prompts)), make([][]float32, len(prompts))
	for i, prompt := range prompts {
		// V_t is read one position to the left of t: any token stands for the next.
		rows[i] = lm.Row{Tokens: append(slices.Clone(prompt), 0), Targets: []int32{int32(len(prompt))}}
		values[i] = make([]float32, 1)
	}
	if err := l.critic.Values(ctx, rows, values); err != nil {
		return nil, err
	}
	return slices.Concat(values...), nil
}

// Update runs forward and backward over packed micro-batches of balanced token
// counts. The weights of the loss are those of the whole mini-batch, so that the
// gradient does not depend on the split.
func (l *embedded) Update(ctx context.Context, mini *batch.Batch, cfg ppo.Config, update Parts) (UpdateStats, error) {
	var stats UpdateStats
	weights, err := ppo.Weights[float32](cfg.Aggregation, mini)
	if err != nil {
		return stats, err
	}
	all := make([]int, len(mini.Rows))
	for i := range all {
		all[i] = i
	}
	parts, err := mini.MicroBatches(all, l.cfg.MicroBatchTokens)
	if err != nil {
		return stats, fmt.Errorf("train.micro_batch_tokens: %w", err)
	}
	l.actorGrad.Zero()
	l.criticGrad.Zero()
	for _, part := range parts {
		micro, microWeights := mini.Select(part), batch.Gather(mini, weights, part)
		if update.Actor {
			policy, err := l.accumulatePolicy(ctx, micro, microWeights, cfg)
			if err != nil {
				return stats, err
			}
			stats.Losses.Merge(policy)
		}
		if update.Critic {
			value, err := l.accumulateValue(ctx, micro, microWeights, cfg)
			if err != nil {
				return stats, err
			}
			stats.Losses.Merge(value)
		}
		l.progress(len(part))
	}
	if update.Actor {
		if stats.ActorGradNorm, err = l.actorOpt.Step(l.actorGrad, l.rateShare*l.cfg.ActorLR); err != nil {
			return stats, fmt.Errorf("actor: %w", err)
		}
	}
	if update.Critic {
		if stats.CriticGradNorm, err = l.criticOpt.Step(l.criticGrad, l.rateShare*l.cfg.CriticLR); err != nil {
			return stats, fmt.Errorf("critic: %w", err)
		}
	}
	l.version++
	return stats, nil
}

// rowStats collects what concurrent callbacks report, to be merged in row order.
type rowStats struct {
	stats  []ppo.Stats
	errors []error
}

func newRowStats(n int) *rowStats { return &rowStats{make([]ppo.Stats, n), make([]error, n)} }

func (r *rowStats) merge(b *batch.Batch) (ppo.Stats, error) {
	var total ppo.Stats
	for i := range r.stats {
		if r.errors[i] != nil {
			return total, fmt.Errorf("%s: %w", b.Describe(i), r.errors[i])
		}
		total.Merge(r.stats[i])
	}
	return total, nil
}

func (l *embedded) accumulatePolicy(ctx context.Context, b *batch.Batch, weights []float32, cfg ppo.Config) (ppo.Stats, error) {
	rows, _ := engineRows(b)
	seen := newRowStats(len(rows))
	loss := func(i int, logProbs, entropies []float32) (dLogProbs, dEntropies []float32) {
		start, end := b.Span(i)
		mask := b.LossMask[start:end]
		column := func(c []float32) []float32 {
			if c == nil {
				return nil
			}
			return ppo.Trainable(mask, c[start:end])
		}
		row := ppo.Row[float32]{
			LogProbs:    logProbs,
			OldLogProbs: column(b.OldLogProbs),
			Advantages:  column(b.Advantages),
			Weights:     column(weights),
			Entropies:   entropies,
			RefLogProbs: column(b.RefLogProbs),
		}
		if cfg.RolloutCorrection != ppo.CorrectionNone {
			row.RolloutLogProbs = column(b.RolloutLogProbs)
		}
		dLogProbs = make([]float32, len(logProbs))
		if cfg.EntropyCoef != 0 {
			dEntropies = make([]float32, len(logProbs))
		}
		seen.stats[i], seen.errors[i] = ppo.Policy(&cfg, row, dLogProbs, dEntropies)
		return dLogProbs, dEntropies
	}
	if err := l.actor.AccumulatePolicy(ctx, rows, l.temperature, loss, l.actorGrad); err != nil {
		return ppo.Stats{}, err
	}
	return seen.merge(b)
}

func (l *embedded) accumulateValue(ctx context.Context, b *batch.Batch, weights []float32, cfg ppo.Config) (ppo.Stats, error) {
	rows, _ := engineRows(b)
	seen := newRowStats(len(rows))
	loss := func(i int, values []float32) (dValues []float32) {
		dValues = make([]float32, len(values))
		start, end := b.Span(i)
		mask := b.LossMask[start:end]
		seen.stats[i], seen.errors[i] = ppo.Value(&cfg, ppo.ValueRow[float32]{
			Values:    values,
			OldValues: ppo.Trainable(mask, b.Values[start:end]),
			Returns:   ppo.Trainable(mask, b.Returns[start:end]),
			Weights:   ppo.Trainable(mask, weights[start:end]),
		}, dValues)
		return dValues
	}
	if err := l.critic.AccumulateValue(ctx, rows, loss, l.criticGrad); err != nil {
		return ppo.Stats{}, err
	}
	return seen.merge(b)
}
