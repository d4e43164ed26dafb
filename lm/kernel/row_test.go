package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// eachLength runs the test on rows of many lengths, at random alignments.
func eachLength(t *testing.T, test func(t *testing.T, s *Set, r *arena, n int)) {
	t.Parallel()
	lengths := []int{64, 96, 127, 128, 129, 200, 255, 256, 257, 1000}
	for n := range 50 {
		lengths = append(lengths, n)
	}
	eachSet(t, func(t *testing.T, s *Set) {
		for _, n := range lengths {
			for repeat := range 3 {
				r := newArena(uint64(10*n + repeat))
				test(t, s, r, n)
				r.check(t, fmt.Sprintf("n=%d", n))
				if t.Failed() {
					t.Fatalf("at n=%d", n)
				}
			}
		}
	})
}

// nears compares rows with what want returns for each element, within
// tolerance ulps of size.
func nears(t *testing.T, what string, got []float32, tolerance float64, want func(i int) (value, size float64)) {
	t.Helper()
	for i, g := range got {
		value, size := want(i)
		near(t, fmt.Sprintf("%s n=%d element %d", what, len(got), i), g, value, tolerance*ulp*size+1e-44)
	}
}

func TestReductions(t *testing.T) {
	eachLength(t, func(t *testing.T, s *Set, r *arena, n int) {
		x, y := r.uniform(n), r.uniform(n)
		var dot, size, squares float64
		greatest := math.Inf(-1)
		for i := range x {
			term := float64(x[i]) * float64(y[i])
			dot += term
			size += math.Abs(term)
			squares += float64(x[i]) * float64(x[i])
			greatest = max(greatest, float64(x[i]))
		}
		near(t, "Dot", s.Dot(x, y), dot, float64(n+1)*size*ulp)
		if got := s.SumSquares(x); math.Abs(got-squares) > 1e-13*squares {
			t.Errorf("SumSquares: got %v, want %v", got, squares)
		}
		near(t, "Max", s.Max(x), greatest, 0)
		for i := range x { // the greatest in every place, negative among more negative
			x[i] -= 10
		}
		for i := range x {
			x[i] += 5
			near(t, "Max", s.Max(x), float64(x[i]), 0)
			x[i] -= 5
		}
	})
}

func TestSumSquaresOfLargeValues(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		x := slices.Repeat([]float32{3e30}, 37)
		v := float64(x[0])
		if got, want := s.SumSquares(x), 37*v*v; math.Abs(got/want-1) > 1e-14 {
			t.Errorf("got %v, want %v: the squares leave the range of float32", got, want)
		}
	})
}

func TestElementwise(t *testing.T) {
	eachLength(t, func(t *testing.T, s *Set, r *arena, n int) {
		x, y := r.uniform(n), r.uniform(n)
		was := slices.Clone(y)
		const alpha = -0.7
		s.Axpy(alpha, x, y)
		nears(t, "Axpy", y, 1, func(i int) (float64, float64) {
			term := float64(float32(alpha)) * float64(x[i])
			return float64(was[i]) + term, math.Abs(term) + math.Abs(float64(was[i]))
		})

		y = r.uniform(n)
		was = slices.Clone(y)
		s.Add(y, x)
		for i := range y {
			if y[i] != was[i]+x[i] {
				t.Errorf("Add: element %d is %v, want %v", i, y[i], was[i]+x[i])
			}
		}

		was = slices.Clone(y)
		s.Scale(alpha, y)
		for i := range y {
			if y[i] != was[i]*alpha {
				t.Errorf("Scale: element %d is %v, want %v", i, y[i], was[i]*alpha)
			}
		}
	})
}

func TestExpSum(t *testing.T) {
	eachLength(t, func(t *testing.T, s *Set, r *arena, n int) {
		x, dst := r.spread(n, 20), r.blank(n)
		const bias = 3.25
		got := s.ExpSum(dst, x, bias)
		var sum float64
		nears(t, "ExpSum", dst, 2, func(i int) (float64, float64) {
			want := math.Exp(float64(x[i] - bias))
			sum += want
			return want, want
		})
		near(t, "the sum", got, sum, float64(n+2)*sum*ulp)
		if again := s.ExpSum(x, x, bias); math.Float32bits(again) != math.Float32bits(got) {
			t.Errorf("the sum in place is %v, want %v", again, got)
		}
		sameBits(t, "in place", x, dst)
	})
}

