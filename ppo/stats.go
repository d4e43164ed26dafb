package ppo

import (
	"math"
	"slices"
)

// Stats collects losses and metrics over rows. The zero value is an empty
// collection; merge rows in their order to get the same bits in every run.
type Stats struct {
	// Tokens is the number of trainable tokens that the policy loss saw.
	Tokens int
	// The parts of the loss, weighted: sums over rows are the loss of the
	// mini-batch.
	PolicyLoss, KLLoss, EntropyLoss, ValueLoss float64

	sumKL, sumEntropy, sumApproxKL float64
	clipped, dualClipped           int
	logRatios                      []float32 // log π − log π_old

	rolloutTokens, rolloutLimited int
	sumRolloutKL                  float64

	valueTokens, valueClipped int
	sumValues                 float64
	returns, residuals        moments
}

// Loss is the sum of all parts.
func (s *Stats) Loss() float64 { return s.PolicyLoss + s.KLLoss + s.EntropyLoss + s.ValueLoss }

// Merge adds the rows of other behind those of s.
func (s *Stats) Merge(other Stats) {
	s.Tokens += other.Tokens
	s.PolicyLoss += other.PolicyLoss
	s.KLLoss += other.KLLoss
	s.EntropyLoss += other.EntropyLoss
	s.ValueLoss += other.ValueLoss
	s.sumKL += other.sumKL
	s.sumEntropy += other.sumEntropy
	s.sumApproxKL += other.sumApproxKL
	s.clipped += other.clipped
	s.dualClipped += other.dualClipped
	s.logRatios = append(s.logRatios, other.logRatios...)
	s.rolloutTokens += other.rolloutTokens
	s.rolloutLimited += other.rolloutLimited
	s.sumRolloutKL += other.sumRolloutKL
	s.valueTokens += other.valueTokens
	s.valueClipped += other.valueClipped
	s.sumValues += other.sumValues
	s.returns.merge(other.returns)
	s.residuals.merge(other.residuals)
}

// policyToken counts one token of the policy loss.
func (s *Stats) policyToken(logRatio float64, l tokenLoss) {
	s.sumApproxKL -= logRatio
	s.logRatios = append(s.logRatios, float32(logRatio))
	if l.clipped {
		s.clipped++
	}
	if l.dualCut {
		s.dualClipped++
	}
}

// rolloutToken counts one token of the mismatch between learner and sampler,
// x = log π_old − log π_rollout.
func (s *Stats) rolloutToken(x float64, limited bool) {
	s.rolloutTokens++
	s.sumRolloutKL -= x
	if limited {
		s.rolloutLimited++
	}
}

// Metrics are the numbers people watch, means over trainable tokens. A metric
// whose inputs were not there is 0.
type Metrics struct {
	Loss        float64 `json:"loss"`
	PolicyLoss  float64 `json:"policy_loss"`
	ValueLoss   float64 `json:"value_loss"`
	KLLoss      float64 `json:"kl_loss"`
	EntropyLoss float64 `json:"entropy_loss"`
	// ApproxKL is the mean of log π_old − log π.
	ApproxKL float64 `json:"approx_kl"`
	// ClipFraction is the share of tokens whose ratio was clipped, and
	// DualClipFraction of those that hit the bound of the dual clip.
	ClipFraction     float64 `json:"clip_fraction"`
	DualClipFraction float64 `json:"dual_clip_fraction"`
	// Quantiles of ρ = π/π_old over all tokens.
	RatioMin float64 `json:"ratio_min"`
	RatioP01 float64 `json:"ratio_p01"`
	RatioP50 float64 `json:"ratio_p50"`
	RatioP99 float64 `json:"ratio_p99"`
	RatioMax float64 `json:"ratio_max"`
	// KL is the mean divergence to the reference policy.
	KL      float64 `json:"kl"`
	Entropy float64 `json:"entropy"`
	// RolloutKL is the mean of log π_rollout − log π_old, and
	// RolloutLimited the share of tokens truncated or masked for it.
	RolloutKL      float64 `json:"rollout_kl"`
	RolloutLimited float64 `json:"rollout_limited_fraction"`
	// ExplainedVariance is 1 − Var(R−V)/Var(R), 0 when all returns are equal.
	ExplainedVariance float64 `json:"explained_variance"`
	ValueClipFraction float64 `json:"value_clip_fraction"`
	ValueMean         float64 `json:"value_mean"`
	ReturnMean        float64 `json:"return_mean"`
	// Tokens and ValueTokens are the trainable tokens that the policy loss and the
	// value loss saw.
	Tokens      int `json:"tokens"`
	ValueTokens int `json:"value_tokens"`
}

