package kernel

import (
	"fmt"
	"math"
)

// Dot returns Σ x_i·y_i. x, y [n].
func (s *Set) Dot(x, y []float32) float32 {
	if len(x) != len(y) {
		lengths("Dot", len(x), len(y))
	}
	return s.dot(x, y)
}

// Axpy adds alpha·x to y. x, y [n].
func (s *Set) Axpy(alpha float32, x, y []float32) {
	if len(x) != len(y) {
		lengths("Axpy", len(x), len(y))
	}
	s.axpy(alpha, x, y)
}

// Add adds x to dst. dst, x [n].
func (s *Set) Add(dst, x []float32) {
	if len(dst) != len(x) {
		lengths("Add", len(dst), len(x))
	}
	s.add(dst, x)
}

// Scale multiplies x by alpha. x [n].
func (s *Set) Scale(alpha float32, x []float32) { s.scale(alpha, x) }

// SumSquares returns Σ x_i², accumulated in float64. x [n].
func (s *Set) SumSquares(x []float32) float64 { return s.sumSquares(x) }

// Max returns the greatest element, −Inf for none. Whether a NaN element is
// seen is not defined; use [Set.ExpSum] or [Set.SumSquares] to detect one. x [n].
func (s *Set) Max(x []float32) float32 { return s.max(x) }

// ExpSum sets dst_i = exp(x_i − bias) and returns Σ dst_i: the core of softmax
// and of log-sum-exp. Each exponential is within 2 ulp of that of the rounded
// difference; exp(−Inf) = 0, and results below the normal range are kept.
// dst, x [n]; they may be the same slice.
func (s *Set) ExpSum(dst, x []float32, bias float32) (sum float32) {
	if len(dst) != len(x) {
		lengths("ExpSum", len(dst), len(x))
	}
	return s.expSum(dst, x, bias)
}

// Softmax replaces x by exp(x_i − max x) / Σ_j exp(x_j − max x). Elements of −Inf
// become 0; at least one must be finite, else the result is NaN. x [n].
func (s *Set) Softmax(x []float32) {
	if len(x) == 0 {
		return
	}
	sum := s.expSum(x, x, s.max(x))
	s.scale(1/sum, x)
}

// SoftmaxBackward sets ds_i = p_i·(dp_i − dot)·scale, the gradient of the
// scores under p = softmax(scores·scale'), where dot = Σ p_i·dp_i and scale is
// the factor of the scores. ds, p, dp [n]; ds may be p or dp.
func (s *Set) SoftmaxBackward(ds, p, dp []float32, dot, scale float32) {
	if len(ds) != len(p) || len(ds) != len(dp) {
		lengths("SoftmaxBackward", len(ds), len(p), len(dp))
	}
	s.softmaxBackward(ds, p, dp, dot, scale)
}

// SiluMul sets dst_i = silu(gate_i)·up_i with silu(g) = g/(1+exp(−g)), the
// SwiGLU of Shazeer 2020 (arXiv:2002.05202). dst, gate, up [n]; dst may be
// gate or up.
func (s *Set) SiluMul(dst, gate, up []float32) {
	if len(dst) != len(gate) || len(dst) != len(up) {
		lengths("SiluMul", len(dst), len(gate), len(up))
	}
	s.siluMul(dst, gate, up)
}

// SiluMulBackward sets the gradients of [Set.SiluMul] for the output gradient
// dout, with σ = 1/(1+exp(−gate_i)):
//
//	dgate_i = dout_i·up_i·σ·(1 + gate_i·(1−σ))
//	dup_i   = dout_i·gate_i·σ
//
// All [n]; dgate and dup may be any of the inputs, but not the same slice.
func (s *Set) SiluMulBackward(dgate, dup, dout, gate, up []float32) {
	if n := len(dgate); len(dup) != n || len(dout) != n || len(gate) != n || len(up) != n {
		lengths("SiluMulBackward", n, len(dup), len(dout), len(gate), len(up))
	}
	s.siluMulBackward(dgate, dup, dout, gate, up)
}

