package ppo

import (
	"errors"
	"fmt"

	"github.com/infinirl/infinirl/batch"
)

// NonFiniteError is a NaN or infinity in an input at a trainable token.
type NonFiniteError struct {
	Column string
	Token  int // among the trainable tokens of the row
	Value  float64
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("%s: trainable token %d: %v: want a finite number", e.Column, e.Token, e.Value)
}

// Locate names trajectory, segment and response token in an error that Policy
// or Value returned for row i.
func Locate(b *batch.Batch, i int, err error) error {
	var bad *NonFiniteError
	if !errors.As(err, &bad) {
		return fmt.Errorf("%s: %w", b.Describe(i), err)
	}
	start, end := b.Span(i)
	response, k := 0, bad.Token
	for t, m := range b.LossMask[start:end] {
		if m {
			if k == 0 {
				response = t - b.Rows[i].PromptLen
				break
			}
			k--
		}
	}
	return fmt.Errorf("%s, response token %d: %w", b.Describe(i), response, err)
}

// PolicyBatch is Policy over all rows of a batch, with columns over all of its
// tokens: weights as from Weights, logProbs and entropies (may be nil) of the
// current policy. What stands at tokens that are not trainable is not read;
// their gradients are 0. Old, reference and rollout log-probs and the
// advantages are those of the batch.
func PolicyBatch(cfg *Config, b *batch.Batch, weights, logProbs, entropies, dLogProbs, dEntropies []float32) (Stats, error) {
	var total Stats
	for i := range b.Rows {
		start, end := b.Span(i)
		mask := b.LossMask[start:end]
		take := func(column []float32) []float32 {
			if column == nil {
				return nil
			}
			return Trainable(mask, column[start:end])
		}
		row := Row[float32]{
			LogProbs: take(logProbs), OldLogProbs: take(b.OldLogProbs), Advantages: take(b.Advantages), Weights: take(weights),
			Entropies: take(entropies), RefLogProbs: take(b.RefLogProbs), RolloutLogProbs: take(b.RolloutLogProbs),
		}
		gradient := make([]float32, len(row.LogProbs))
		var entropyGradient []float32
		if dEntropies != nil {
			entropyGradient = make([]float32, len(row.LogProbs))
		}
		s, err := Policy(cfg, row, gradient, entropyGradient)
		if err != nil {
			return Stats{}, Locate(b, i, err)
		}
		spread(dLogProbs[start:end], mask, gradient)
		if dEntropies != nil {
			spread(dEntropies[start:end], mask, entropyGradient)
		}
		total.Merge(s)
	}
	return total, nil
}

// ValueBatch is Value over all rows of a batch, like PolicyBatch. Old values
// and returns are those of the batch.
func ValueBatch(cfg *Config, b *batch.Batch, weights, values, dValues []float32) (Stats, error) {
	var total Stats
	for i := range b.Rows {
		start, end := b.Span(i)
		mask := b.LossMask[start:end]
		row := ValueRow[float32]{
			Values: Trainable(mask, values[start:end]), Returns: Trainable(mask, b.Returns[start:end]), Weights: Trainable(mask, weights[start:end]),
		}
		if b.Values != nil {
			row.OldValues = Trainable(mask, b.Values[start:end])
		}
		gradient := make([]float32, len(row.Values))
		s, err := Value(cfg, row, gradient)
		if err != nil {
			return Stats{}, Locate(b, i, err)
		}
		spread(dValues[start:end], mask, gradient)
		total.Merge(s)
	}
	return total, nil
}

// spread writes one entry of x to each trainable token and 0 to the others.
func spread(column []float32, mask []bool, x []float32) {
	k := 0
	for t, m := range mask {
		column[t] = 0
		if m {
			column[t] = x[k]
			k++
		}
	}
}
