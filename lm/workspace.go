package lm

import "github.com/infinirl/infinirl/lm/kernel"

// workspace is the memory of one step, on which one goroutine or a team works. Its
// buffers grow to the largest step seen and are reused.
type workspace struct {
	m    *Model
	k    *kernel.Set
	rope ropeTable
	team team

	layers    []activations // forward only: every layer uses layers[0]
	shared    activations   // what a layer need not keep, if the model is large
	positions []int32       // [M] positions of the rows that are asked for
	xOut      []float32     // [M, D] those rows of the last layer's input
	out       []float32     // [M, D] output of the last layer
	hidden    []float32     // [M, D] after the final norm
	rms       []float32     // [M]

	// Of training and scoring, one row or several at a time.
	step     step
	caches   []kvCache // keys and values of the rows
	targets  []int32   // [M] tokens
	logits   []float32 // [block of M, V], divided by the temperature
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

// keptBytes bounds the activations that a large model keeps for the backward pass.
const keptBytes = 1 << 30

// perToken is the memory of the activations that a large model keeps of a token: of
// the residual stream twice, queries, attention, keys and values twice, gate and up.
func (c *Config) perToken() int {
	Q, KV := c.NumAttentionHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	if c.UseQKNorm {
		Q, KV = Q+Q/2, KV+KV/2
	}
	return 4 * c.NumHiddenLayers * (2*c.HiddenSize + 2*Q + 4*KV + 2*c.IntermediateSize)
}

// again tells whether a step is so large that only the inputs of the layers are kept
// and each layer is computed again on the way back.
func (ws *workspace) again(st *step) bool {
	return ws.m.large && len(st.tokens)*ws.m.config.perToken() > ws.m.kept
}

// keep names the memory for a layer's activations; a layer of a large model keeps no
// more than it has to.
func (ws *workspace) keep(layer int, st *step) *activations {
	a := &ws.layers[layer]
	switch {
	case !ws.m.large:
	case ws.again(st):
		x := a.x
		*a = ws.shared
		a.x = x
	default:
		a.h, a.h2, a.ff = ws.shared.h, ws.shared.h2, ws.shared.ff
	}
	return a
}

// release ends the use of a layer's activations: what it need not keep serves the next.
func (ws *workspace) release(a *activations, st *step) {
	switch {
	case !ws.m.large:
	case ws.again(st):
		ws.shared = *a
		*a = activations{x: a.x}
	default:
		ws.shared.h, ws.shared.h2, ws.shared.ff = a.h, a.h2, a.ff
		a.h, a.h2, a.ff = nil, nil, nil
	}
}

func newWorkspace(m *Model) *workspace {
	return &workspace{m: m, k: m.kernel, layers: make([]activations, m.config.NumHiddenLayers), team: make(team, 1)}
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
