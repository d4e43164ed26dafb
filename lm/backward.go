package lm

// backwardBuffers are the gradients of activations.
type backwardBuffers struct {
	hOut     []float32 // [M, D] rows of the last layer's normed input (forward)
	dHidden  []float32 // [M, D]
	dx       []float32 // [M, D] residual stream behind a layer
	dMid     []float32 // [M, D] in its middle, then before it
	dxIn     []float32 // [R, D] before the last layer, if it gathers
	dFF      []float32 // [M, F], then that of gate
	dUp      []float32 // [M, F]
	dh2      []float32 // [M, D]
	dO       []float32 // [M, H·d]
	dq, dqIn []float32 // [M, H·d]
	dk, dkIn []float32 // [R, G·d]
	dv       []float32 // [R, G·d]
	dh       []float32 // [R, D]
	dhOut    []float32 // [M, D]

	low, dLow [projections][]float32 // [rows, rank] scale·x·A and its gradient
	dLogProb  []float32              // [M] of several rows
	dEntropy  []float32              // [M]

	later []func(s *scratch) // gradients of weights that are yet to be computed
}

// backward takes ws.gradient.dHidden [M, D], the gradient of ws.hidden, through
// the trunk and adds the gradients of the weights to grad, whose frozen ones are nil. It
// needs the activations that forward kept for the same step.
func (ws *workspace) backward(st *step, grad *weights) {
	m, b := ws.m, &ws.gradient
	D := m.config.HiddenSize
	dx := zeroed(&b.dx, len(st.outputs)*D)
	ws.normGradient(grad.norm, b.dHidden, ws.out, m.norm, ws.rms)
	ws.team.blocks(len(st.outputs), func(from, to int, s *scratch) {
		ws.normBackward(s, dx[from*D:to*D], grad.norm, b.dHidden[from*D:to*D], ws.out[from*D:to*D], m.norm, ws.rms[from:to])
	})
	ws.addGradients()
	for layer := m.config.NumHiddenLayers - 1; layer >= 0; layer-- {
		a := ws.keep(layer, st)
		if ws.again(st) {
			ws.layerForward(layer, a, st, ws.output(layer))
		}
		ws.layerBackward(layer, a, st, dx, &grad.layers[layer])
		ws.release(a, st)
		dx = b.dx
	}
	for r, token := range st.tokens {
		if row := grad.embeddingOf(token, D); row != nil {
			ws.k.Add(row, dx[r*D:(r+1)*D])
		}
	}
}

