package ppo

import (
	"errors"
	"fmt"
	"math"
)

// PolicyTokens is what the policy loss needs to know of one row, at its n trainable
// tokens only. All columns have length n.
type PolicyTokens[T Float] struct {
	LogProbs    []T // log π of the current weights
	OldLogProbs []T // log π before the update
	Advantages  []T
	Weights     []T // of the aggregation, see Weights

	Entropies       []T // of the current policy; needed for an entropy bonus, else nil is fine
	RefLogProbs     []T // of the reference policy; needed for KL in the loss
	RolloutLogProbs []T // of the sampler; needed for a rollout correction
}

// Policy computes the policy loss of one row,
//
//	Σ_t w_t·(c_t·ℓ_t + kl_coef·KL_t − entropy_coef·H_t)
//
// with c_t the rollout correction, and writes its gradient with respect to
// LogProbs and Entropies (dEntropies may be nil). ρ_t = exp(clamp(log π_t −
// log π_old,t, ±20)) and ℓ_t is
//
//	ppo    max(−A·ρ, −A·clip(ρ, 1−ε_low, 1+ε_high)), for A < 0 at most −A·dual_clip
//	       (Schulman et al., arXiv 1707.06347, eq. 7; asymmetric: DAPO, arXiv
//	       2503.14476; dual: Ye et al., arXiv 1912.09729)
//	gspo   the same without dual clip, ρ replaced with the row's
//	       exp(clamp(mean_t(log π − log π_old), ±20)); the gradient keeps each
//	       token's own advantage (GSPO-token; Zheng et al., arXiv 2507.18071, eq. 14)
//	cispo  −sg(min(ρ, 1+ε_high))·A·log π (MiniMax-M1, arXiv 2506.13585)
//	pg     −A·log π (Williams 1992)
//
// It is safe to call for different rows at once. On a NaN or infinity the
// error is a *NonFiniteError; the caller knows whose row it was.
func Policy[T Float](cfg *Config, row PolicyTokens[T], dLogProbs, dEntropies []T) (Stats, error) {
	n := len(row.LogProbs)
	if err := row.check(cfg, len(dLogProbs)); err != nil {
		return Stats{}, err
	}
	s := Stats{Tokens: n, logRatios: make([]float32, 0, n)}
	var sequence float64 // gspo: the row's log-ratio
	if cfg.Loss == LossGSPO {
		sequence = row.meanLogRatio()
	}
	var inputs float64 // their sum: not finite as soon as one is not, also where a clamp would hide it
	for t := range n {
		logProb, old := float64(row.LogProbs[t]), float64(row.OldLogProbs[t])
		a, w := float64(row.Advantages[t]), float64(row.Weights[t])
		logRatio := logProb - old
		inputs += logRatio + a + w

		var l tokenLoss
		switch cfg.Loss {
		case LossPPO:
			l = ppoToken(cfg, logRatio, a)
		case LossGSPO:
			l = gspoToken(cfg, sequence, a)
		case LossCISPO:
			l = cispoToken(cfg, logRatio, logProb, a)
		case LossPG:
			l = tokenLoss{loss: -a * logProb, grad: -a}
		}
		if row.RolloutLogProbs != nil {
			mismatch := old - float64(row.RolloutLogProbs[t])
			inputs += mismatch
			c, limited := rolloutWeight(cfg, mismatch)
			l.loss, l.grad = c*l.loss, c*l.grad
			s.rolloutToken(mismatch, limited)
		}
		s.PolicyLoss += w * l.loss
		grad := w * l.grad

		if row.RefLogProbs != nil {
			kl, dkl := KL(cfg.KLKind, logProb, float64(row.RefLogProbs[t]))
			inputs += float64(row.RefLogProbs[t])
			s.sumKL += kl
			if cfg.KLIn == KLInLoss {
				s.KLLoss += w * cfg.KLCoef * kl
				grad += w * cfg.KLCoef * dkl
			}
		}
		if row.Entropies != nil {
			s.sumEntropy += float64(row.Entropies[t])
			s.EntropyLoss -= w * cfg.EntropyCoef * float64(row.Entropies[t])
			if dEntropies != nil {
				dEntropies[t] = T(-w * cfg.EntropyCoef)
			}
		}
		dLogProbs[t] = T(grad)
		s.policyToken(logRatio, l)
	}
	if !isFinite(inputs + s.PolicyLoss + s.KLLoss + s.EntropyLoss) {
		return Stats{}, row.findNonFinite()
	}
	return s, nil
}

// tokenLoss is ℓ_t, its derivative in log π_t, and what was clipped.
type tokenLoss struct {
	loss, grad       float64
	clipped, dualCut bool
}

// clampLogRatio keeps exp in range; outside, the derivative is 0.
func clampLogRatio(x float64) (clamped, derivative float64) {
	switch {
	case x > 20:
		return 20, 0
	case x < -20:
		return -20, 0
	}
	return x, 1
}

