package embedded

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/ppo"
)

const (
	criticName          = "critic"
	criticOptimizerName = "optimizer-critic.safetensors"
)

// Critic is a value function that learns.
type Critic struct {
	model     *lm.Model
	gradients *lm.Gradients
	optimizer *lm.AdamW
}

var _ learner.Critic = (*Critic)(nil)

// NewCritic starts from a copy of the trunk of a base policy or, with LoRA, from the trunk
// itself and a fresh adapter, with a zero head.
func NewCritic(base *lm.Model, cfg Config) (*Critic, error) {
	from := lm.NewCriticFrom
	if cfg.LoRA.Enabled() {
		from = func(base *lm.Model) (*lm.Model, error) { return lm.AdaptCritic(base, cfg.LoRA) }
	}
	model, err := from(base)
	if err != nil {
		return nil, err
	}
	model.Threads = cfg.Threads
	c := &Critic{model: model, gradients: lm.NewGradients(model)}
	c.optimizer, err = cfg.optimizer(model)
	return c, err
}

// Save writes the weights and the state of the optimizer.
func (c *Critic) Save(_ context.Context, dir string) error {
	return cmp.Or(c.model.Save(filepath.Join(dir, criticName)), c.optimizer.Save(filepath.Join(dir, criticOptimizerName)))
}

// Load reads what Save wrote.
func (c *Critic) Load(_ context.Context, dir string) error {
	if err := load(filepath.Join(dir, criticName), c.model); err != nil {
		return err
	}
	return c.optimizer.Load(filepath.Join(dir, criticOptimizerName))
}

// Values are those of the current weights.
func (c *Critic) Values(ctx context.Context, b *batch.Batch) ([]float32, error) {
	rows, values := sequences(b)
	if err := c.model.Values(ctx, rows, values); err != nil {
		return nil, err
	}
	return scatter(b, rows, values), nil
}

// StateValues returns the value of each state.
func (c *Critic) StateValues(ctx context.Context, prompts [][]int32) ([]float32, error) {
	rows, values := states(prompts)
	if err := c.model.Values(ctx, rows, values); err != nil {
		return nil, err
	}
	return slices.Concat(values...), nil
}

// Update runs forward and backward over the rows of the mini-batch and takes a step.
func (c *Critic) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (result learner.UpdateResult, err error) {
	weights, err := ppo.Weights[float32](cfg.Loss.Aggregation, mini)
	if err != nil {
		return result, err
	}
	rows, _ := sequences(mini)
	seen := newRowStats(len(rows))
	loss := func(i int, values []float32) (dValues []float32) {
		dValues = make([]float32, len(values))
		seen.stats[i], seen.errors[i] = ppo.Value(&cfg.Loss, ppo.ValueTokens[float32]{
			Values:    values,
			OldValues: trainable(mini, i, mini.Values),
			Returns:   trainable(mini, i, mini.Returns),
			Weights:   trainable(mini, i, weights),
		}, dValues)
		return dValues
	}
	c.gradients.Zero()
	if err := c.model.AccumulateValue(ctx, rows, loss, c.gradients); err != nil {
		return result, err
	}
	if result.Metrics, err = seen.metrics(mini); err != nil {
		return result, err
	}
	if result.GradNorm, err = c.optimizer.Step(c.gradients, cfg.LearningRate); err != nil {
		return result, fmt.Errorf("critic: %w", err)
	}
	return result, nil
}
