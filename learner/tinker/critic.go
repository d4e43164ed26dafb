package tinker

import (
	"context"
	"errors"
	"fmt"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/tinker"
)

// Critic is a value function on a server that has models of that role.
//
// Its loss there, ½·max(…)² in means over rows, is no loss of ours but has any gradient:
// at old values equal to the current ones nothing is clipped, and its derivative is
// V − R over the means, so that R = V − g times them gives the gradient g.
type Critic struct{ *remote }

var _ learner.Critic = (*Critic)(nil)

// NewCritic makes a critic from a base model. SkyRL wants a policy in the session before.
func NewCritic(ctx context.Context, client *tinker.Client, cfg Config) (*Critic, error) {
	if !cfg.Profile.CriticRole {
		return nil, fmt.Errorf("tinker critic: %s has no critics: want a token critic, or an estimator that reads no values", cfg.Profile.Name)
	}
	r, err := newRemote(ctx, client, cfg, "critic", "critic")
	return &Critic{r}, err
}

// values scores rows.
func (c *Critic) values(ctx context.Context, rows []row) ([][]float32, error) {
	return c.send(ctx, false, rows, func(w *row, _ int) (values, returns []float32) {
		n := len(w.trainable)
		return make([]float32, n), make([]float32, n)
	})
}

func (c *Critic) send(ctx context.Context, backward bool, rows []row, columns func(w *row, k int) (values, returns []float32)) ([][]float32, error) {
	data, wanted := make([]tinker.Datum, len(rows)), make([][]float32, len(rows))
	for k := range rows {
		w := &rows[k]
		wanted[k] = w.mask()
		values, returns := columns(w, k)
		data[k] = w.datum(map[string]tinker.Tensor{tinker.Values: tinker.Floats(values), tinker.Returns: tinker.Floats(returns), tinker.Weights: tinker.Floats(wanted[k])})
	}
	return c.evaluate(ctx, backward, tinker.PPOCritic, nil, data, tinker.Values, wanted)
}

// Values are those of the current weights.
func (c *Critic) Values(ctx context.Context, b *batch.Batch) ([]float32, error) {
	return c.valueColumn(ctx, b, c.values)
}

// StateValues returns the value of each state.
func (c *Critic) StateValues(ctx context.Context, prompts [][]int32) ([]float32, error) {
	return c.stateValues(ctx, prompts, c.values)
}

// Update takes an optimizer step; see Learner.Update.
func (c *Critic) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (learner.UpdateResult, error) {
	return c.updateValues(ctx, mini, cfg, c.values, func(rows []row, values, gradients [][]float32) error {
		_, err := c.send(ctx, true, rows, func(w *row, k int) (old, returns []float32) {
			old, returns = masked(values[k], w.mask()), make([]float32, len(w.trainable))
			for t := range returns { // the loss is a mean over rows of means, whatever the profile
				returns[t] = old[t] - gradients[k][t]*float32(w.count)*float32(len(rows))
			}
			return old, returns
		})
		return err
	})
}

// valueColumn is the column of a batch that a critic gives.
func (r *remote) valueColumn(ctx context.Context, b *batch.Batch, values func(context.Context, []row) ([][]float32, error)) ([]float32, error) {
	if err := r.usable(); err != nil {
		return nil, err
	}
	rows, err := r.rows(b)
	if err != nil {
		return nil, err
	}
	columns, err := values(ctx, rows)
	if err != nil {
		return nil, err
	}
	return scatter(b, rows, columns), nil
}

// stateValues asks for the token after each prompt, which may be any.
func (r *remote) stateValues(ctx context.Context, prompts [][]int32, values func(context.Context, []row) ([][]float32, error)) ([]float32, error) {
	if err := r.usable(); err != nil {
		return nil, err
	}
	rows, out := make([]row, len(prompts)), make([]float32, len(prompts))
	for k, prompt := range prompts {
		n := len(prompt)
		if n == 0 {
			return nil, fmt.Errorf("tinker %s: state %d is empty", r.name, k)
		}
		if err := r.checkTokens(prompt); err != nil {
			return nil, fmt.Errorf("tinker %s: state %d: %w", r.name, k, err)
		}
		rows[k] = row{index: k, tokens: append(append(make([]int32, 0, n+1), prompt...), 0), trainable: make([]bool, n), count: 1}
		rows[k].trainable[n-1] = true
	}
	columns, err := values(ctx, r.fill(rows))
	if err != nil {
		return nil, err
	}
	for k := range out {
		out[k] = columns[k][len(columns[k])-1]
	}
	return out, nil
}

// updateValues computes the value loss and its gradient here, and has it sent.
func (r *remote) updateValues(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig, values func(context.Context, []row) ([][]float32, error), send func(rows []row, values, gradients [][]float32) error) (result learner.UpdateResult, err error) {
	fail := func(err error) (learner.UpdateResult, error) {
		return learner.UpdateResult{}, fmt.Errorf("tinker %s: %w", r.name, err)
	}
	if err := r.usable(); err != nil {
		return result, err
	}
	rows, err := r.rows(mini)
	if err != nil {
		return fail(err)
	}
	if len(rows) == 0 {
		return fail(errors.New("a mini-batch without a trainable token"))
	}
	weights, err := ppo.Weights[float32](cfg.Loss.Aggregation, mini)
	if err != nil {
		return fail(err)
	}
	if err := finite(mini, rows, "returns", mini.Returns); err != nil {
		return fail(err)
	}
	if cfg.Loss.ValueClip != 0 {
		if err := finite(mini, rows, "values", mini.Values); err != nil {
			return fail(err)
		}
	}
	current, err := values(ctx, rows)
	if err != nil {
		return fail(err)
	}
	var total ppo.Stats
	gradients := make([][]float32, len(rows))
	for k, w := range rows {
		tokens := ppo.ValueTokens[float32]{Values: w.only(current[k]), Returns: w.only(w.column(mini.Returns)), Weights: w.only(w.column(weights))}
		if cfg.Loss.ValueClip != 0 {
			tokens.OldValues = w.only(w.column(mini.Values))
		}
		d := make([]float32, w.count)
		stats, err := ppo.Value(&cfg.Loss, tokens, d)
		if err != nil {
			return fail(fmt.Errorf("%s: %w", mini.Describe(w.index), err))
		}
		total.Merge(stats)
		gradients[k] = w.spread(d)
	}
	result.Metrics = total.Metrics()
	if result.GradNorm, err = r.update(ctx, cfg.LearningRate, func() error { return send(rows, current, gradients) }); err != nil {
		return fail(err)
	}
	return result, nil
}