// layerBackward takes dx, the gradient of the layer's output [M, D], to that of
// its input [R, D], which it leaves in ws.gradient.dx. It mirrors layerForward from
// end to start.
func (ws *workspace) layerBackward(layer int, a *activations, st *step, dx []float32, grad *layerWeights) {
	k, c, b := ws.k, &ws.m.config, &ws.gradient
	w := &ws.m.layers[layer]
	D, F, d := c.HiddenSize, c.IntermediateSize, c.HeadDim
	H, G := c.NumAttentionHeads, c.NumKeyValueHeads
	R, M := len(st.tokens), len(dx)/D
	last := layer == c.NumHiddenLayers-1
	gathered := last && ws.gathers(st)
	positions := st.positions
	if gathered {
		positions = ws.positions
	}

	// SwiGLU: out = mid + (silu(h2·Wgate) ∘ h2·Wup)·Wdown
	grow(&b.dFF, M*F)
	grow(&b.dUp, M*F)
	grow(&b.dh2, M*D)
	grow(&b.dMid, M*D)
	grow(&b.dO, M*H*d)
	lean := ws.m.large && !ws.again(st)
	if lean {
		grow(&a.h2, M*D)
		grow(&a.ff, M*F)
	}
	for p := range projections {
		if w.low[p].a != nil {
			grow(&b.low[p], R*ws.m.rank())
			grow(&b.dLow[p], R*ws.m.rank())
		}
	}
	ws.team.blocks(M, func(from, to int, s *scratch) {
		narrow := func(x []float32) []float32 { return x[from*D : to*D] }
		wide := func(x []float32) []float32 { return x[from*F : to*F] }
		if lean { // what the forward pass did not keep
			k.SiluMul(wide(a.ff), wide(a.gate), wide(a.up))
			ws.norm(narrow(a.h2), a.rms2[from:to], narrow(a.mid), w.norm2)
		}
		dFF, dGate, dUp := wide(b.dFF), wide(b.dFF), wide(b.dUp)
		ws.projectBack(layer, downs, dFF, from, to, wide(a.ff), narrow(dx), false)
		k.SiluMulBackward(dGate, dUp, dFF, wide(a.gate), wide(a.up))
		ws.projectBack(layer, gates, narrow(b.dh2), from, to, narrow(a.h2), dGate, false)
		ws.projectBack(layer, ups, narrow(b.dh2), from, to, narrow(a.h2), dUp, true)
		copy(narrow(b.dMid), narrow(dx))
		ws.normBackward(s, narrow(b.dMid), grad.norm2, narrow(b.dh2), narrow(a.mid), w.norm2, a.rms2[from:to])
		// Attention: mid = x + softmax(q·kᵀ/√d)·v·Wo
		ws.projectBack(layer, attentionOut, b.dO[from*H*d:to*H*d], from, to, a.attention[from*H*d:to*H*d], narrow(b.dMid), false)
	})
	dMid := b.dMid
	ws.projectionGradient(layer, gates, grad, a.h2, b.dFF, M)
	ws.projectionGradient(layer, ups, grad, a.h2, b.dUp, M)
	ws.projectionGradient(layer, downs, grad, a.ff, dx, M)
	ws.projectionGradient(layer, attentionOut, grad, a.attention, dMid, M)
	ws.normGradient(grad.norm2, b.dh2, a.mid, w.norm2, a.rms2)

	dq, dk, dv := grow(&b.dq, M*H*d), zeroed(&b.dk, R*G*d), zeroed(&b.dv, R*G*d)
	ws.attendBackward(layer, a, st, positions, last, b.dO, dq, dk, dv)
	dqIn, dkIn := dq, dk // before QK-norm
	if c.UseQKNorm {
		dqIn, dkIn = zeroed(&b.dqIn, M*H*d), zeroed(&b.dkIn, R*G*d)
	}
	dhOut := grow(&b.dh, R*D)
	if gathered {
		dhOut = grow(&b.dhOut, M*D)
	}
	if lean {
		grow(&a.h, R*D)
	}
	ws.team.blocks(R, func(from, to int, s *scratch) {
		at, end := from*G*d, to*G*d
		ws.rotate(dk[at:end], st.positions[from:to], G, k.RotateBack)
		if c.UseQKNorm {
			ws.normBackward(s, dkIn[at:end], grad.kNorm, dk[at:end], a.kPre[at:end], w.kNorm, a.rmsK[from*G:to*G])
		}
		h, dh := a.h[from*D:to*D], b.dh[from*D:to*D]
		if lean {
			ws.norm(h, a.rms1[from:to], a.x[from*D:to*D], w.norm1)
		}
		ws.projectBack(layer, keys, dh, from, to, h, dkIn[at:end], false)
		ws.projectBack(layer, values, dh, from, to, h, dv[at:end], true)
	})
	if a.hOut = a.h; gathered {
		a.hOut = b.hOut
	}
	ws.team.blocks(M, func(from, to int, s *scratch) {
		at, end := from*H*d, to*H*d
		k.Scale(inverseRoot(d), dq[at:end])
		ws.rotate(dq[at:end], positions[from:to], H, k.RotateBack)
		if c.UseQKNorm {
			ws.normBackward(s, dqIn[at:end], grad.qNorm, dq[at:end], a.qPre[at:end], w.qNorm, a.rmsQ[from*H:to*H])
		}
		ws.projectBack(layer, queries, dhOut[from*D:to*D], from, to, a.hOut[from*D:to*D], dqIn[at:end], !gathered)
	})
	ws.projectionGradient(layer, queries, grad, a.hOut, dqIn, M)
	ws.projectionGradient(layer, keys, grad, a.h, dkIn, R)
	ws.projectionGradient(layer, values, grad, a.h, dv, R)
	if c.UseQKNorm {
		ws.normGradient(grad.qNorm, dq, a.qPre, w.qNorm, a.rmsQ)
		ws.normGradient(grad.kNorm, dk, a.kPre, w.kNorm, a.rmsK)
	}
	ws.addGradients()

	if gathered { // back from the rows that were asked for to all rows
		dxIn := zeroed(&b.dxIn, R*D)
		for i, r := range st.outputs {
			k.Add(b.dh[int(r)*D:(int(r)+1)*D], dhOut[i*D:(i+1)*D])
			copy(dxIn[int(r)*D:(int(r)+1)*D], dMid[i*D:(i+1)*D])
		}
		b.dMid, b.dxIn = b.dxIn, b.dMid
	}
	ws.normGradient(grad.norm1, b.dh, a.x, w.norm1, a.rms1)
	ws.addGradients()
	ws.team.blocks(R, func(from, to int, s *scratch) {
		ws.normBackward(s, b.dMid[from*D:to*D], grad.norm1, b.dh[from*D:to*D], a.x[from*D:to*D], w.norm1, a.rms1[from:to])
	})
	b.dx, b.dMid = b.dMid, b.dx
}