// TestExp sweeps the exponential over its whole range, in steps of some ulp, and counts
// its error in ulps of the result.
func TestExp(t *testing.T) {
	t.Parallel()
	var x []float32
	for bits := uint32(0); bits < 0x7F800000; bits += 9973 {
		v := math.Float32frombits(bits)
		x = append(x, v, -v)
	}
	for v := float32(-104); v < 89; v += 1.0 / 1024 {
		x = append(x, v)
	}
	inf := float32(math.Inf(1))
	x = append(x, inf, -inf, canary, math.MaxFloat32, -math.MaxFloat32)
	eachSet(t, func(t *testing.T, s *Set) {
		dst := make([]float32, len(x))
		s.ExpSum(dst, x, 0)
		var worst, at float64
		for i, got := range dst {
			want := math.Exp(float64(x[i]))
			if want > math.MaxFloat32*(1+ulp/4) {
				want = math.Inf(1)
			}
			if float64(got) == want || math.IsNaN(want) && math.IsNaN(float64(got)) {
				continue
			}
			// Half the smallest subnormal is 2^−150, and an ulp there 2^−149.
			unit := math.Ldexp(1, max(-149, math.Ilogb(want)-23))
			if e := math.Abs(float64(got)-want) / unit; !(e <= worst) {
				worst, at = e, float64(x[i])
			}
		}
		t.Logf("worst error %.2f ulp, at exp(%v)", worst, at)
		if !(worst <= 2) {
			t.Errorf("exp(%v) is %.2f ulp off, want at most 2", at, worst)
		}
	})
}

func TestSoftmax(t *testing.T) {
	eachLength(t, func(t *testing.T, s *Set, r *arena, n int) {
		x := r.spread(n, 10)
		if n > 2 {
			x[n/2] = float32(math.Inf(-1)) // masked
			x[n/3] += 300                  // far above float32's range of exp
		}
		var sum, greatest float64 = 0, math.Inf(-1)
		was := slices.Clone(x)
		for _, v := range was {
			greatest = max(greatest, float64(v))
		}
		for _, v := range was {
			sum += math.Exp(float64(v) - greatest)
		}
		s.Softmax(x)
		nears(t, "Softmax", x, float64(n+20), func(i int) (float64, float64) {
			want := math.Exp(float64(was[i])-greatest) / sum
			return want, want
		})

		p, dp := x, r.uniform(n)
		var dot float64
		for i := range p {
			dot += float64(p[i]) * float64(dp[i])
		}
		ds := r.blank(n)
		s.SoftmaxBackward(ds, p, dp, float32(dot), 0.25)
		nears(t, "SoftmaxBackward", ds, 4, func(i int) (float64, float64) {
			return float64(p[i]) * (float64(dp[i]) - dot) * 0.25, float64(p[i]) * (math.Abs(float64(dp[i])) + math.Abs(dot))
		})
		s.SoftmaxBackward(dp, p, dp, float32(dot), 0.25)
		sameBits(t, "SoftmaxBackward in place", dp, ds)
	})
}

func TestSiluMul(t *testing.T) {
	eachLength(t, func(t *testing.T, s *Set, r *arena, n int) {
		gate, up, dst := r.spread(n, 12), r.uniform(n), r.blank(n)
		if n > 3 {
			gate[0], gate[1], gate[2] = -200, 200, 0
		}
		sig := func(i int) float64 { return 1 / (1 + math.Exp(-float64(gate[i]))) }
		s.SiluMul(dst, gate, up)
		nears(t, "SiluMul", dst, 5, func(i int) (float64, float64) {
			want := float64(gate[i]) * sig(i) * float64(up[i])
			return want, math.Abs(want)
		})

		dout, dgate, dup := r.uniform(n), r.blank(n), r.blank(n)
		s.SiluMulBackward(dgate, dup, dout, gate, up)
		nears(t, "dgate", dgate, 8, func(i int) (float64, float64) {
			g, d := float64(gate[i]), float64(dout[i])*float64(up[i])
			return d * sig(i) * (1 + g*(1-sig(i))), math.Abs(d) * sig(i) * (1 + math.Abs(g))
		})
		nears(t, "dup", dup, 5, func(i int) (float64, float64) {
			want := float64(dout[i]) * float64(gate[i]) * sig(i)
			return want, math.Abs(want)
		})
		in, other := slices.Clone(gate), slices.Clone(up)
		s.SiluMulBackward(in, other, dout, in, other)
		sameBits(t, "dgate in place", in, dgate)
		sameBits(t, "dup in place", other, dup)
		in = slices.Clone(gate)
		s.SiluMul(in, in, up)
		sameBits(t, "SiluMul in place", in, dst)
	})
}

