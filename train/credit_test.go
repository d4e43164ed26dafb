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
	row := func(id string, invIter int, score float64) batch.Row {
		return batch.Row{TrajectoryID: id, InvIter: invIter, Score: score, HasScore: invIter == 0}
	}
	for name, test := range map[string]struct {
		rows    []batch.Row
		rewards []float32
		want    bool
	}{
		"the same score":                   {[]batch.Row{row("a", 1, 0), row("a", 0, 1), row("b", 0, 1)}, nil, true},
		"another score":                    {[]batch.Row{row("a", 1, 0), row("a", 0, 1), row("b", 0, 0)}, nil, false},
		"the same sum, paid elsewhere":     {[]batch.Row{row("a", 1, 0), row("a", 0, 1), row("b", 0, 1)}, []float32{0.5, 0, 0, 0.5, 0, 1}, true},
		"rewards along the way":            {[]batch.Row{row("a", 1, 0), row("a", 0, 1), row("b", 0, 1)}, []float32{0.5, 0, 0, 1, 0, 1}, false},
		"nothing to be compared with":      {[]batch.Row{row("a", 1, 0), row("a", 0, 1)}, nil, false},
		"the same sum, rounded elsewhere":  {[]batch.Row{row("a", 0, 0.1+0.2+0.3), row("b", 0, 0.3+0.2+0.1)}, nil, true},
		"what is still to come is unknown": {[]batch.Row{{TrajectoryID: "a", HasScore: true, Status: trajectory.Truncated}, row("b", 0, 0)}, nil, false},
		"nobody has come to any reward":    {[]batch.Row{row("a", 0, 0), row("b", 0, 0), row("c", 0, 0)}, nil, true},
	} {
		b := &batch.Batch{Rows: test.rows, CuSeqLens: []int64{0}, Rewards: test.rewards}
		for range test.rows {
			b.TokenIDs, b.LossMask = append(b.TokenIDs, 1, 2), append(b.LossMask, false, true)
			b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
		}
		if got, err := paidAlike(b); err != nil || got != test.want {
			t.Errorf("%s: %v, %v: want %v", name, got, err, test.want)
		}
	}
}
