package advantage

import "math"

// Whiten shifts and scales x to mean 0 and variance 1 over the tokens that the
// mask keeps, and sets all others to 0:
//
//	x ← (x − mean) / sqrt(var + 1e-8),   var unbiased
//
// With none or one token kept, the values stay as they are.
func Whiten[T Float](x []T, mask []bool) {
	// Mean and squared deviations run by run, joined as in Chan et al. 1979: as
	// exact as two passes, and x comes from memory once.
	var n, mean, squares float64
	for start, end := range spans(mask) {
		run := x[start:end]
		k := float64(len(run))
		m := sum(run) / k
		d := m - mean
		squares += sumSquares(run, m) + d*d*n*k/(n+k)
		mean += d * k / (n + k)
		n += k
	}
	scale := 1 / math.Sqrt(squares/(n-1)+1e-8)
	done := len(x)
	for start, end := range spans(mask) {
		clear(x[end:done])
		if n > 1 {
			standardise(x[start:end], mean, scale)
		}
		done = start
	}
	clear(x[:done])
}

// sum adds up x in four parallel sums: one alone would wait for its own
// additions.
func sum[T Float](x []T) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a += float64(x[0])
		b += float64(x[1])
		c += float64(x[2])
		d += float64(x[3])
	}
	for _, v := range x {
		a += float64(v)
	}
	return (a + b) + (c + d)
}

// sumSquares is Σ (x−mean)².
func sumSquares[T Float](x []T, mean float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		p, q, r, s := float64(x[0])-mean, float64(x[1])-mean, float64(x[2])-mean, float64(x[3])-mean
		a, b, c, d = a+p*p, b+q*q, c+r*r, d+s*s
	}
	for _, v := range x {
		a += (float64(v) - mean) * (float64(v) - mean)
	}
	return (a + b) + (c + d)
}

func standardise[T Float](x []T, mean, scale float64) {
	for t, v := range x {
		x[t] = T((float64(v) - mean) * scale)
	}
}
