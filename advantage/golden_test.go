package advantage

import (
	"math"
	"testing"

	"github.com/infinirl/infinirl/batch"
)

// goldenBatch is one trajectory of three segments, rows shuffled.
func goldenBatch() *batch.Batch {
	rows := []struct {
		inv             int
		values, rewards []float32
		mask            []bool
	}{
		{1, []float32{9, .4, .5}, []float32{0, 0, 0}, []bool{false, true, true}},
		{0, []float32{.6, .7, .8, 9}, []float32{0, 0, 1, 0}, []bool{true, true, true, false}},
		{2, []float32{.1, .2, 9, .3}, []float32{0, 0, 0, 0}, []bool{true, true, false, true}},
	}
	b := &batch.Batch{CuSeqLens: []int64{0}}
	for _, r := range rows {
		b.Rows = append(b.Rows, batch.Row{TrajectoryID: "t", GroupID: "g", InvIter: r.inv, PromptLen: 2})
		b.TokenIDs = append(b.TokenIDs, make([]int32, 2+len(r.mask))...)
		b.LossMask = append(append(b.LossMask, false, false), r.mask...)
		b.Values = append(append(b.Values, 7, 7), r.values...)
		b.Rewards = append(append(b.Rewards, 0, 0), r.rewards...)
		b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
	}
	return b
}

func TestGoldenCase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		estimator           string
		advantages, returns []float64 // at trainable tokens in the order of time
	}{
		{"gae",
			[]float64{.219568, .193845, .172007, .155565, .146618, .14808, .164, .2},
			[]float64{.478297, .531441, .59049, .6561, .729, .81, .9, 1}},
		{"per-segment",
			[]float64{-.02512, -.146, -.3, -.31, -.5, .14808, .164, .2},
			[]float64{0, 0, 0, 0, 0, .81, .9, 1}},
		{"outcome-copy",
			[]float64{.49328, .574, .7, .41, .5, .14808, .164, .2},
			[]float64{.81, .9, 1, .9, 1, .81, .9, 1}},
		{"compaction-rl",
			[]float64{.095446, .111064, .135444, .153032, .186624, .14808, .164, .2},
			[]float64{.81, .9, 1, .9, 1, .81, .9, 1}},
	} {
		b := goldenBatch()
		err := Compute(b, Config{Estimator: c.estimator, Gamma: .9, Lambda: .8, CriticLambda: 1})
		if err != nil {
			t.Fatal(err)
		}
		var advantages, returns []float32
		for _, i := range []int{2, 0, 1} {
			start, end := b.Span(i)
			for k := start; k < end; k++ {
				if b.LossMask[k] {
					advantages, returns = append(advantages, b.Advantages[k]), append(returns, b.Returns[k])
				} else if b.Advantages[k] != 0 || b.Returns[k] != 0 {
					t.Errorf("%s: row %d token %d is not trainable and has %v, %v", c.estimator, i, k-start, b.Advantages[k], b.Returns[k])
				}
			}
		}
		for k := range c.advantages {
			if math.Abs(float64(advantages[k])-c.advantages[k]) > 1e-6 || math.Abs(float64(returns[k])-c.returns[k]) > 1e-6 {
				t.Errorf("%s: token %d: %v, %v: want %v, %v", c.estimator, k, advantages[k], returns[k], c.advantages[k], c.returns[k])
			}
		}
	}
}
