package tinker

import (
	"context"
	"errors"
	"fmt"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/tinker"
)

// Learner is a policy that learns on a server. It is not safe for concurrent use, but
// for Version.
type Learner struct {
	*remote
	published policy.Weights
}

var (
	_ learner.Learner = (*Learner)(nil)
	_ learner.Scorer  = (*Reference)(nil)
)

// NewLearner makes a policy from a base model. It ends with its session.
func NewLearner(ctx context.Context, client *tinker.Client, cfg Config) (*Learner, error) {
	r, err := newRemote(ctx, client, cfg, "", "actor")
	return &Learner{remote: r}, err
}

// Version counts the updates.
func (l *Learner) Version() int64 { return l.version.Load() }

// Publish opens a sampling session with the current weights; its name is their location.
// Where the server shares one copy of the weights between sampling and learning, older
// sessions must not be sampled from any more.
func (l *Learner) Publish(ctx context.Context) (policy.Weights, error) {
	if err := l.usable(); err != nil {
		return policy.Weights{}, err
	}
	version := l.Version()
	if l.published.Location != "" && l.published.Version == version {
		return l.published, nil
	}
	l.used = true
	session, err := l.model.SaveForSampler(ctx)
	if err != nil {
		return policy.Weights{}, err
	}
	l.published = policy.Weights{Version: version, Location: session}
	return l.published, nil
}

// Load is that of the checkpoint; what was published before is no longer current.
func (l *Learner) Load(ctx context.Context, dir string) error {
	l.published = policy.Weights{}
	return l.remote.Load(ctx, dir)
}

// LogProbs are those of the current weights.
func (l *Learner) LogProbs(ctx context.Context, b *batch.Batch) ([]float32, error) {
	return l.logProbs(ctx, b)
}

func (r *remote) logProbs(ctx context.Context, b *batch.Batch) ([]float32, error) {
	if err := r.usable(); err != nil {
		return nil, err
	}
	rows, err := r.rows(b)
	if err != nil {
		return nil, err
	}
	columns, err := r.score(ctx, rows)
	if err != nil {
		return nil, err
	}
	return scatter(b, rows, columns), nil
}

// score returns the log-probs of rows.
func (r *remote) score(ctx context.Context, rows []row) ([][]float32, error) {
	data, wanted := make([]tinker.Datum, len(rows)), make([][]float32, len(rows))
	for k := range rows {
		wanted[k] = rows[k].mask()
		data[k] = rows[k].datum(map[string]tinker.Tensor{tinker.Weights: tinker.Floats(wanted[k])})
	}
	columns, err := r.evaluate(ctx, false, tinker.CrossEntropy, nil, data, tinker.LogProbs, wanted)
	if err != nil {
		return nil, err
	}
	return columns, checkLogProbs(columns, wanted)
}

// checkLogProbs takes rounding above 0 back, and is an error for more than that.
func checkLogProbs(columns, wanted [][]float32) error {
	const rounding = 1e-3
	for k := range columns {
		for t, x := range columns[k] {
			if wanted[k][t] != 0 && !(x <= rounding) {
				return fmt.Errorf("row %d: logprobs: entry %d: %v: want a number up to 0", k, t, x)
			}
			columns[k][t] = min(x, 0)
		}
	}
	return nil
}

// Update takes an optimizer step. An error after the gradient was sent leaves it open
// whether the server has taken it: the learner is then of no use until Load.
func (l *Learner) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (result learner.UpdateResult, err error) {
	fail := func(err error) (learner.UpdateResult, error) {
		return learner.UpdateResult{}, fmt.Errorf("tinker %s: %w", l.name, err)
	}
	if err := l.usable(); err != nil {
		return result, err
	}
	if err := CheckLoss(cfg.Loss); err != nil {
		return fail(err)
	}
	rows, columns, err := l.prepare(mini, cfg.Loss)
	if err != nil {
		return fail(err)
	}
	var backward func() error
	if l.cfg.Profile.plainClip(cfg.Loss) {
		backward = func() error { return l.native(ctx, mini, rows, columns, cfg.Loss, &result.Metrics) }
	} else {
		logProbs, err := l.score(ctx, rows)
		if err != nil {
			return fail(err)
		}
		var gradients [][]float32
		if gradients, result.Metrics, err = columns.policy(mini, rows, logProbs, cfg.Loss); err != nil {
			return fail(err)
		}
		backward = func() error { return l.surrogate(ctx, rows, logProbs, gradients) }
	}
	if result.GradNorm, err = l.update(ctx, cfg.LearningRate, backward); err != nil {
		return fail(err)
	}
	return result, nil
}

// columns are those that a loss reads, over the tokens of a mini-batch.
type columns struct{ old, advantages, weights, reference, rollout []float32 }

