package lm

// hugePage is the size from which an array asks the system for pages of 2 MiB: its
// first use is several times faster then, and so is every product that strides
// through it.
const hugePage = 2 << 20

// floats returns n zeros.
func floats(n int) []float32 {
	x := make([]float32, n)
	if 4*n >= 2*hugePage {
		adviseHuge(x)
	}
	return x
}
