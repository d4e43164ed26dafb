package ppo

import (
	"fmt"
	"math"

	"github.com/infinirl/infinirl/batch"
)

// KL estimates the divergence of π from the reference policy at one sampled
// token, and its derivative in log π:
//
//	k1 = log π − log π_ref                     unbiased, any sign
//	k2 = ½·k1²                                 biased, its gradient is unbiased
//	k3 = e^d − d − 1,  d = log π_ref − log π   unbiased, never negative;
//	     d clamped to ±20, the result to ±10
//
// Schulman, "Approximating KL divergence", 2020.
func KL(kind string, logProb, refLogProb float64) (kl, derivative float64) {
	k1 := logProb - refLogProb
	switch kind {
	case K1:
		return k1, 1
	case K2:
		return k1 * k1 / 2, k1
	case K3:
		d, dd := clampLogRatio(-k1)
		kl = math.Exp(d) - d - 1
		if kl > 10 {
			return 10, 0
		}
		return kl, (1 - math.Exp(d)) * dd
	}
	panic("ppo: KL kind " + kind)
}

// ShapeRewards charges kl_coef·KL(π_old, π_ref) to the reward of every
// trainable token. A token that is not trainable is no decision and pays
// nothing. It does nothing unless the configuration wants KL in the reward.
func ShapeRewards(cfg Config, b *batch.Batch) error {
	if cfg.KLCoef == 0 || cfg.KLIn != KLInReward {
		return nil
	}
	if b.OldLogProbs == nil || b.RefLogProbs == nil {
		return fmt.Errorf("kl_in: reward: needs old_log_probs and ref_log_probs in the batch")
	}
	if err := b.PlaceScores(); err != nil {
		return err
	}
	for i := range b.Rows {
		start, end := b.Span(i)
		for t := start; t < end; t++ {
			if !b.LossMask[t] {
				continue
			}
			kl, _ := KL(cfg.KLKind, float64(b.OldLogProbs[t]), float64(b.RefLogProbs[t]))
			if !isFinite(kl) {
				return fmt.Errorf("%s, response token %d: old_log_probs %v, ref_log_probs %v: want finite numbers", b.Describe(i), t-start-b.Rows[i].PromptLen, b.OldLogProbs[t], b.RefLogProbs[t])
			}
			b.Rewards[t] -= float32(cfg.KLCoef * kl)
		}
	}
	return nil
}
