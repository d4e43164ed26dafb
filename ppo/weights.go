package ppo

import (
	"fmt"

	"github.com/infinirl/infinirl/batch"
)

// Float is the precision of a token column. Running sums are float64 always.
type Float interface{ ~float32 | ~float64 }

// Weights returns w_t for every token of a mini-batch, such that the
// aggregated loss is Σ_t w_t·ℓ_t; 0 where the mask is. With n_i the trainable
// tokens of row i, N = Σ n_i, R the rows and J the trajectories with n > 0,
// n_j the trainable tokens of trajectory j through all of its segments:
//
//	token-mean           w = 1/N
//	seq-mean-token-sum   w = 1/R
//	seq-mean-token-mean  w = 1/(R·(n_i + 1e-8))   (the 1e-8 as in verl)
//	trajectory-mean      w = 1/(J·n_j)
//
// Cuts change no weight under token-mean and trajectory-mean: under the one a
// trajectory weighs as much as it has trainable tokens, under the other all weigh
// the same. Under the other two R grows with the cuts: seq-mean-token-sum makes the
// whole loss smaller, by one factor, and under seq-mean-token-mean a trajectory
// weighs as much as it has rows.
//
// Compute the weights once for the whole mini-batch, before splitting it.
// With no trainable token at all, every weight is 0.
func Weights[T Float](aggregation string, b *batch.Batch) ([]T, error) {
	counts := make([]float64, len(b.Rows)) // n_i
	byID := make(map[string]float64)       // n_j
	var tokens, sequences, trajectories float64
	for i := range b.Rows {
		n := float64(b.Trainable(i))
		counts[i] = n
		if n == 0 {
			continue
		}
		tokens += n
		sequences++
		id := b.Rows[i].TrajectoryID
		if _, seen := byID[id]; !seen {
			trajectories++
		}
		byID[id] += n
	}
	weights := make([]T, len(b.LossMask))
	for i, n := range counts {
		if n == 0 {
			continue
		}
		var w float64
		switch aggregation {
		case TokenMean:
			w = 1 / tokens
		case SeqMeanTokenSum:
			w = 1 / sequences
		case SeqMeanTokenMean:
			w = 1 / (sequences * (n + 1e-8))
		case TrajectoryMean:
			w = 1 / (trajectories * byID[b.Rows[i].TrajectoryID])
		default:
			return nil, fmt.Errorf("aggregation: %q: want one of %s, %s, %s, %s", aggregation, TokenMean, SeqMeanTokenSum, SeqMeanTokenMean, TrajectoryMean)
		}
		start, end := b.Span(i)
		for t := start; t < end; t++ {
			if b.LossMask[t] {
				weights[t] = T(w)
			}
		}
	}
	return weights, nil
}

// Trainable returns the entries of a token column at the trainable tokens, in
// order; nil for an absent column. The losses of this package take columns in
// this form.
func Trainable[T any](mask []bool, column []T) []T {
	if column == nil {
		return nil
	}
	var out []T
	for t, m := range mask {
		if m {
			out = append(out, column[t])
		}
	}
	return out
}
