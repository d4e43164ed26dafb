package ppo

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/infinirl/infinirl/batch"
)

// twin is the policy loss under trajectory-mean and its gradient, written out in float64
// from the formulas, trajectory by trajectory, with no weights and no rows put aside.
func twin(cfg *Config, b *batch.Batch, logProbs []float32) (loss float64, gradient []float64) {
	gradient = make([]float64, len(b.LossMask))
	rowsOf := map[string][]int{}
	for i, r := range b.Rows {
		rowsOf[r.TrajectoryID] = append(rowsOf[r.TrajectoryID], i)
	}
	tokens := func(i int) (at []int) {
		start, end := b.Span(i)
		for t := start; t < end; t++ {
			if b.LossMask[t] {
				at = append(at, t)
			}
		}
		return at
	}
	trajectories := 0.0
	for id, rows := range rowsOf {
		n := 0
		for _, i := range rows {
			n += len(tokens(i))
		}
		if n == 0 {
			delete(rowsOf, id)
			continue
		}
		trajectories++
	}
	for _, rows := range rowsOf {
		n, sum := 0.0, 0.0
		slopes := map[int]float64{}
		for _, i := range rows {
			at := tokens(i)
			n += float64(len(at))
			meanLogRatio := 0.0
			for _, t := range at {
				meanLogRatio += (float64(logProbs[t]) - float64(b.OldLogProbs[t])) / float64(len(at))
			}
			for _, t := range at {
				a, ratio := float64(b.Advantages[t]), math.Exp(float64(logProbs[t])-float64(b.OldLogProbs[t]))
				switch cfg.Loss {
				case LossCISPO:
					sum -= math.Min(ratio, 1+cfg.ClipHigh) * a * float64(logProbs[t])
					slopes[t] = -math.Min(ratio, 1+cfg.ClipHigh) * a
					continue
				case LossPG:
					sum -= a * float64(logProbs[t])
					slopes[t] = -a
					continue
				case LossGSPO:
					ratio = math.Exp(meanLogRatio)
				}
				// The objective that PPO maximises: the smaller one of ρA and clip(ρ)A.
				objective, slope := ratio*a, ratio*a
				if bounded := math.Min(math.Max(ratio, 1-cfg.ClipLow), 1+cfg.ClipHigh) * a; bounded < objective {
					objective, slope = bounded, 0
				}
				if cfg.Loss == LossPPO && a < 0 && objective < cfg.DualClip*a {
					objective, slope = cfg.DualClip*a, 0
				}
				sum -= objective
				slopes[t] = -slope
			}
		}
		loss += sum / n / trajectories
		for t, slope := range slopes {
			gradient[t] = slope / n / trajectories
		}
	}
	return loss, gradient
}

// TestPolicyTwin holds every loss under trajectory-mean against the twin: trajectories of
// several segments, some without a trainable token, NaN at every token that is none.
func TestPolicyTwin(t *testing.T) {
	t.Parallel()
	for _, loss := range []string{LossPPO, LossGSPO, LossCISPO, LossPG} {
		clipped := 0.0
		for seed := range uint64(50) {
			rng := rand.New(rand.NewPCG(seed, 11))
			b := testBatch(rng, 5)
			logProbs := append([]float32(nil), b.OldLogProbs...)
			for k := range logProbs {
				logProbs[k] += float32(.6 * rng.NormFloat64()) // clipped often, dual clip too
			}
			cfg := defaults()
			cfg.Loss, cfg.DualClip = loss, 1.5
			weights, err := Weights[float32](cfg.Aggregation, b)
			if err != nil {
				t.Fatal(err)
			}
			gradient := make([]float32, len(weights))
			stats, err := policyBatch(&cfg, b, weights, logProbs, gradient)
			if err != nil {
				t.Fatal(err)
			}
			clipped += stats.Metrics().ClipFraction
			wantLoss, want := twin(&cfg, b, logProbs)
			if math.Abs(stats.PolicyLoss-wantLoss) > 1e-5*(1+math.Abs(wantLoss)) {
				t.Fatalf("%s, seed %d: loss %v, want %v", loss, seed, stats.PolicyLoss, wantLoss)
			}
			for k := range want {
				if math.Abs(float64(gradient[k])-want[k]) > 1e-5*(1e-2+math.Abs(want[k])) {
					t.Fatalf("%s, seed %d, token %d: gradient %v, want %v", loss, seed, k, gradient[k], want[k])
				}
			}
		}
		if loss != LossPG && clipped == 0 {
			t.Errorf("%s: nothing was ever clipped", loss)
		}
	}
}