func TestRMSNorm(t *testing.T) {
	eachLength(t, func(t *testing.T, s *Set, r *arena, n int) {
		if n == 0 {
			return
		}
		x, weight, dst := r.spread(n, 3), r.uniform(n), r.blank(n)
		const eps = 1e-5
		var squares float64
		for _, v := range x {
			squares += float64(v) * float64(v)
		}
		inverse := 1 / math.Sqrt(squares/float64(n)+eps)
		got := s.RMSNorm(dst, x, weight, eps)
		near(t, "inverse RMS", got, inverse, 2*ulp*inverse)
		nears(t, "RMSNorm", dst, 4, func(i int) (float64, float64) {
			want := float64(x[i]) * inverse * float64(weight[i])
			return want, math.Abs(want)
		})

		dy, dx, dweight := r.uniform(n), r.uniform(n), r.uniform(n)
		dx0, dweight0 := slices.Clone(dx), slices.Clone(dweight)
		var dot, size float64
		for i := range dy {
			term := float64(dy[i]) * float64(weight[i]) * float64(x[i])
			dot += term
			size += math.Abs(term)
		}
		s.RMSNormBackward(dx, dweight, dy, x, weight, got)
		rr := inverse * inverse / float64(n)
		nears(t, "dx", dx, float64(n+8), func(i int) (float64, float64) {
			a, b := float64(weight[i])*float64(dy[i]), float64(x[i])*rr
			return float64(dx0[i]) + inverse*(a-b*dot), math.Abs(float64(dx0[i])) + inverse*(math.Abs(a)+math.Abs(b)*size)
		})
		nears(t, "dweight", dweight, 4, func(i int) (float64, float64) {
			term := float64(dy[i]) * float64(x[i]) * inverse
			return float64(dweight0[i]) + term, math.Abs(float64(dweight0[i])) + math.Abs(term)
		})
	})
}

// The gradient of RMSNorm agrees with differences of RMSNorm itself, in float64.
func TestRMSNormBackwardIsTheDerivative(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		const n, eps = 24, 1e-5
		r := newArena(1)
		x, weight, dy := r.uniform(n), r.uniform(n), r.uniform(n)
		loss := func(x []float64) (sum float64) {
			var squares float64
			for _, v := range x {
				squares += v * v
			}
			for i, v := range x {
				sum += float64(dy[i]) * v / math.Sqrt(squares/n+eps) * float64(weight[i])
			}
			return sum
		}
		wide := make([]float64, n)
		for i, v := range x {
			wide[i] = float64(v)
		}
		dx := make([]float32, n)
		inverse := s.RMSNorm(make([]float32, n), x, weight, eps)
		s.RMSNormBackward(dx, make([]float32, n), dy, x, weight, inverse)
		for i := range dx {
			const h = 1e-6
			wide[i] += h
			up := loss(wide)
			wide[i] -= 2 * h
			down := loss(wide)
			wide[i] += h
			near(t, fmt.Sprint("dx ", i), dx[i], (up-down)/(2*h), 1e-5)
		}
	})
}

func TestRotate(t *testing.T) {
	eachLength(t, func(t *testing.T, s *Set, r *arena, half int) {
		x, cos, sin := r.uniform(2*half), r.blank(half), r.blank(half)
		for i := range cos {
			sine, cosine := math.Sincos(6 * r.Float64())
			cos[i], sin[i] = float32(cosine), float32(sine)
		}
		was := slices.Clone(x)
		s.Rotate(x, cos, sin)
		nears(t, "Rotate", x, 2, func(i int) (float64, float64) {
			j := i % max(half, 1)
			low, high, c, sn := float64(was[j]), float64(was[half+j]), float64(cos[j]), float64(sin[j])
			if i < half {
				return low*c - high*sn, 1
			}
			return high*c + low*sn, 1
		})
		s.RotateBack(x, cos, sin)
		nears(t, "RotateBack", x, 4, func(i int) (float64, float64) { return float64(was[i]), 1 })
	})
}

