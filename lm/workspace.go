package lm

import "github.com/infinirl/infinirl/lm/kernel"

// workspace is the memory of one goroutine that runs a model forward and
// backward. Its buffers grow to the largest step seen and are reused.
type workspace struct {
	m    *Model
	k    *kernel.Set
	rope ropeTable

	layers    []activations // forward only: every layer uses layers[0]
	positions []int32       // [M] positions of the rows that are asked for
	xOut      []float32     // [M, D] those rows of the last layer's input
	out       []float32     // [M, D] output of the last layer
	hidden    []float32     // [M, D] after the final norm
	rms       []float32     // [M]
	scores    []float32     // [queryBlock, keys] of one head

	// Of training and scoring, one row at a time.
	step     step
	cache    kvCache   // keys and values of the row
	targets  []int32   // [M] tokens
	logits   []float32 // [block of M, V], divided by the temperature
	probs    []float32 // [V]
	logSum   []float32 // [M] log Σ exp of the logits
	logProb  []float32 // [M]
	entropy  []float32 // [M]
	value    []float32 // [M]
	gradient backwardBuffers

	// Of sampling.
	sampling []*continuation // whose next token the step's outputs give
}

// activations of one layer, kept for the backward pass.
type activations struct {
	x         []float32 // [R, D] input
	rms1      []float32 // [R]
	h         []float32 // [R, D] normed input
	hOut      []float32 // [M, D] the rows of h that are asked for
	q         []float32 // [M, H·d] rotated, divided by √d
	k         []float32 // [R, G·d] rotated
	v         []float32 // [R, G·d]
	qPre      []float32 // [M, H·d] before QK-norm
	kPre      []float32 // [R, G·d]
	rmsQ      []float32 // [M, H]
	rmsK      []float32 // [R, G]
	greatest  []float32 // [M, H] of the scores
	sum       []float32 // [M, H] Σ exp(score − greatest)
	attention []float32 // [M, H·d]
	mid       []float32 // [M, D] residual stream after attention
	rms2      []float32 // [M]
	h2        []float32 // [M, D]
	gate, up  []float32 // [M, F]
	ff        []float32 // [M, F] silu(gate)·up
}

func newWorkspace(m *Model) *workspace {
	return &workspace{m: m, k: m.kernel, layers: make([]activations, m.config.NumHiddenLayers)}
}

// grow returns a slice of n elements with undefined content, which reuses s
// where it is long enough.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		const step = 1024 // rounds up, so that rows of similar length share buffers
		*s = make([]T, (n+step-1)/step*step)
	}
	*s = (*s)[:n]
	return *s
}

// zeroed is grow with every element zero.
func zeroed(s *[]float32, n int) []float32 {
	grown := grow(s, n)
	clear(grown)
	return grown
}
