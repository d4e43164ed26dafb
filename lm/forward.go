package lm

import "math"

// step is the input of one forward pass: spans of new positions of one or more
// sequences, packed one after another without padding.
type step struct {
	tokens    []int32 // [R]
	positions []int32 // [R] place of each token in its sequence
	outputs   []int32 // [M] rows whose output is asked for, ascending
	spans     []span

	own []int32 // memory for tokens
}

// span is a run of rows that continues one sequence.
type span struct {
	row, rows int // rows row … row+rows−1 of the step
	out, outs int // elements out … out+outs−1 of outputs lie in it
	cache     *kvCache
}

// forward runs the trunk. It leaves the hidden states of st.outputs, after the
// final norm, in ws.hidden [M, D]. With keep, what the backward pass needs
// stays in ws.layers; without, the layers share one set of buffers.
func (ws *workspace) forward(st *step, keep bool) {
	m, D, L := ws.m, ws.m.config.HiddenSize, ws.m.config.NumHiddenLayers
	x := grow(&ws.layers[0].x, len(st.tokens)*D) // [R, D]
	for r, token := range st.tokens {
		copy(x[r*D:(r+1)*D], m.embed[int(token)*D:])
	}
	for layer := range L {
		a, out := &ws.layers[0], &ws.layers[0].x
		if keep {
			a = &ws.layers[layer]
			out = &ws.layers[min(layer+1, L-1)].x
		}
		if layer == L-1 {
			out = &ws.out
		}
		ws.layerForward(layer, a, st, out)
	}
	ws.norm(&ws.hidden, &ws.rms, ws.out, m.norm)
}

// layerForward computes one layer from a.x [R, D] to out [M, D]. M is R in all
// layers but the last. There, once the keys and values are known, only the rows
// that are asked for matter.
func (ws *workspace) layerForward(layer int, a *activations, st *step, out *[]float32) {
	k, c, w := ws.k, &ws.m.config, &ws.m.layers[layer]
	D, F, d := c.HiddenSize, c.IntermediateSize, c.HeadDim
	H, G := c.NumAttentionHeads, c.NumKeyValueHeads
	R, last := len(st.tokens), layer == c.NumHiddenLayers-1

	ws.norm(&a.h, &a.rms1, a.x, w.norm1) // [R, D]
	M, x, positions := R, a.x, st.positions
	a.hOut = a.h
	if last && len(st.outputs) < R {
		M = len(st.outputs)
		x = gather(&ws.xOut, a.x, st.outputs, D)
		a.hOut = gather(&ws.gradient.hOut, a.h, st.outputs, D)
		positions = gather(&ws.positions, st.positions, st.outputs, 1)
	}

	// Attention: mid = x + softmax(q·kᵀ/√d)·v·Wo
	q, key := &a.q, &a.k
	if c.UseQKNorm {
		q, key = &a.qPre, &a.kPre
	}
	ws.linear(q, M, D, H*d, a.hOut, w.wq, w.bq) // [M, H·d]
	ws.linear(key, R, D, G*d, a.h, w.wk, w.bk)  // [R, G·d]
	ws.linear(&a.v, R, D, G*d, a.h, w.wv, w.bv) // [R, G·d]
	if c.UseQKNorm {
		ws.norm(&a.q, &a.rmsQ, a.qPre, w.qNorm)
		ws.norm(&a.k, &a.rmsK, a.kPre, w.kNorm)
	}
	ws.rotate(a.q, positions, H, k.Rotate)
	ws.rotate(a.k, st.positions, G, k.Rotate)
	k.Scale(inverseRoot(d), a.q)
	grow(&a.attention, M*H*d)
	grow(&a.greatest, M*H)
	grow(&a.sum, M*H)
	for _, sp := range st.spans {
		first, count := sp.row, sp.rows
		if last {
			first, count = sp.out, sp.outs
		}
		sp.cache.store(ws, layer, a, sp.row, sp.rows, int(st.positions[sp.row]))
		ws.attend(layer, a, sp.cache, positions, first, count)
	}
	mid := append(grow(&a.mid, M*D)[:0], x...) // [M, D]
	k.Gemm(M, D, H*d, a.attention, H*d, 1, w.wo, D, mid, D, true)

	// SwiGLU: out = mid + (silu(h2·Wgate) ∘ h2·Wup)·Wdown
	ws.norm(&a.h2, &a.rms2, mid, w.norm2)
	ws.linear(&a.gate, M, D, F, a.h2, w.wGate, nil)
	ws.linear(&a.up, M, D, F, a.h2, w.wUp, nil)
	k.SiluMul(grow(&a.ff, M*F), a.gate, a.up)
	y := append(grow(out, M*D)[:0], mid...) // [M, D]
	k.Gemm(M, D, F, a.ff, F, 1, w.wDown, D, y, D, true)
}

// linear computes y [rows, out] = x [rows, in]·w [in, out] + bias [out].
func (ws *workspace) linear(y *[]float32, rows, in, out int, x, w, bias []float32) {
	z := grow(y, rows*out)
	if bias != nil {
		for r := range rows {
			copy(z[r*out:(r+1)*out], bias)
		}
	}
	ws.k.Gemm(rows, out, in, x, in, 1, w, out, z, out, bias != nil)
}

// norm computes y = RMSNorm(x) over groups of len(weight) elements and keeps
// the inverse root mean square of each for the backward pass.
func (ws *workspace) norm(y, inverseRMS *[]float32, x, weight []float32) {
	n := len(weight)
	z, r := grow(y, len(x)), grow(inverseRMS, len(x)/n)
	eps := float32(ws.m.config.RMSNormEps)
	for i := range r {
		r[i] = ws.k.RMSNorm(z[i*n:(i+1)*n], x[i*n:(i+1)*n], weight, eps)
	}
}

// rotate turns every head of x [rows, heads·d] by the angles of its position.
func (ws *workspace) rotate(x []float32, positions []int32, heads int, turn func(x, cos, sin []float32)) {
	d := ws.m.config.HeadDim
	half := d / 2
	for r, position := range positions {
		cos := ws.rope.cos[int(position)*half : (int(position)+1)*half]
		sin := ws.rope.sin[int(position)*half : (int(position)+1)*half]
		for h := range heads {
			at := (r*heads + h) * d
			turn(x[at:at+d], cos, sin)
		}
	}
}

// gather copies the given rows of x [·, n].
func gather[T any](y *[]T, x []T, rows []int32, n int) []T {
	z := grow(y, len(rows)*n)
	for i, r := range rows {
		copy(z[i*n:(i+1)*n], x[int(r)*n:])
	}
	return z
}

func inverseRoot(n int) float32 { return float32(1 / math.Sqrt(float64(n))) }