func TestAdamW(t *testing.T) {
	eachLength(t, func(t *testing.T, s *Set, r *arena, n int) {
		param, m, v := r.uniform(n), r.spread(n, 0.1), r.filled(n, func() float32 { return 0.01 * r.Float32() })
		h := AdamWStep{LearningRate: 0.01, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, WeightDecay: 0.1}
		for step := 1; step <= 3; step++ {
			h.Bias1 = 1 - float32(math.Pow(float64(h.Beta1), float64(step)))
			h.Bias2 = 1 - float32(math.Pow(float64(h.Beta2), float64(step)))
			grad := r.uniform(n)
			param0, m0, v0 := slices.Clone(param), slices.Clone(m), slices.Clone(v)
			s.AdamW(param, grad, m, v, h)
			rate, b1, b2, decay := float64(h.LearningRate), float64(h.Beta1), float64(h.Beta2), float64(h.WeightDecay)
			nears(t, "m", m, 2, func(i int) (float64, float64) {
				return b1*float64(m0[i]) + (1-b1)*float64(grad[i]), math.Abs(float64(m0[i])) + math.Abs(float64(grad[i]))
			})
			nears(t, "v", v, 3, func(i int) (float64, float64) {
				want := b2*float64(v0[i]) + (1-b2)*float64(grad[i])*float64(grad[i])
				return want, want
			})
			nears(t, "param", param, 4, func(i int) (float64, float64) {
				old := float64(param0[i])
				update := rate * float64(m[i]) / float64(h.Bias1) / (math.Sqrt(float64(v[i])/float64(h.Bias2)) + float64(h.Epsilon))
				return old - rate*decay*old - update, math.Abs(old) + 4*math.Abs(update)
			})
		}
	})
}

// An elementwise kernel gives an element the same bits wherever it stands, in
// whole vectors or in the rest: rows may be joined into one call.
func TestElementwiseBitsDoNotDependOnPlace(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := newArena(1)
		const n = 67
		x, y := r.spread(n, 5), r.spread(n, 5)
		apply := func(x, y []float32) [][]float32 {
			n := len(x)
			var out [][]float32
			row := func() []float32 {
				out = append(out, slices.Clone(x))
				return out[len(out)-1]
			}
			s.ExpSum(row(), y, 0.5)
			s.SiluMul(row(), x, y)
			s.SiluMulBackward(row(), row(), y, x, y)
			s.SoftmaxBackward(row(), x, y, 0.3, 0.7)
			s.Axpy(0.3, y, row())
			s.Add(row(), y)
			s.Scale(0.3, row())
			s.scaleMul(row(), x, y, 0.3)
			s.rmsNormBackward(row(), row(), y, x, y, 0.3, 0.4)
			m, v := row(), make([]float32, n)
			s.AdamW(row(), y, m, v, AdamWStep{LearningRate: 0.1, Beta1: 0.9, Beta2: 0.99, Bias1: 1, Bias2: 1, Epsilon: 1e-8})
			return append(out, v)
		}
		want := apply(x, y)
		for i := range n {
			for op, got := range apply(x[i:i+1], y[i:i+1]) {
				sameBits(t, fmt.Sprintf("output %d at %d", op, i), got, want[op][i:i+1])
			}
		}
	})
}

// Reductions do not depend on where in memory the row lies.
func TestBitsDoNotDependOnAlignment(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		const n = 203
		x := newArena(1).uniform(n)
		var want []float32
		for offset := range 16 {
			y := append(make([]float32, offset), x...)[offset:]
			got := []float32{s.Dot(y, y), float32(s.SumSquares(y)), s.dot3(y, y, y), s.ExpSum(make([]float32, n), y, 0.1)}
			if offset == 0 {
				want = got
			}
			sameBits(t, fmt.Sprint("offset ", offset), got, want)
		}
	})
}
