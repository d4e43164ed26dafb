package lm

import "math"

// logitBlock and teamLogits bound the logits that are in memory at once, in elements, of
// a row of a small model and of a step of a large one. The head runs over blocks of
// targets; if they all fit one block, their logits are still there for the backward
// pass, else they are computed again.
const (
	logitBlock = 1 << 20
	teamLogits = 1 << 26
)

// headBlock is the number of hidden states whose logits fit a block.
func (ws *workspace) headBlock() int {
	if len(ws.team) > 1 {
		return max(1, teamLogits/ws.m.config.VocabSize)
	}
	return max(1, logitBlock/ws.m.config.VocabSize)
}

// vocabularyPiece is the number of tokens whose logits, or rows of the head, a member
// of a team computes at a time.
const vocabularyPiece = 2048

// logitsOf computes z [n, V] = hidden [n, D]·headᵀ·scale.
func (ws *workspace) logitsOf(hidden []float32, scale float32) []float32 {
	V, D := ws.m.config.VocabSize, ws.m.config.HiddenSize
	n := len(hidden) / D
	z := grow(&ws.logits, n*V)
	ws.team.pieces(V, vocabularyPiece, func(from, to int, _ *scratch) {
		ws.k.Gemm(n, to-from, D, hidden, D, 1, ws.m.headT[from:], V, z[from:], V, false)
	})
	if scale != 1 {
		ws.team.each(n, func(i int, _ *scratch) { ws.k.Scale(scale, z[i*V:(i+1)*V]) })
	}
	return z
}

// logSumExp returns log Σ exp(z) and leaves exp(z − max z) in e, with their sum.
func (ws *workspace) logSumExp(z, e []float32) (logSum, sum float32) {
	greatest := ws.k.Max(z)
	sum = ws.k.ExpSum(e, z, greatest)
	return greatest + float32(math.Log(float64(sum))), sum
}

// headForward fills ws.logProb and ws.entropy [M] from ws.hidden [M, D]:
//
//	z = hidden·headᵀ·scale,  logSum = log Σ exp z
//	logProb = z_target − logSum,  entropy = logSum − Σ softmax(z)·z
func (ws *workspace) headForward(targets []int32, scale float32) {
	V, D, M := ws.m.config.VocabSize, ws.m.config.HiddenSize, len(targets)
	logProb, entropy, logSum := grow(&ws.logProb, M), grow(&ws.entropy, M), grow(&ws.logSum, M)
	for from := 0; from < M; from += ws.headBlock() {
		to := min(M, from+ws.headBlock())
		logits := ws.logitsOf(ws.hidden[from*D:to*D], scale)
		ws.team.each(to-from, func(n int, s *scratch) {
			i, z, e := from+n, logits[n*V:(n+1)*V], grow(&s.probs, V)
			var sum float32
			logSum[i], sum = ws.logSumExp(z, e)
			logProb[i] = z[targets[i]] - logSum[i]
			entropy[i] = logSum[i] - ws.k.Dot(e, z)/sum
		})
	}
}

// headBackward takes the gradients dp of the log-probs and dh of the entropies
// [M] (nil: zero) to that of ws.hidden [M, D], and adds to dHead [V, D] (nil: frozen):
//
//	dz = scale·(dp·(1[target] − p) − dh·p·(log p + entropy)),  p = exp(z − logSum)
func (ws *workspace) headBackward(targets []int32, scale float32, dp, dh, dHidden, dHead []float32) {
	V, D, M := ws.m.config.VocabSize, ws.m.config.HiddenSize, len(targets)
	block := ws.headBlock()
	for from := 0; from < M; from += block {
		to := min(M, from+block)
		logits := ws.logits
		if M > block {
			logits = ws.logitsOf(ws.hidden[from*D:to*D], scale)
		}
		ws.team.each(to-from, func(n int, s *scratch) {
			i, z := from+n, logits[n*V:(n+1)*V]
			switch {
			case dh != nil && dh[i] != 0:
				p := grow(&s.probs, V)
				ws.k.ExpSum(p, z, ws.logSum[i])
				ws.k.Scale(-dh[i], z)
				ws.k.SoftmaxBackward(z, p, z, dp[i]-dh[i]*(ws.logSum[i]-ws.entropy[i]), scale)
			case dp[i] != 0:
				ws.k.ExpSum(z, z, ws.logSum[i])
				ws.k.Scale(-dp[i]*scale, z)
			default:
				clear(z)
			}
			z[targets[i]] += dp[i] * scale
		})
		ws.team.blocks(to-from, func(first, end int, _ *scratch) {
			ws.k.Gemm(end-first, D, V, logits[first*V:], V, 1, ws.m.head, D, dHidden[(from+first)*D:], D, false)
		})
		if dHead != nil {
			ws.team.pieces(V, vocabularyPiece, func(first, end int, _ *scratch) {
				ws.k.Gemm(end-first, D, to-from, logits[first:], 1, V, ws.hidden[from*D:], D, dHead[first*D:], D, true)
			})
		}
	}
}

// valueForward fills ws.value [M] with hidden [M, D]·score [D].
func (ws *workspace) valueForward(M int) {
	D := ws.m.config.HiddenSize
	for i := range grow(&ws.value, M) {
		ws.value[i] = ws.k.Dot(ws.hidden[i*D:(i+1)*D], ws.m.head)
	}
}

// valueBackward takes the gradient dv of the values [M] to that of ws.hidden
// [M, D], and adds to dHead [D].
func (ws *workspace) valueBackward(dv, dHidden, dHead []float32) {
	D := ws.m.config.HiddenSize
	clear(dHidden)
	for i, d := range dv {
		ws.k.Axpy(d, ws.m.head, dHidden[i*D:(i+1)*D])
		ws.k.Axpy(d, ws.hidden[i*D:(i+1)*D], dHead)
	}
}