// prepare checks a mini-batch.
func (l *Learner) prepare(mini *batch.Batch, loss ppo.Config) (rows []row, c columns, err error) {
	if rows, err = l.rows(mini); err != nil {
		return nil, c, err
	}
	if len(rows) == 0 {
		return nil, c, errors.New("a mini-batch without a trainable token")
	}
	c = columns{old: mini.OldLogProbs, advantages: mini.Advantages}
	if c.weights, err = ppo.Weights[float32](loss.Aggregation, mini); err != nil {
		return nil, c, err
	}
	needed := []struct {
		name string
		data []float32
	}{{"old_log_probs", c.old}, {"advantages", c.advantages}}
	if mini.RefLogProbs != nil || klInLoss(loss) {
		c.reference = mini.RefLogProbs
		needed = append(needed, struct {
			name string
			data []float32
		}{"ref_log_probs", c.reference})
	}
	if loss.RolloutCorrection != ppo.CorrectionNone {
		c.rollout = mini.RolloutLogProbs
		needed = append(needed, struct {
			name string
			data []float32
		}{"rollout_log_probs", c.rollout})
	}
	for _, n := range needed {
		if err := finite(mini, rows, n.name, n.data); err != nil {
			return nil, c, err
		}
	}
	return rows, c, nil
}

// policy computes the loss and its gradient in the log-probs of each row.
func (c columns) policy(b *batch.Batch, rows []row, logProbs [][]float32, loss ppo.Config) (gradients [][]float32, m ppo.Metrics, err error) {
	var total ppo.Stats
	for k, w := range rows {
		only := func(column []float32) []float32 {
			if column == nil {
				return nil
			}
			return w.only(w.column(column))
		}
		d := make([]float32, w.count)
		stats, err := ppo.Policy(&loss, ppo.PolicyTokens[float32]{
			LogProbs: w.only(logProbs[k]), OldLogProbs: only(c.old), Advantages: only(c.advantages), Weights: only(c.weights),
			RefLogProbs: only(c.reference), RolloutLogProbs: only(c.rollout),
		}, d, nil)
		if err != nil {
			return nil, m, fmt.Errorf("%s: %w", b.Describe(w.index), err)
		}
		total.Merge(stats)
		gradients = append(gradients, w.spread(d))
	}
	return gradients, total.Metrics(), nil
}

// surrogate sends a gradient as a loss that has it.
func (r *remote) surrogate(ctx context.Context, rows []row, logProbs, gradients [][]float32) error {
	data, wanted := make([]tinker.Datum, len(rows)), make([][]float32, len(rows))
	for k, w := range rows {
		wanted[k] = w.mask()
		advantages := make([]float32, len(gradients[k]))
		scale := r.scale(w.count, len(rows))
		for t, g := range gradients[k] {
			advantages[t] = -g * scale
		}
		data[k] = w.datum(r.weighted(wanted[k], map[string]tinker.Tensor{tinker.LogProbs: tinker.Floats(masked(logProbs[k], wanted[k])), tinker.Advantages: tinker.Floats(advantages)}))
	}
	_, err := r.evaluate(ctx, true, tinker.ImportanceSampling, nil, data, tinker.LogProbs, wanted)
	return err
}

// masked is a column with 0 where it is not wanted.
func masked(column, wanted []float32) []float32 {
	out := make([]float32, len(column))
	for t := range column {
		if wanted[t] != 0 {
			out[t] = column[t]
		}
	}
	return out
}

// weighted adds the weights that a mean over the tokens of a row goes by. Where losses
// are sums, tokens that are not trainable have no gradient as it is.
func (r *remote) weighted(mask []float32, inputs map[string]tinker.Tensor) map[string]tinker.Tensor {
	if r.cfg.Profile.RowMean {
		inputs[tinker.Weights] = tinker.Floats(mask)
	}
	return inputs
}

// native has the server compute the clipped loss. It is homogeneous in the advantages,
// so that the weights go into them. The metrics are computed here, from the log-probs of
// that pass.
func (l *Learner) native(ctx context.Context, mini *batch.Batch, rows []row, c columns, loss ppo.Config, m *ppo.Metrics) error {
	data, wanted := make([]tinker.Datum, len(rows)), make([][]float32, len(rows))
	for k, w := range rows {
		wanted[k] = w.mask()
		advantages, weights := w.column(c.advantages), w.column(c.weights)
		scale := l.scale(w.count, len(rows))
		for t := range advantages {
			advantages[t] *= weights[t] * scale
		}
		data[k] = w.datum(l.weighted(wanted[k], map[string]tinker.Tensor{tinker.LogProbs: tinker.Floats(w.column(c.old)), tinker.Advantages: tinker.Floats(advantages)}))
	}
	settings := map[string]float64{tinker.ClipLow: 1 - loss.ClipLow, tinker.ClipHigh: 1 + loss.ClipHigh}
	logProbs, err := l.evaluate(ctx, true, tinker.PPO, settings, data, tinker.LogProbs, wanted)
	if err != nil {
		return err
	}
	if err := checkLogProbs(logProbs, wanted); err != nil {
		return err
	}
	_, *m, err = c.policy(mini, rows, logProbs, loss)
	return err
}

// Reference is a policy that stays as its base model is.
type Reference struct{ *remote }

// NewReference scores with a base model: a second model on the server, never trained.
func NewReference(ctx context.Context, client *tinker.Client, cfg Config) (*Reference, error) {
	if !cfg.Profile.Reference {
		return nil, fmt.Errorf("ppo.kl_coef: %s has no room for a reference policy", cfg.Profile.Name)
	}
	r, err := newRemote(ctx, client, cfg, "", "reference")
	return &Reference{r}, err
}

// LogProbs are those of the base model.
func (r *Reference) LogProbs(ctx context.Context, b *batch.Batch) ([]float32, error) {
	return r.logProbs(ctx, b)
}
