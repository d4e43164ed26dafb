package advantage

import "math"

// Whiten shifts and scales x to mean 0 and variance 1 over the tokens that the
// mask keeps, and sets all others to 0:
//
//	x ← (x − mean) / sqrt(var + 1e-8),   var unbiased
//
// With none or one token kept, the values stay as they are.
func Whiten[T Float](x []T, mask []bool) {
	var n, sum float64
	for t, m := range mask {
		if m {
			n++
			sum += float64(x[t])
		} else {
			x[t] = 0
		}
	}
	if n < 2 {
		return
	}
	mean := sum / n
	var squares float64
	for t, m := range mask {
		if m {
			d := float64(x[t]) - mean
			squares += d * d
		}
	}
	scale := 1 / math.Sqrt(squares/(n-1)+1e-8)
	for t, m := range mask {
		if m {
			x[t] = T((float64(x[t]) - mean) * scale)
		}
	}
}
