package train

import (
	"context"
	"math"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
)

// scaledCritic has a critic learn values in units of the spread that returns had when they
// first had one, so that its head need not grow to what returns happen to be. The scale of
// rewards then changes nothing, and ppo.value_clip counts in that unit.
type scaledCritic struct {
	critic learner.Critic
	scale  *float64 // 0 until it is known
}

// measure takes the standard deviation of returns for the unit, once they differ.
func (s scaledCritic) measure(returns []float32, mask []bool) {
	if *s.scale != 0 {
		return
	}
	_, spread, _ := describe(returns, mask)
	if rounding := 1e-6 * largest(returns, mask); spread > rounding {
		*s.scale = spread
	}
}

// unit is 1 as long as no returns have differed.
func (s scaledCritic) unit() float64 {
	if *s.scale == 0 {
		return 1
	}
	return *s.scale
}

func (s scaledCritic) values(ctx context.Context, b *batch.Batch) ([]float32, error) {
	return s.multiplied(s.unit())(s.critic.Values(ctx, b))
}

func (s scaledCritic) stateValues(ctx context.Context, prompts [][]int32) ([]float32, error) {
	return s.multiplied(s.unit())(s.critic.StateValues(ctx, prompts))
}

// update changes the columns of the mini-batch. Losses are in squared units; means are not.
func (s scaledCritic) update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (learner.UpdateResult, error) {
	unit := s.unit()
	multiply(mini.Returns, 1/unit)
	multiply(mini.Values, 1/unit)
	result, err := s.critic.Update(ctx, mini, cfg)
	result.Metrics.ValueMean *= unit
	result.Metrics.ReturnMean *= unit
	return result, err
}

func (s scaledCritic) multiplied(by float64) func([]float32, error) ([]float32, error) {
	return func(values []float32, err error) ([]float32, error) {
		multiply(values, by)
		return values, err
	}
}

func multiply(column []float32, by float64) {
	if by == 1 {
		return
	}
	for t := range column {
		column[t] = float32(float64(column[t]) * by)
	}
}

// largest is the greatest absolute value at trainable tokens.
func largest(column []float32, mask []bool) (most float64) {
	for t, m := range mask {
		if m {
			most = max(most, math.Abs(float64(column[t])))
		}
	}
	return most
}