// projectBack computes rows from … to−1 of the gradient of a projection's input x for
// that of its output dy:
//
//	dx [rows, in] = dy·Wᵀ + (scale·dy·Bᵀ)·Aᵀ, or += if accumulate
//
// With an adapter it leaves what the gradients of A and B need.
func (ws *workspace) projectBack(layer int, p projection, dx []float32, from, to int, x, dy []float32, accumulate bool) {
	m := ws.m
	in, out := m.config.dimensions(p)
	w, rows := &m.layers[layer], to-from
	if m.large {
		ws.k.GemmT(rows, in, out, dy, out, 1, w.matrix[p], out, dx, in, accumulate)
	} else {
		ws.k.Gemm(rows, in, out, dy, out, 1, m.transposed.layers[layer].matrix[p], in, dx, in, accumulate)
	}
	if low := &w.low[p]; low.a != nil {
		r := m.rank()
		u, du := ws.gradient.low[p][from*r:to*r], ws.gradient.dLow[p][from*r:to*r]
		ws.lowInput(u, low, x, rows, in)
		ws.k.GemmT(rows, r, out, dy, out, 1, low.b, out, du, r, false)
		ws.k.Scale(m.adapter.scale, du)
		ws.k.GemmT(rows, in, r, du, r, 1, low.a, r, dx, in, true)
	}
}

// projectionGradient adds the gradients of a projection's weights:
//
//	dW [in, out] += xᵀ·dy,  dbias [out] += Σ_rows dy
//	dB [rank, out] += (scale·x·A)ᵀ·dy,  dA [in, rank] += xᵀ·(scale·dy·Bᵀ)
func (ws *workspace) projectionGradient(layer int, p projection, grad *layerWeights, x, dy []float32, rows int) {
	in, out := ws.m.config.dimensions(p)
	ws.weightGradient(grad.matrix[p], x, dy, rows, in, out)
	if dbias := grad.bias[p]; dbias != nil {
		ws.later(func(*scratch) {
			for r := range rows {
				ws.k.Add(dbias, dy[r*out:(r+1)*out])
			}
		})
	}
	if low := &grad.low[p]; low.a != nil {
		r := ws.m.rank()
		ws.weightGradient(low.b, ws.gradient.low[p], dy, rows, r, out)
		ws.weightGradient(low.a, x, ws.gradient.dLow[p], rows, in, r)
	}
}

// gradientRows is the number of rows of a gradient that a member of a team computes at
// a time.
const gradientRows = 192

// weightGradient adds xᵀ·dy to dw [in, out], for x [rows, in]; nothing to nil.
func (ws *workspace) weightGradient(dw, x, dy []float32, rows, in, out int) {
	if dw == nil {
		return
	}
	if len(ws.team) == 1 {
		ws.k.Gemm(in, out, rows, x, 1, in, dy, out, dw, out, true)
		return
	}
	for from := 0; from < in; from += gradientRows {
		n := min(gradientRows, in-from)
		ws.later(func(*scratch) {
			ws.k.Gemm(n, out, rows, x[from:], 1, in, dy, out, dw[from*out:], out, true)
		})
	}
}

// normBackward is the gradient of norm: it adds to dx and, if one goroutine works
// alone, to dweight, which may be nil.
func (ws *workspace) normBackward(s *scratch, dx, dweight, dy, x, weight, inverseRMS []float32) {
	n := len(weight)
	if dweight == nil || len(ws.team) > 1 {
		dweight = zeroed(&s.vector, n)
	}
	for i, r := range inverseRMS {
		ws.k.RMSNormBackward(dx[i*n:(i+1)*n], dweight, dy[i*n:(i+1)*n], x[i*n:(i+1)*n], weight, r)
	}
}

// normGradient adds to dweight what normBackward leaves to do for a team: row by row, in
// their order.
func (ws *workspace) normGradient(dweight, dy, x, weight, inverseRMS []float32) {
	if dweight == nil || len(ws.team) == 1 {
		return
	}
	n := len(weight)
	ws.later(func(s *scratch) {
		unwanted := zeroed(&s.vector, n)
		for i, r := range inverseRMS {
			ws.k.RMSNormBackward(unwanted, dweight, dy[i*n:(i+1)*n], x[i*n:(i+1)*n], weight, r)
		}
	})
}

// later has a gradient of weights computed at the next addGradients: at once, if one
// goroutine works alone.
func (ws *workspace) later(do func(s *scratch)) {
	if len(ws.team) == 1 {
		do(&ws.team[0])
		return
	}
	ws.gradient.later = append(ws.gradient.later, do)
}

// addGradients computes what later has collected.
func (ws *workspace) addGradients() {
	todo := ws.gradient.later
	ws.team.each(len(todo), func(i int, s *scratch) { todo[i](s) })
	clear(todo)
	ws.gradient.later = todo[:0]
}
