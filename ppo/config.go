// Package ppo holds the losses of policy optimisation with their gradients.
//
// A loss is Σ_t w_t·ℓ_t over the trainable tokens of a mini-batch. The weights
// w come from the aggregation mode and are computed once for the whole
// mini-batch (see Weights); ℓ_t and its gradient need one row only. Hence any
// split of the mini-batch, over calls, workers or ranks, gives the same gradient,
// to float rounding.
package ppo

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Config chooses and parametrises the losses.
type Config struct {
	// Loss is the policy loss: ppo, gspo, cispo or pg.
	Loss string `yaml:"loss" json:"loss"`
	// ClipLow and ClipHigh bound the ratio: [1 − ClipLow, 1 + ClipHigh].
	ClipLow  float64 `yaml:"clip_low" json:"clip_low"`
	ClipHigh float64 `yaml:"clip_high" json:"clip_high"`
	// DualClip, above 1, bounds the loss of a negative advantage to
	// −A·DualClip; 0 leaves it unbounded (arXiv 1912.09729). ppo only.
	DualClip float64 `yaml:"dual_clip" json:"dual_clip"`
	// ValueClip keeps the value within ±ValueClip of the old one in the value
	// loss; 0 leaves it free.
	ValueClip float64 `yaml:"value_clip" json:"value_clip"`
	// KLCoef weighs the KL divergence to the reference policy; 0 is off.
	KLCoef float64 `yaml:"kl_coef" json:"kl_coef"`
	// KLKind is the estimator of that divergence: k1, k2 or k3.
	KLKind string `yaml:"kl_kind" json:"kl_kind"`
	// KLIn tells where the divergence is charged: reward or loss.
	KLIn string `yaml:"kl_in" json:"kl_in"`
	// EntropyCoef weighs the entropy bonus; 0 is off.
	EntropyCoef float64 `yaml:"entropy_coef" json:"entropy_coef"`
	// Aggregation is token-mean, seq-mean-token-sum, seq-mean-token-mean or
	// trajectory-mean.
	Aggregation string `yaml:"aggregation" json:"aggregation"`
	// RolloutCorrection weighs tokens by π_old/π_rollout: none, truncate or
	// mask, with the bound RolloutCap.
	RolloutCorrection string  `yaml:"rollout_correction" json:"rollout_correction"`
	RolloutCap        float64 `yaml:"rollout_cap" json:"rollout_cap"`
}

// Names of the choices in a Config.
const (
	LossPPO   = "ppo"
	LossGSPO  = "gspo"
	LossCISPO = "cispo"
	LossPG    = "pg"

	K1 = "k1"
	K2 = "k2"
	K3 = "k3"

	KLInReward = "reward"
	KLInLoss   = "loss"

	TokenMean        = "token-mean"
	SeqMeanTokenSum  = "seq-mean-token-sum"
	SeqMeanTokenMean = "seq-mean-token-mean"
	TrajectoryMean   = "trajectory-mean"

	CorrectionNone     = "none"
	CorrectionTruncate = "truncate"
	CorrectionMask     = "mask"
)

// Validate returns an error that names the first field out of range.
func (c Config) Validate() error {
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"loss", c.Loss, []string{LossPPO, LossGSPO, LossCISPO, LossPG}},
		{"kl_kind", c.KLKind, []string{K1, K2, K3}},
		{"kl_in", c.KLIn, []string{KLInReward, KLInLoss}},
		{"aggregation", c.Aggregation, []string{TokenMean, SeqMeanTokenSum, SeqMeanTokenMean, TrajectoryMean}},
		{"rollout_correction", c.RolloutCorrection, []string{CorrectionNone, CorrectionTruncate, CorrectionMask}},
	} {
		if !slices.Contains(f.allowed, f.value) {
			return fmt.Errorf("%s: %q: want one of %s", f.name, f.value, strings.Join(f.allowed, ", "))
		}
	}
	inf := math.Inf(1)
	for _, f := range []struct {
		name        string
		value       float64
		least, most float64
		want        string
	}{
		{"clip_low", c.ClipLow, 0, 1, "a number from 0 to 1"},
		{"clip_high", c.ClipHigh, 0, inf, "0 or more"},
		{"value_clip", c.ValueClip, 0, inf, "0 (off) or more"},
		{"kl_coef", c.KLCoef, 0, inf, "0 (off) or more"},
		{"entropy_coef", c.EntropyCoef, -inf, inf, "a finite number"},
		{"rollout_cap", c.RolloutCap, 1, inf, "1 or more"},
	} {
		if !(f.value >= f.least && f.value <= f.most) || math.IsInf(f.value, 0) {
			return fmt.Errorf("%s: %v: want %s", f.name, f.value, f.want)
		}
	}
	if c.DualClip != 0 && !(c.DualClip > 1 && !math.IsInf(c.DualClip, 0)) {
		return fmt.Errorf("dual_clip: %v: want 0 (off) or more than 1", c.DualClip)
	}
	return nil
}
