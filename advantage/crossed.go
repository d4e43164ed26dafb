package advantage

import (
	"math"

	"github.com/infinirl/infinirl/batch"
)

// Crossed is the share of the advantages that came across a cut, before whitening: with n
// steps from a token to the end of its segment, its own included, and A' the advantage of
// the first decision behind the cut,
//
//	A = local + (γλ)^n·A'      share = Σ |(γλ)^n·A'| / Σ (|local| + |(γλ)^n·A'|)
//
// over the trainable tokens. The value of the state behind the cut is part of local: a
// critic knows it without the carry. Of gae and turn-gae; under any other estimator, which
// carries nothing, it is 0.
func Crossed(b *batch.Batch, cfg Config) (share float64, err error) {
	if cfg.Estimator != "gae" && cfg.Estimator != "turn-gae" {
		return 0, nil
	}
	plain := *b
	plain.Advantages, plain.Returns = nil, nil
	cfg.Whiten, cfg.Warn = false, nil
	if err := Compute(&plain, cfg); err != nil {
		return 0, err
	}
	trajectories, err := plain.Trajectories()
	if err != nil {
		return 0, err
	}
	var crossed, local float64
	for _, t := range trajectories {
		decay := cfg.Gamma * cfg.rowsLambda(&plain, t.Rows)
		var behind float64 // A', of what was scanned so far
		for k := len(t.Rows) - 1; k >= 0; k-- {
			from, to := plain.Span(t.Rows[k])
			mask, advantages := plain.LossMask[from:to], plain.Advantages[from:to]
			x := behind
			for start, end := range spans(mask) {
				if cfg.Estimator == "turn-gae" { // one step
					x *= decay
				}
				for i := end - 1; i >= start; i-- {
					if cfg.Estimator == "gae" {
						x *= decay
					}
					crossed += math.Abs(x)
					local += math.Abs(float64(advantages[i]) - x)
				}
				behind = float64(advantages[start])
			}
		}
	}
	if crossed == 0 {
		return 0, nil
	}
	return crossed / (crossed + local), nil
}

// rowsLambda is λ_actor for the trajectory of some rows.
func (c Config) rowsLambda(b *batch.Batch, rows []int) float64 {
	if c.LambdaAlpha == 0 {
		return c.Lambda
	}
	n := 0
	for _, i := range rows {
		n += b.Trainable(i)
	}
	return LengthAdaptiveLambda(c.LambdaAlpha, n)
}