// RMSNorm sets dst_i = x_i·r·weight_i with r = 1/√(Σ x_i²/n + eps) and returns
// r for the backward pass (Zhang & Sennrich 2019, arXiv:1910.07467).
// dst, x, weight [n]; dst may be x.
func (s *Set) RMSNorm(dst, x, weight []float32, eps float32) (inverseRMS float32) {
	if len(dst) != len(x) || len(dst) != len(weight) {
		lengths("RMSNorm", len(dst), len(x), len(weight))
	}
	r := float32(1 / math.Sqrt(s.sumSquares(x)/float64(len(x))+float64(eps)))
	s.scaleMul(dst, x, weight, r)
	return r
}

// RMSNormBackward adds the gradients of [Set.RMSNorm] for the output gradient
// dy, with r = inverseRMS as returned for the same x:
//
//	dx_i      += r·(weight_i·dy_i − x_i·(r²/n)·Σ_j dy_j·weight_j·x_j)
//	dweight_i += dy_i·x_i·r
//
// All [n]; dx and dweight must not overlap anything else.
func (s *Set) RMSNormBackward(dx, dweight, dy, x, weight []float32, inverseRMS float32) {
	if n := len(dx); len(dweight) != n || len(dy) != n || len(x) != n || len(weight) != n {
		lengths("RMSNormBackward", n, len(dweight), len(dy), len(x), len(weight))
	}
	if len(dx) == 0 {
		return
	}
	r := inverseRMS
	beta := s.dot3(dy, weight, x) * r * r / float32(len(dx))
	s.rmsNormBackward(dx, dweight, dy, x, weight, r, beta)
}

// Rotate applies rotary position embedding (Su et al. 2021, arXiv:2104.09864)
// to one head in place, in the "rotate_half" layout of Hugging Face models that
// pairs x_i with x_{i+half}, half = len(x)/2:
//
//	x_i, x_{i+half} = x_i·cos_i − x_{i+half}·sin_i, x_{i+half}·cos_i + x_i·sin_i
//
// x [2·half], cos, sin [half].
func (s *Set) Rotate(x, cos, sin []float32) {
	if len(x) != 2*len(cos) || len(cos) != len(sin) {
		lengths("Rotate", len(x), len(cos), len(sin))
	}
	s.rotate(x, cos, sin, 1)
}

// RotateBack undoes [Set.Rotate] by turning through the opposite angle. A
// rotation's inverse is its transpose, so this is also its gradient.
func (s *Set) RotateBack(x, cos, sin []float32) {
	if len(x) != 2*len(cos) || len(cos) != len(sin) {
		lengths("RotateBack", len(x), len(cos), len(sin))
	}
	s.rotate(x, cos, sin, -1)
}

// AdamWStep holds the scalars of one optimizer step.
type AdamWStep struct {
	LearningRate float32
	Beta1, Beta2 float32 // decay of the first and second moment
	Epsilon      float32
	WeightDecay  float32
	Bias1, Bias2 float32 // 1 − Beta1^t and 1 − Beta2^t at step t = 1, 2, …
}

// AdamW takes one step of Loshchilov & Hutter 2019 (arXiv:1711.05101), in the
// form of PyTorch's AdamW:
//
//	m_i     = β1·m_i + (1−β1)·grad_i
//	v_i     = β2·v_i + (1−β2)·grad_i²
//	param_i = param_i·(1 − lr·decay) − lr·(m_i/bias1)/(√(v_i/bias2) + ε)
//
// param, grad, m, v [n].
func (s *Set) AdamW(param, grad, m, v []float32, step AdamWStep) {
	if n := len(param); len(grad) != n || len(m) != n || len(v) != n {
		lengths("AdamW", n, len(grad), len(m), len(v))
	}
	s.adamW(param, grad, m, v, 1-step.LearningRate*step.WeightDecay, step.LearningRate/step.Bias1,
		step.Beta1, 1-step.Beta1, step.Beta2, 1-step.Beta2, 1/step.Bias2, step.Epsilon)
}

func lengths(op string, n ...int) {
	panic(fmt.Sprintf("kernel: %s: lengths of the arguments do not fit: %d", op, n))
}
