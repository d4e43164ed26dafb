package train

import (
	"context"
	"slices"
	"testing"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/ppo"
)

// unitCritic answers 1 for every value and remembers what it is to learn.
type unitCritic struct {
	learner.Critic
	returns, values []float32
}

func (c *unitCritic) Values(_ context.Context, b *batch.Batch) ([]float32, error) {
	return slices.Repeat([]float32{1}, b.Tokens()), nil
}

func (c *unitCritic) StateValues(_ context.Context, prompts [][]int32) ([]float32, error) {
	return slices.Repeat([]float32{1}, len(prompts)), nil
}

func (c *unitCritic) Update(_ context.Context, mini *batch.Batch, _ learner.UpdateConfig) (learner.UpdateResult, error) {
	c.returns, c.values = mini.Returns, mini.Values
	return learner.UpdateResult{Metrics: ppo.Metrics{ValueMean: 1, ReturnMean: 2}}, nil
}

// The critic sees returns in units of their first spread, and the run values in those of
// returns; returns that do not differ give no unit.
func TestValuesInUnitsOfReturns(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	critic, scale := &unitCritic{}, 0.0
	s := scaledCritic{critic, &scale}
	b := &batch.Batch{TokenIDs: make([]int32, 3), LossMask: []bool{true, false, true}, Returns: []float32{5, 99, 5}, Values: []float32{4, 0, 4}}
	values := func() float32 {
		v, err := s.values(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		next, err := s.stateValues(ctx, [][]int32{{1}})
		if err != nil || next[0] != v[0] {
			t.Fatalf("state value %v, %v: want %v", next, err, v[0])
		}
		return v[0]
	}
	if s.measure(b.Returns, b.LossMask); scale != 0 || values() != 1 {
		t.Errorf("returns that do not differ: scale %v", scale)
	}
	b.Returns = []float32{2, 99, 10}
	s.measure(b.Returns, b.LossMask)
	if scale != 4 || values() != 4 {
		t.Errorf("scale %v, value %v: want 4 and 4", scale, values())
	}
	result, err := s.update(ctx, b, learner.UpdateConfig{})
	if err != nil || !slices.Equal(critic.returns, []float32{0.5, 24.75, 2.5}) || !slices.Equal(critic.values, []float32{1, 0, 1}) {
		t.Errorf("the critic learns %v from %v, %v", critic.returns, critic.values, err)
	}
	if result.Metrics.ValueMean != 4 || result.Metrics.ReturnMean != 8 {
		t.Errorf("metrics %+v", result.Metrics)
	}
	if s.measure([]float32{0, 0, 1}, b.LossMask); scale != 4 {
		t.Errorf("the scale has changed to %v", scale)
	}
}