func ppoToken(cfg *Config, logRatio, a float64) tokenLoss {
	x, dx := clampLogRatio(logRatio)
	ratio := math.Exp(x)
	l := tokenLoss{loss: -a * ratio, grad: -a * ratio * dx}
	if bound := -a * clip(ratio, 1-cfg.ClipLow, 1+cfg.ClipHigh); bound > l.loss {
		l = tokenLoss{loss: bound, clipped: true}
	}
	if bound := -a * cfg.DualClip; cfg.DualClip != 0 && a < 0 && bound < l.loss {
		l = tokenLoss{loss: bound, clipped: l.clipped, dualCut: true}
	}
	return l
}

// gspoToken has the row's ratio for a value and the token's for a gradient.
func gspoToken(cfg *Config, sequence, a float64) tokenLoss {
	x, dx := clampLogRatio(sequence)
	ratio := math.Exp(x)
	l := tokenLoss{loss: -a * ratio, grad: -a * ratio * dx}
	if bound := -a * clip(ratio, 1-cfg.ClipLow, 1+cfg.ClipHigh); bound > l.loss {
		l = tokenLoss{loss: bound, clipped: true}
	}
	return l
}

func cispoToken(cfg *Config, logRatio, logProb, a float64) tokenLoss {
	x, _ := clampLogRatio(logRatio)
	ratio := math.Exp(x)
	weight := min(ratio, 1+cfg.ClipHigh)
	return tokenLoss{loss: -weight * a * logProb, grad: -weight * a, clipped: ratio > 1+cfg.ClipHigh}
}

// rolloutWeight is the importance weight of the learner's policy over the
// sampler's, x = log π_old − log π_rollout, taken as a constant, and whether
// the bound C changed it:
//
//	none      1
//	truncate  min(exp(clamp(x, ±20)), C)       (Yao et al. 2025, TIS; IMPALA, arXiv 1802.01561)
//	mask      exp(x) inside [1/C, C], else 0   (IcePop)
func rolloutWeight(cfg *Config, x float64) (weight float64, limited bool) {
	x, _ = clampLogRatio(x)
	w, c := math.Exp(x), cfg.RolloutCap
	switch {
	case cfg.RolloutCorrection == CorrectionTruncate && w > c:
		return c, true
	case cfg.RolloutCorrection == CorrectionMask && (w < 1/c || w > c):
		return 0, true
	case cfg.RolloutCorrection == CorrectionNone:
		return 1, false
	}
	return w, false
}

func clip(x, low, high float64) float64 { return min(max(x, low), high) }

func isFinite(x float64) bool { return x-x == 0 }

// meanLogRatio is the mean of log π − log π_old over the row.
func (r *PolicyTokens[T]) meanLogRatio() float64 {
	if len(r.LogProbs) == 0 {
		return 0
	}
	var sum float64
	for t := range r.LogProbs {
		sum += float64(r.LogProbs[t]) - float64(r.OldLogProbs[t])
	}
	return sum / float64(len(r.LogProbs))
}

type namedColumn[T Float] struct {
	name   string
	data   []T
	needed bool
}

func (r *PolicyTokens[T]) columns(cfg *Config) []namedColumn[T] {
	return []namedColumn[T]{
		{"log_probs", r.LogProbs, true},
		{"old_log_probs", r.OldLogProbs, true},
		{"advantages", r.Advantages, true},
		{"weights", r.Weights, true},
		{"entropies", r.Entropies, cfg.EntropyCoef != 0},
		{"ref_log_probs", r.RefLogProbs, cfg.KLCoef != 0 && cfg.KLIn == KLInLoss},
		{"rollout_log_probs", r.RolloutLogProbs, cfg.RolloutCorrection != CorrectionNone},
	}
}

// check returns an error that names a column which is missing or too short.
func (r *PolicyTokens[T]) check(cfg *Config, gradients int) error {
	n := len(r.LogProbs)
	if gradients != n {
		return fmt.Errorf("gradient of %d tokens for %d log_probs", gradients, n)
	}
	for _, c := range r.columns(cfg) {
		if len(c.data) != n && (c.data != nil || c.needed) {
			return fmt.Errorf("%s: %d entries for %d trainable tokens", c.name, len(c.data), n)
		}
	}
	return nil
}

// findNonFinite names the first input that is not a finite number.
func (r *PolicyTokens[T]) findNonFinite() error {
	for _, c := range r.columns(&Config{}) {
		for t, x := range c.data {
			if !isFinite(float64(x)) {
				return &NonFiniteError{c.name, t, float64(x)}
			}
		}
	}
	return errors.New("the policy loss overflows")
}

// NonFiniteError is a NaN or infinity in an input at a trainable token.
type NonFiniteError struct {
	Column string
	Token  int // among the trainable tokens of the row
	Value  float64
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("%s: trainable token %d: %v: want a finite number", e.Column, e.Token, e.Value)
}
