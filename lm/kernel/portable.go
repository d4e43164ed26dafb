package kernel

import "math"

// portable is the set "go".
var portable = Set{
	name:            "go",
	gemm:            gemmGo,
	gemmT:           gemmTGo,
	transpose:       transposeGo,
	dot:             dotGo,
	axpy:            axpyGo,
	add:             addGo,
	scale:           scaleGo,
	sumSquares:      sumSquaresGo,
	max:             maxGo,
	expSum:          expSumGo,
	softmaxBackward: softmaxBackwardGo,
	siluMul:         siluMulGo,
	siluMulBackward: siluMulBackwardGo,
	scaleMul:        scaleMulGo,
	dot3:            dot3Go,
	rmsNormBackward: rmsNormBackwardGo,
	rotate:          rotateGo,
	adamW:           adamWGo,
}

// gemmGo adds four rows of B at a time to each row of C, which keeps the order
// of additions and saves three of four passes over C.
func gemmGo(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	for i := range m {
		ci := c[i*ldc:][:n]
		if !accumulate {
			clear(ci)
		}
		p := 0
		for ; p+4 <= k; p += 4 {
			at := i*rsA + p*csA
			a0, a1, a2, a3 := a[at], a[at+csA], a[at+2*csA], a[at+3*csA]
			b0, b1, b2, b3 := b[p*ldb:][:n], b[(p+1)*ldb:][:n], b[(p+2)*ldb:][:n], b[(p+3)*ldb:][:n]
			for j, x := range ci {
				x = multiplyAdd(x, a0, b0[j])
				x = multiplyAdd(x, a1, b1[j])
				x = multiplyAdd(x, a2, b2[j])
				ci[j] = multiplyAdd(x, a3, b3[j])
			}
		}
		for ; p < k; p++ {
			a0, b0 := a[i*rsA+p*csA], b[p*ldb:][:n]
			for j, x := range ci {
				ci[j] = multiplyAdd(x, a0, b0[j])
			}
		}
	}
}

func gemmTGo(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	for i := range m {
		for j := range n {
			x := float32(0)
			if accumulate {
				x = c[i*ldc+j]
			}
			for p, y := range b[j*ldb:][:k] {
				x = multiplyAdd(x, a[i*rsA+p*csA], y)
			}
			c[i*ldc+j] = x
		}
	}
}

// multiplyAdd rounds the product, by the conversion, so that no compiler may fuse it
// with the sum in one loop and not in another.
func multiplyAdd(x, a, b float32) float32 { return x + float32(a*b) }

func transposeGo(rows, cols int, src []float32, lds int, dst []float32, ldd int) {
	for i := range rows {
		for j, x := range src[i*lds : i*lds+cols] {
			dst[j*ldd+i] = x
		}
	}
}

func dotGo(x, y []float32) float32 {
	y = y[:len(x)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(x); i += 4 {
		s0 += x[i] * y[i]
		s1 += x[i+1] * y[i+1]
		s2 += x[i+2] * y[i+2]
		s3 += x[i+3] * y[i+3]
	}
	for ; i < len(x); i++ {
		s0 += x[i] * y[i]
	}
	return (s0 + s1) + (s2 + s3)
}

func axpyGo(alpha float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += alpha * v
	}
}

func addGo(dst, x []float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] += v
	}
}

func scaleGo(alpha float32, x []float32) {
	for i := range x {
		x[i] *= alpha
	}
}

func sumSquaresGo(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

func maxGo(x []float32) float32 {
	greatest := float32(math.Inf(-1))
	for _, v := range x {
		if v > greatest {
			greatest = v
		}
	}
	return greatest
}

func expSumGo(dst, x []float32, bias float32) float32 {
	dst = dst[:len(x)]
	var sum float64
	for i, v := range x {
		e := exp(v - bias)
		dst[i] = e
		sum += float64(e)
	}
	return float32(sum)
}

func softmaxBackwardGo(ds, p, dp []float32, dot, scale float32) {
	p, dp = p[:len(ds)], dp[:len(ds)]
	for i := range ds {
		ds[i] = p[i] * (dp[i] - dot) * scale
	}
}

// exp is Cephes' expf: with n the integer nearest to x/ln 2 and r = x − n·ln 2,
//
//	exp(x) = 2^n · (1 + r·(1 + r·(c_5 + r·(c_4 + … r·c_0))))
//
// ln 2 is split in two, so that the first n·ln 2 is exact.
func exp(x float32) float32 {
	if !(x > -104 && x < 89) { // beyond these exp rounds to 0 and to +Inf; or NaN
		return float32(math.Exp(float64(x)))
	}
	const round = 3 << 22 // at this size a float32 has no fraction
	n := x*math.Log2E + round - round
	r := x - n*0.693359375 + n*2.12194440e-4
	p := float32(1.9875691500e-4)
	p = p*r + 1.3981999507e-3
	p = p*r + 8.3334519073e-3
	p = p*r + 4.1665795894e-2
	p = p*r + 1.6666665459e-1
	p = p*r + 5.0000001201e-1
	p = p*r + 1
	p = p*r + 1
	// 2^n may be out of range where the result is not: multiply by its halves.
	half := int32(n) >> 1
	return p * power(half) * power(int32(n)-half)
}

// power returns 2^n for −126 ≤ n ≤ 127.
func power(n int32) float32 { return math.Float32frombits(uint32(127+n) << 23) }

func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

func siluMulGo(dst, gate, up []float32) {
	gate, up = gate[:len(dst)], up[:len(dst)]
	for i, g := range gate {
		dst[i] = g * sigmoid(g) * up[i]
	}
}

func siluMulBackwardGo(dgate, dup, dout, gate, up []float32) {
	for i, g := range gate {
		sig, d, u := sigmoid(g), dout[i], up[i]
		dgate[i] = d * u * sig * (1 + g*(1-sig))
		dup[i] = d * g * sig
	}
}

func scaleMulGo(dst, x, weight []float32, scale float32) {
	x, weight = x[:len(dst)], weight[:len(dst)]
	for i := range dst {
		dst[i] = x[i] * scale * weight[i]
	}
}

func dot3Go(x, y, z []float32) float32 {
	y, z = y[:len(x)], z[:len(x)]
	var sum float32
	for i, v := range x {
		sum += v * y[i] * z[i]
	}
	return sum
}

func rmsNormBackwardGo(dx, dweight, dy, x, weight []float32, r, beta float32) {
	for i, d := range dy {
		dx[i] += r * (weight[i]*d - x[i]*beta)
		dweight[i] += d * x[i] * r
	}
}

func rotateGo(x, cos, sin []float32, sign float32) {
	low, high := x[:len(cos)], x[len(cos):2*len(cos)]
	for i, c := range cos {
		s := sign * sin[i]
		low[i], high[i] = low[i]*c-high[i]*s, high[i]*c+low[i]*s
	}
}

func adamWGo(param, grad, m, v []float32, keep, rate, beta1, rest1, beta2, rest2, unbias2, epsilon float32) {
	for i, g := range grad {
		m[i] = beta1*m[i] + rest1*g
		v[i] = beta2*v[i] + rest2*g*g
		root := float32(math.Sqrt(float64(v[i] * unbias2)))
		param[i] = keep*param[i] - rate*m[i]/(root+epsilon)
	}
}
