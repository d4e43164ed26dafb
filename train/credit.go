package train

import (
	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/batch"
)

// CreditMetrics tell what the advantages of a step's trajectories are made of, before
// anything is updated.
type CreditMetrics struct {
	// ExplainedVariance is 1 − Var(R−V)/Var(R) over the trainable tokens, of the values
	// that the advantages were computed with; 0 without a critic.
	ExplainedVariance float64 `json:"explained_variance"`
	// Crossed is the share of the advantages that came across a cut; see advantage.Crossed.
	Crossed float64 `json:"crossed"`
	// The same by where a segment stands in its trajectory. One that was never cut has a
	// Last one only.
	First  SegmentMetrics `json:"first_segments"`
	Middle SegmentMetrics `json:"middle_segments"`
	Last   SegmentMetrics `json:"last_segments"`
}

// SegmentMetrics are of the trainable tokens of some segments.
type SegmentMetrics struct {
	Tokens            int     `json:"tokens"`
	ExplainedVariance float64 `json:"explained_variance"`
	AdvantageMean     float64 `json:"advantage_mean"` // whitened, if advantages are
}

// creditOf measures a batch whose credit has been assigned.
func creditOf(b *batch.Batch, cfg advantage.Config) (m CreditMetrics, err error) {
	trajectories, err := b.Trajectories()
	if err != nil {
		return m, err
	}
	if m.Crossed, err = advantage.Crossed(b, cfg); err != nil {
		return m, err
	}
	var all, first, middle, last valueFit
	for _, t := range trajectories {
		for k, i := range t.Rows {
			at := &middle
			switch {
			case k == len(t.Rows)-1:
				at = &last
			case k == 0:
				at = &first
			}
			start, end := b.Span(i)
			for j := start; j < end; j++ {
				if b.LossMask[j] {
					all.add(b, j)
					at.add(b, j)
				}
			}
		}
	}
	m.ExplainedVariance = all.metrics().ExplainedVariance
	m.First, m.Middle, m.Last = first.metrics(), middle.metrics(), last.metrics()
	return m, nil
}

// valueFit compares values with returns.
type valueFit struct {
	n, advantages               float64
	returns, squares            float64
	residuals, squaredResiduals float64
	valued                      bool
}

func (f *valueFit) add(b *batch.Batch, token int) {
	f.n++
	f.advantages += float64(b.Advantages[token])
	if b.Values == nil {
		return
	}
	r, v := float64(b.Returns[token]), float64(b.Values[token])
	f.valued = true
	f.returns, f.squares = f.returns+r, f.squares+r*r
	f.residuals, f.squaredResiduals = f.residuals+r-v, f.squaredResiduals+(r-v)*(r-v)
}

func (f *valueFit) metrics() SegmentMetrics {
	m := SegmentMetrics{Tokens: int(f.n)}
	if f.n == 0 {
		return m
	}
	m.AdvantageMean = f.advantages / f.n
	variance := f.squares/f.n - (f.returns/f.n)*(f.returns/f.n)
	if rounding := 1e-12 * f.squares / f.n; f.valued && variance > rounding { // returns that differ at all
		m.ExplainedVariance = 1 - (f.squaredResiduals/f.n-(f.residuals/f.n)*(f.residuals/f.n))/variance
	}
	return m
}
