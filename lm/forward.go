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
		if !keep {
			out := &ws.layers[0].x
			if layer == L-1 {
				out = &ws.out
			}
			ws.layerForward(layer, &ws.layers[0], st, out)
			continue
		}
		a := ws.keep(layer, st)
		ws.layerForward(layer, a, st, ws.output(layer))
		ws.release(a, st)
	}
	M := len(st.outputs)
	grow(&ws.hidden, M*D)
	grow(&ws.rms, M)
	ws.team.blocks(M, func(from, to int, _ *scratch) {
		ws.norm(ws.hidden[from*D:to*D], ws.rms[from:to], ws.out[from*D:to*D], m.norm)
	})
}

// output is where a layer's output goes that is kept.
func (ws *workspace) output(layer int) *[]float32 {
	if layer == ws.m.config.NumHiddenLayers-1 {
		return &ws.out
	}
	return &ws.layers[layer+1].x
}

// layerForward computes one layer from a.x [R, D] to out [M, D]. M is R in all
// layers but the last. There, once the keys and values are known, only the rows
// that are asked for matter.
func (ws *workspace) layerForward(layer int, a *activations, st *step, out *[]float32) {
	k, c, w := ws.k, &ws.m.config, &ws.m.layers[layer]
	D, F, d := c.HiddenSize, c.IntermediateSize, c.HeadDim
	H, G := c.NumAttentionHeads, c.NumKeyValueHeads
	R, last := len(st.tokens), layer == c.NumHiddenLayers-1

	// Keys and values of all rows.
	grow(&a.h, R*D)
	grow(&a.rms1, R)
	grow(&a.k, R*G*d)
	grow(&a.v, R*G*d)
	q, key := &a.q, &a.k
	if c.UseQKNorm {
		q, key = &a.qPre, &a.kPre
		grow(&a.kPre, R*G*d)
		grow(&a.rmsK, R*G)
	}
	ws.team.blocks(R, func(from, to int, s *scratch) {
		h := a.h[from*D : to*D]
		ws.norm(h, a.rms1[from:to], a.x[from*D:to*D], w.norm1)
		ws.project(s, w, keys, (*key)[from*G*d:to*G*d], h, to-from)
		ws.project(s, w, values, a.v[from*G*d:to*G*d], h, to-from)
		if c.UseQKNorm {
			ws.norm(a.k[from*G*d:to*G*d], a.rmsK[from*G:to*G], a.kPre[from*G*d:to*G*d], w.kNorm)
		}
		ws.rotate(a.k[from*G*d:to*G*d], st.positions[from:to], G, k.Rotate)
		for i := range st.spans {
			sp := &st.spans[i]
			if first, end := max(from, sp.row), min(to, sp.row+sp.rows); first < end {
				sp.cache.store(ws, layer, a, first, end-first, int(st.positions[first]))
			}
		}
	})

	M, x, positions := R, a.x, st.positions
	a.hOut = a.h
	if last && ws.gathers(st) {
		M = len(st.outputs)
		x = gather(&ws.xOut, a.x, st.outputs, D)
		a.hOut = gather(&ws.gradient.hOut, a.h, st.outputs, D)
		positions = gather(&ws.positions, st.positions, st.outputs, 1)
	}

	// Attention: mid = x + softmax(q·kᵀ/√d)·v·Wo
	grow(q, M*H*d)
	grow(&a.q, M*H*d)
	if c.UseQKNorm {
		grow(&a.rmsQ, M*H)
	}
	grow(&a.attention, M*H*d)
	grow(&a.greatest, M*H)
	grow(&a.sum, M*H)
	ws.team.blocks(M, func(from, to int, s *scratch) {
		ws.project(s, w, queries, (*q)[from*H*d:to*H*d], a.hOut[from*D:to*D], to-from)
		if c.UseQKNorm {
			ws.norm(a.q[from*H*d:to*H*d], a.rmsQ[from*H:to*H], a.qPre[from*H*d:to*H*d], w.qNorm)
		}
		ws.rotate(a.q[from*H*d:to*H*d], positions[from:to], H, k.Rotate)
		k.Scale(inverseRoot(d), a.q[from*H*d:to*H*d])
	})
	ws.attend(layer, a, st, positions, last)

	// SwiGLU: out = mid + (silu(h2·Wgate) ∘ h2·Wup)·Wdown
	grow(&a.mid, M*D)
	grow(&a.rms2, M)
	grow(&a.h2, M*D)
	grow(&a.gate, M*F)
	grow(&a.up, M*F)
	grow(&a.ff, M*F)
	grow(out, M*D)
	ws.team.blocks(M, func(from, to int, s *scratch) {
		n := to - from
		mid, y := a.mid[from*D:to*D], (*out)[from*D:to*D]
		ws.residual(s, w, attentionOut, mid, x[from*D:to*D], a.attention[from*H*d:to*H*d], n)
		h2, gate, up, ff := a.h2[from*D:to*D], a.gate[from*F:to*F], a.up[from*F:to*F], a.ff[from*F:to*F]
		ws.norm(h2, a.rms2[from:to], mid, w.norm2)
		ws.project(s, w, gates, gate, h2, n)
		ws.project(s, w, ups, up, h2, n)
		k.SiluMul(ff, gate, up)
		ws.residual(s, w, downs, y, mid, ff, n)
	})
}

