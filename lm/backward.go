package lm

// backwardBuffers are the gradients of activations.
type backwardBuffers struct {
	hOut     []float32 // [M, D] rows of the last layer's normed input (forward)
	dHidden  []float32 // [M, D]
	dx       []float32 // [M, D] residual stream, from the last layer to the first
	dxIn     []float32 // [R, D] the same below the last layer, if M < R
	dFF      []float32 // [M, F]
	dh2      []float32 // [M, D]
	dO       []float32 // [M, H·d]
	dq, dqIn []float32 // [M, H·d]
	dk, dkIn []float32 // [R, G·d]
	dv       []float32 // [R, G·d]
	dh       []float32 // [R, D]
	dhOut    []float32 // [M, D]
	vT       []float32 // [d, R]
	dp       []float32 // [queryBlock, keys]
	zero     []float32 // [M] stands for a gradient that is nil
}

// backward takes ws.gradient.dHidden [M, D], the gradient of ws.hidden, through
// the trunk and adds the gradients of the weights to grad. It needs the
// activations that forward kept for the same step.
func (ws *workspace) backward(st *step, grad *weights) {
	m, b := ws.m, &ws.gradient
	D := m.config.HiddenSize
	dx := zeroed(&b.dx, len(st.outputs)*D)
	ws.normBackward(dx, grad.norm, b.dHidden, ws.out, m.norm, ws.rms)
	for layer := m.config.NumHiddenLayers - 1; layer >= 0; layer-- {
		dx = ws.layerBackward(layer, st, dx, &grad.layers[layer])
	}
	for r, token := range st.tokens {
		ws.k.Add(grad.embed[int(token)*D:(int(token)+1)*D], dx[r*D:(r+1)*D])
	}
}

// layerBackward takes dx, the gradient of the layer's output [M, D], to that of
// its input [R, D], which it returns. It mirrors layerForward from end to start.
func (ws *workspace) layerBackward(layer int, st *step, dx []float32, grad *layerWeights) []float32 {
	k, c, b := ws.k, &ws.m.config, &ws.gradient
	a, w, wT := &ws.layers[layer], &ws.m.layers[layer], &ws.m.transposed.layers[layer]
	D, F, d := c.HiddenSize, c.IntermediateSize, c.HeadDim
	H, G := c.NumAttentionHeads, c.NumKeyValueHeads
	R, M := len(st.tokens), len(dx)/D
	positions := st.positions
	if M < R {
		positions = ws.positions
	}

	// SwiGLU: out = mid + (silu(h2·Wgate) ∘ h2·Wup)·Wdown
	dFF := grow(&b.dFF, M*F)
	ws.linearBackward(dFF, grad.wDown, nil, M, F, D, a.ff, wT.wDown, dx, false)
	dGate, dUp := a.gate, a.up // in place
	k.SiluMulBackward(dGate, dUp, dFF, a.gate, a.up)
	dh2 := grow(&b.dh2, M*D)
	ws.linearBackward(dh2, grad.wGate, nil, M, D, F, a.h2, wT.wGate, dGate, false)
	ws.linearBackward(dh2, grad.wUp, nil, M, D, F, a.h2, wT.wUp, dUp, true)
	ws.normBackward(dx, grad.norm2, dh2, a.mid, w.norm2, a.rms2) // dx is now that of mid

	// Attention: mid = x + softmax(q·kᵀ/√d)·v·Wo
	dO := grow(&b.dO, M*H*d)
	ws.linearBackward(dO, grad.wo, nil, M, H*d, D, a.attention, wT.wo, dx, false)
	dq, dk, dv := grow(&b.dq, M*H*d), zeroed(&b.dk, R*G*d), zeroed(&b.dv, R*G*d)
	ws.attendBackward(layer, a, positions, dO, dq, dk, dv)
	k.Scale(inverseRoot(d), dq)
	ws.rotate(dq, positions, H, k.RotateBack)
	ws.rotate(dk, st.positions, G, k.RotateBack)
	if c.UseQKNorm {
		dqIn, dkIn := zeroed(&b.dqIn, M*H*d), zeroed(&b.dkIn, R*G*d)
		ws.normBackward(dqIn, grad.qNorm, dq, a.qPre, w.qNorm, a.rmsQ)
		ws.normBackward(dkIn, grad.kNorm, dk, a.kPre, w.kNorm, a.rmsK)
		dq, dk = dqIn, dkIn
	}
	dh := grow(&b.dh, R*D)
	ws.linearBackward(dh, grad.wk, grad.bk, R, D, G*d, a.h, wT.wk, dk, false)
	ws.linearBackward(dh, grad.wv, grad.bv, R, D, G*d, a.h, wT.wv, dv, true)
	if M == R {
		ws.linearBackward(dh, grad.wq, grad.bq, M, D, H*d, a.h, wT.wq, dq, true)
	} else {
		// Back from the rows that were asked for to all rows.
		dhOut := grow(&b.dhOut, M*D)
		ws.linearBackward(dhOut, grad.wq, grad.bq, M, D, H*d, a.hOut, wT.wq, dq, false)
		dxIn := zeroed(&b.dxIn, R*D)
		for i, r := range st.outputs {
			k.Add(dh[int(r)*D:(int(r)+1)*D], dhOut[i*D:(i+1)*D])
			copy(dxIn[int(r)*D:(int(r)+1)*D], dx[i*D:(i+1)*D])
		}
		dx = dxIn
	}
	ws.normBackward(dx, grad.norm1, dh, a.x, w.norm1, a.rms1)
	return dx
}

// linearBackward is the gradient of y = x·w + bias, for x [rows, in]:
//
//	dx [rows, in]  = dy·wᵀ, or += if accumulate
//	dw [in, out]  += xᵀ·dy
//	dbias [out]   += Σ_rows dy
func (ws *workspace) linearBackward(dx, dw, dbias []float32, rows, in, out int, x, wT, dy []float32, accumulate bool) {
	ws.k.Gemm(rows, in, out, dy, out, 1, wT, in, dx, in, accumulate)
	ws.k.Gemm(in, out, rows, x, 1, in, dy, out, dw, out, true)
	if dbias != nil {
		for r := range rows {
			ws.k.Add(dbias, dy[r*out:(r+1)*out])
		}
	}
}

// normBackward is the gradient of norm: it adds to dx and dweight.
func (ws *workspace) normBackward(dx, dweight, dy, x, weight, inverseRMS []float32) {
	n := len(weight)
	for i, r := range inverseRMS {
		ws.k.RMSNormBackward(dx[i*n:(i+1)*n], dweight, dy[i*n:(i+1)*n], x[i*n:(i+1)*n], weight, r)
	}
}
