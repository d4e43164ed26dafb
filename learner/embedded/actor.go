package embedded

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/ppo"
)

// ActorName is the folder of the policy's weights in a checkpoint.
const (
	ActorName          = "actor"
	actorOptimizerName = "optimizer-actor.safetensors"
)

// Actor is a policy that learns.
type Actor struct {
	model       *lm.Model
	gradients   *lm.Gradients
	optimizer   *lm.AdamW
	temperature float32
}

var _ learner.Learner = (*Actor)(nil)

// NewActor starts from a copy of a base policy or, with LoRA, from the base itself and a
// fresh adapter: the base must not change any more.
func NewActor(base *lm.Model, cfg Config) (*Actor, error) {
	model := base
	switch {
	case !cfg.LoRA.Enabled():
		model = base.Clone()
	default:
		var err error
		if model, err = lm.Adapt(base, cfg.LoRA); err != nil {
			return nil, err
		}
	}
	return newActor(model, cfg)
}

// TakeActor is NewActor that trains all weights of a base policy in their place, which
// saves a copy of them: nobody else may use the base.
func TakeActor(base *lm.Model, cfg Config) (*Actor, error) {
	if cfg.LoRA.Enabled() {
		return NewActor(base, cfg)
	}
	return newActor(base, cfg)
}

func newActor(model *lm.Model, cfg Config) (*Actor, error) {
	a := &Actor{model: model, temperature: float32(cfg.Temperature)}
	a.model.Threads = cfg.Threads
	a.gradients = lm.NewGradients(a.model)
	var err error
	a.optimizer, err = cfg.optimizer(a.model)
	return a, err
}

// Sampler samples from the policy. It shares its memory: it must take the published
// weights before it samples again after an update.
func (a *Actor) Sampler(options lm.Options) (*lm.Sampler, error) {
	options.Version = a.Version()
	return lm.NewSampler(a.model, options)
}

// Model is the policy as it is now.
func (a *Actor) Model() *lm.Model { return a.model }

// Version counts the updates.
func (a *Actor) Version() int64 { return a.optimizer.Steps() }

// Publish has nothing to move: the samplers share the memory.
func (a *Actor) Publish(context.Context) (policy.Weights, error) {
	return policy.Weights{Version: a.Version()}, nil
}

// Save writes the weights, or the adapter, and the state of the optimizer.
func (a *Actor) Save(_ context.Context, dir string) error {
	return cmp.Or(a.model.Save(filepath.Join(dir, ActorName)), a.optimizer.Save(filepath.Join(dir, actorOptimizerName)))
}

// Load reads what Save wrote.
func (a *Actor) Load(_ context.Context, dir string) error {
	if err := load(filepath.Join(dir, ActorName), a.model); err != nil {
		return err
	}
	return a.optimizer.Load(filepath.Join(dir, actorOptimizerName))
}

// LogProbs are those of the current weights.
func (a *Actor) LogProbs(ctx context.Context, b *batch.Batch) ([]float32, error) {
	return logProbs(ctx, a.model, a.temperature, b)
}

func logProbs(ctx context.Context, m *lm.Model, temperature float32, b *batch.Batch) ([]float32, error) {
	rows, out := sequences(b)
	if err := m.LogProbs(ctx, rows, temperature, out, nil); err != nil {
		return nil, err
	}
	return scatter(b, rows, out), nil
}

// Update runs forward and backward over the rows of the mini-batch and takes a step.
func (a *Actor) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (result learner.UpdateResult, err error) {
	weights, err := ppo.Weights[float32](cfg.Loss.Aggregation, mini)
	if err != nil {
		return result, err
	}
	rows, _ := sequences(mini)
	seen := newRowStats(len(rows))
	loss := func(i int, logProbs, entropies []float32) (dLogProbs, dEntropies []float32) {
		row := ppo.PolicyTokens[float32]{
			LogProbs:    logProbs,
			OldLogProbs: trainable(mini, i, mini.OldLogProbs),
			Advantages:  trainable(mini, i, mini.Advantages),
			Weights:     trainable(mini, i, weights),
			Entropies:   entropies,
			RefLogProbs: trainable(mini, i, mini.RefLogProbs),
		}
		if cfg.Loss.RolloutCorrection != ppo.CorrectionNone {
			row.RolloutLogProbs = trainable(mini, i, mini.RolloutLogProbs)
		}
		dLogProbs = make([]float32, len(logProbs))
		if cfg.Loss.EntropyCoef != 0 {
			dEntropies = make([]float32, len(logProbs))
		}
		seen.stats[i], seen.errors[i] = ppo.Policy(&cfg.Loss, row, dLogProbs, dEntropies)
		return dLogProbs, dEntropies
	}
	a.gradients.Zero()
	if err := a.model.AccumulatePolicy(ctx, rows, a.temperature, loss, a.gradients); err != nil {
		return result, err
	}
	if result.Metrics, err = seen.metrics(mini); err != nil {
		return result, err
	}
	if result.GradNorm, err = a.optimizer.Step(a.gradients, cfg.LearningRate); err != nil {
		return result, fmt.Errorf("actor: %w", err)
	}
	return result, nil
}

// Reference is a frozen policy.
type Reference struct {
	model       *lm.Model
	temperature float32
}

var _ learner.Scorer = (*Reference)(nil)

// NewReference scores with a base policy, which must not change.
func NewReference(base *lm.Model, cfg Config) *Reference {
	return &Reference{base, float32(cfg.Temperature)}
}

// LogProbs are those of the frozen weights.
func (r *Reference) LogProbs(ctx context.Context, b *batch.Batch) ([]float32, error) {
	return logProbs(ctx, r.model, r.temperature, b)
}