// gathers tells whether the last layer works on copies of the rows that are asked for:
// where these are not all, and always in a large model, in which other sequences may
// stand beside a row all of which is asked for, and must not change its bits.
func (ws *workspace) gathers(st *step) bool { return len(st.outputs) < len(st.tokens) || ws.m.large }

// project computes y [rows, out] = x [rows, in]·W + bias + scale·(x·A)·B.
func (ws *workspace) project(s *scratch, w *layerWeights, p projection, y, x []float32, rows int) {
	bias := w.bias[p]
	if bias != nil {
		for r := range rows {
			copy(y[r*len(bias):(r+1)*len(bias)], bias)
		}
	}
	ws.add(s, w, p, y, x, rows, bias != nil)
}

// residual computes y [rows, out] = stream + x·W. In a small model the chain of additions
// begins at the stream, which saves a pass. Large ones have elements of the stream that
// are hundreds of times the others (Sun et al. 2024, arXiv:2402.17762): each term that is
// added to such an element is rounded to its precision, so they are added up first.
func (ws *workspace) residual(s *scratch, w *layerWeights, p projection, y, stream, x []float32, rows int) {
	if !ws.m.large {
		copy(y, stream)
		ws.add(s, w, p, y, x, rows, true)
		return
	}
	ws.add(s, w, p, y, x, rows, false)
	ws.k.Add(y, stream)
}

func (ws *workspace) add(s *scratch, w *layerWeights, p projection, y, x []float32, rows int, accumulate bool) {
	in, out := ws.m.config.dimensions(p)
	ws.k.Gemm(rows, out, in, x, in, 1, w.matrix[p], out, y, out, accumulate)
	if low := &w.low[p]; low.a != nil {
		r := ws.m.rank()
		u := grow(&s.low, rows*r)
		ws.lowInput(u, low, x, rows, in)
		ws.k.Gemm(rows, out, r, u, r, 1, low.b, out, y, out, true)
	}
}

// lowInput computes u [rows, rank] = scale·x·A.
func (ws *workspace) lowInput(u []float32, low *lowRank, x []float32, rows, in int) {
	r := ws.m.rank()
	ws.k.Gemm(rows, r, in, x, in, 1, low.a, r, u, r, false)
	ws.k.Scale(ws.m.adapter.scale, u)
}

// norm computes y = RMSNorm(x) over groups of len(weight) elements and keeps
// the inverse root mean square of each for the backward pass.
func (ws *workspace) norm(y, inverseRMS, x, weight []float32) {
	n := len(weight)
	eps := float32(ws.m.config.RMSNormEps)
	for i := range inverseRMS {
		inverseRMS[i] = ws.k.RMSNorm(y[i*n:(i+1)*n], x[i*n:(i+1)*n], weight, eps)
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
