package train

import (
	"math"
	"testing"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/trajectory"
)

func TestCreditBySegment(t *testing.T) {
	t.Parallel()
	// Trajectory a has three segments, b one; two tokens a segment, the first not trained.
	b := &batch.Batch{
		Rows: []batch.Row{
			{TrajectoryID: "a", InvIter: 0, Score: 1, HasScore: true}, {TrajectoryID: "a", InvIter: 2}, {TrajectoryID: "b", Score: 3, HasScore: true}, {TrajectoryID: "a", InvIter: 1},
		},
		CuSeqLens: []int64{0, 2, 4, 6, 8},
		TokenIDs:  make([]int32, 8),
		LossMask:  []bool{false, true, false, true, false, true, false, true},
		Values:    []float32{9, 1, 9, 0, 9, 2, 9, 1},
	}
	cfg := advantage.Config{Estimator: "gae", Gamma: 1, Lambda: 1, CriticLambda: 1}
	if err := advantage.Compute(b, cfg); err != nil {
		t.Fatal(err)
	}
	m, err := creditOf(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	// Returns 1 1 1 3, values 1 0 1 2: Var(R) = .75, R − V = 0 1 0 1 with variance .25.
	if math.Abs(m.ExplainedVariance-(1-.25/.75)) > 1e-9 {
		t.Errorf("explained variance %v", m.ExplainedVariance)
	}
	for name, c := range map[string]struct{ got, want SegmentMetrics }{
		"first":  {m.First, SegmentMetrics{Tokens: 1, AdvantageMean: 1}}, // one return: no variance to explain
		"middle": {m.Middle, SegmentMetrics{Tokens: 1}},
		"last":   {m.Last, SegmentMetrics{Tokens: 2, ExplainedVariance: .75, AdvantageMean: .5}},
	} {
		if math.Abs(c.got.AdvantageMean-c.want.AdvantageMean) > 1e-9 || math.Abs(c.got.ExplainedVariance-c.want.ExplainedVariance) > 1e-9 || c.got.Tokens != c.want.Tokens {
			t.Errorf("%s segments: %+v, want %+v", name, c.got, c.want)
		}
	}
}

func TestPaidAlike(t *testing.T) {
	t.Parallel()
	played := func(scores ...float64) (all []*trajectory.Trajectory) {
		for _, score := range scores {
			all = append(all, &trajectory.Trajectory{Status: trajectory.Finished, Score: score})
		}
		return all
	}
	cut := played(0, 0)
	cut[1].Status = trajectory.Truncated
	for name, test := range map[string]struct {
		played []*trajectory.Trajectory
		want   bool
	}{
		"the same score":                   {played(1, 1, 1), true},
		"another score":                    {played(1, 0, 1), false},
		"the same sum, rounded elsewhere":  {played(0.1+0.2+0.3, 0.3+0.2+0.1), true},
		"nothing to be compared with":      {played(1), false},
		"nobody has come to any reward":    {played(0, 0, 0), true},
		"what is still to come is unknown": {cut, false},
	} {
		if got := paidAlike(test.played); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