// Metrics sums up what was collected.
func (s *Stats) Metrics() Metrics {
	n, nr, nv := float64(max(1, s.Tokens)), float64(max(1, s.rolloutTokens)), float64(max(1, s.valueTokens))
	m := Metrics{
		Loss: s.Loss(), PolicyLoss: s.PolicyLoss, ValueLoss: s.ValueLoss, KLLoss: s.KLLoss, EntropyLoss: s.EntropyLoss,
		ApproxKL: s.sumApproxKL / n, ClipFraction: float64(s.clipped) / n, DualClipFraction: float64(s.dualClipped) / n,
		KL: s.sumKL / n, Entropy: s.sumEntropy / n,
		RolloutKL: s.sumRolloutKL / nr, RolloutLimited: float64(s.rolloutLimited) / nr,
		ValueClipFraction: float64(s.valueClipped) / nv, ValueMean: s.sumValues / nv, ReturnMean: s.returns.mean,
		Tokens: s.Tokens, ValueTokens: s.valueTokens,
	}
	if variance := s.returns.m2; variance > 0 {
		m.ExplainedVariance = 1 - s.residuals.m2/variance
	}
	if len(s.logRatios) > 0 {
		sorted := slices.Clone(s.logRatios)
		slices.Sort(sorted)
		quantile := func(q float64) float64 {
			x, _ := clampLogRatio(float64(sorted[int(q*float64(len(sorted)-1)+0.5)]))
			return math.Exp(x)
		}
		m.RatioMin, m.RatioP01, m.RatioP50, m.RatioP99, m.RatioMax = quantile(0), quantile(.01), quantile(.5), quantile(.99), quantile(1)
	}
	return m
}

// CombineMetrics sums up the metrics of several updates, for learners that answer
// with numbers instead of Stats:
//
//	loss, policy_loss, …                        mean over the updates
//	approx_kl, clip fractions, kl, entropy,
//	rollout_kl, rollout_limited_fraction        mean, an update weighing as it has tokens
//	value_clip_fraction, value_mean,
//	return_mean                                 the same, as it has value_tokens
//	ratio_min, ratio_max                        least and greatest
//	tokens, value_tokens                        sums
//	ratio_p01, ratio_p50, ratio_p99,
//	explained_variance                          means as above: close to, but not, those of
//	                                            all tokens together
//
// If no update tells its tokens, all weigh the same. Of no updates it is zero.
func CombineMetrics(updates []Metrics) Metrics {
	var out Metrics
	for _, u := range updates {
		out.Tokens += u.Tokens
		out.ValueTokens += u.ValueTokens
		if u.RatioMax > 0 { // a ratio is: the update tells some
			if out.RatioMax == 0 || u.RatioMin < out.RatioMin {
				out.RatioMin = u.RatioMin
			}
			out.RatioMax = max(out.RatioMax, u.RatioMax)
		}
	}
	share := func(tokens, total int) float64 {
		if total == 0 {
			return 1 / float64(len(updates))
		}
		return float64(tokens) / float64(total)
	}
	for _, u := range updates {
		add := func(weight float64, fields func(*Metrics) []*float64) {
			to := fields(&out)
			for k, from := range fields(&u) {
				*to[k] += weight * *from
			}
		}
		add(1/float64(len(updates)), (*Metrics).losses)
		add(share(u.Tokens, out.Tokens), (*Metrics).policyMeans)
		add(share(u.ValueTokens, out.ValueTokens), (*Metrics).valueMeans)
	}
	return out
}

// WithCritic joins the metrics of a policy's update with those of its critic's on the
// same mini-batch.
func (m Metrics) WithCritic(critic Metrics) Metrics {
	m.Loss += critic.Loss
	m.ValueLoss += critic.ValueLoss
	m.ValueTokens += critic.ValueTokens
	for k, from := range critic.valueMeans() {
		*m.valueMeans()[k] = *from
	}
	return m
}

// losses are the parts of the loss.
func (m *Metrics) losses() []*float64 {
	return []*float64{&m.Loss, &m.PolicyLoss, &m.ValueLoss, &m.KLLoss, &m.EntropyLoss}
}

// policyMeans are the means over Tokens.
func (m *Metrics) policyMeans() []*float64 {
	return []*float64{&m.ApproxKL, &m.ClipFraction, &m.DualClipFraction, &m.RatioP01, &m.RatioP50, &m.RatioP99, &m.KL, &m.Entropy, &m.RolloutKL, &m.RolloutLimited}
}

// valueMeans are the means over ValueTokens.
func (m *Metrics) valueMeans() []*float64 {
	return []*float64{&m.ExplainedVariance, &m.ValueClipFraction, &m.ValueMean, &m.ReturnMean}
}

// moments keeps mean and sum of squared deviations without cancellation
// (Welford; merging: Chan et al. 1979).
type moments struct{ n, mean, m2 float64 }

func (m *moments) add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / m.n
	m.m2 += d * (x - m.mean)
}

func (m *moments) merge(o moments) {
	if o.n == 0 {
		return
	}
	n, d := m.n+o.n, o.mean-m.mean
	m.mean += d * o.n / n
	m.m2 += o.m2 + d*d*m.n*o.n/n
	m.n = n
}
