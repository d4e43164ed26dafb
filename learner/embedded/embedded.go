// Package embedded trains policies and critics of the embedded engine.
//
// The weights of a loss are those of the whole mini-batch, rows are worked on in
// parallel and their gradients added in row order: the same mini-batch gives the same
// bits on any number of threads.
package embedded

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/ppo"
)

// Config says how models are trained, whatever the loss.
type Config struct {
	Threads     int     // of the engine; 0: one a core
	Temperature float64 // that samplers sample at
	WeightDecay float64
	MaxGradNorm float64 // gradients are clipped to it; 0: not
	// LoRA adapts the base model, whose weights then stay as they are and are shared by
	// actor, critic, sampler and reference; the zero value trains all weights.
	LoRA lm.LoRA
}

func (c Config) optimizer(m *lm.Model) (*lm.AdamW, error) {
	return lm.NewAdamW(m, lm.AdamWConfig{WeightDecay: c.WeightDecay, MaxGradNorm: c.MaxGradNorm})
}

// sequences views a batch as the engine's rows: the targets are the trainable
// tokens. out has one slice a row, of the length of its targets.
func sequences(b *batch.Batch) (rows []lm.Sequence, out [][]float32) {
	rows, out = make([]lm.Sequence, len(b.Rows)), make([][]float32, len(b.Rows))
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
func scatter(b *batch.Batch, rows []lm.Sequence, of [][]float32) []float32 {
	column := make([]float32, b.Tokens())
	for i := range rows {
		start, _ := b.Span(i)
		for k, t := range rows[i].Targets {
			column[start+int(t)] = of[i][k]
		}
	}
	return column
}

// trainable returns the entries of a token column at the trainable tokens of row i; nil
// for an absent column.
func trainable(b *batch.Batch, i int, column []float32) []float32 {
	if column == nil {
		return nil
	}
	start, end := b.Span(i)
	return ppo.Trainable(b.LossMask[start:end], column[start:end])
}

// rowStats collects what concurrent callbacks report, to be merged in row order.
type rowStats struct {
	stats  []ppo.Stats
	errors []error
}

func newRowStats(n int) *rowStats { return &rowStats{make([]ppo.Stats, n), make([]error, n)} }

func (r *rowStats) metrics(b *batch.Batch) (ppo.Metrics, error) {
	var total ppo.Stats
	for i := range r.stats {
		if r.errors[i] != nil {
			return ppo.Metrics{}, fmt.Errorf("%s: %w", b.Describe(i), r.errors[i])
		}
		total.Merge(r.stats[i])
	}
	return total.Metrics(), nil
}

// load copies a checkpoint into a model of the same shape, or an adapter into a model with
// one.
func load(path string, into *lm.Model) error {
	model, err := open(path, into)
	if err != nil {
		return err
	}
	if err := into.CopyFrom(model); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func open(path string, like *lm.Model) (*lm.Model, error) {
	want, adapted := like.Adapter()
	if !adapted {
		return lm.Load(path)
	}
	if !lm.IsAdapter(path) {
		return nil, fmt.Errorf("%s: a model with all its weights: want an adapter of rank %d", path, want.Rank)
	}
	model, err := lm.LoadAdapter(like.Base(), path)
	if err != nil {
		return nil, err
	}
	if got, _ := model.Adapter(); got.Rank != want.Rank || got.Alpha != want.Alpha || !slices.Equal(got.Targets, want.Targets) {
		return nil, fmt.Errorf("%s: an adapter of rank %d, alpha %g and targets %q: want rank %d, alpha %g and targets %q", path,
			got.Rank, got.Alpha, got.Targets, want.Rank, want.Alpha, want.Targets)
	}
	return model, nil
}

// states are prompts as rows whose one target follows the prompt: V_t is read one
// position to the left of t, so that any token stands for the next.
func states(prompts [][]int32) (rows []lm.Sequence, values [][]float32) {
	rows, values = make([]lm.Sequence, len(prompts)), make([][]float32, len(prompts))
	for i, prompt := range prompts {
		rows[i] = lm.Sequence{Tokens: append(slices.Clone(prompt), 0), Targets: []int32{int32(len(prompt))}}
		values[i] = make([]float32, 1)
	}
	return rows, values
}
