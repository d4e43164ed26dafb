package advantage

import "math"

// TurnGAE is cross-segment GAE with one step a turn, a turn being a run of
// trainable tokens that nothing interrupts, within one segment:
//
//	r_k  the rewards of the turn's tokens, and of those up to the next turn
//	V_k  the value at the turn's first token
//	δ_k = r_k + γ·V_{k+1} − V_k
//	A_k = δ_k + γ·λ_actor·A_{k+1},  C_k = δ_k + γ·λ_critic·C_{k+1}
//
// A_k and C_k + V_k are written to all tokens of the turn. The decay is one γλ
// a turn, whatever its length.
//
// Sources: Zhou et al., ArCHer, arXiv 2402.19446 (credit by turns); the
// recursion is that of GAE.
func TurnGAE[T Float](tr Trajectory[T], gamma, lambdaActor, lambdaCritic float64) (dropped float64, err error) {
	c := carry{nv: tr.Bootstrap, reward: tr.Outcome}
	for k := len(tr.Segments) - 1; k >= 0; k-- {
		s := &tr.Segments[k]
		done := len(s.Mask)
		for start, end := range spans(s.Mask) {
			r := c.reward + s.skip(end, done) + sum(s.Rewards[start:end])
			v := float64(s.Values[start])
			delta := r + float64(gamma*c.nv) - v
			c.a = math.FMA(gamma*lambdaActor, c.a, delta)
			c.c = math.FMA(gamma*lambdaCritic, c.c, delta)
			c.nv, c.reward = v, 0
			if !isFinite(sum(s.Values[start:end])) { // those after the first are not read
				return 0, tr.badSum()
			}
			x, y := T(c.a), T(c.c+v)
			fill(s.Advantages[start:end], x)
			fill(s.Returns[start:end], y)
			c.over += float64(x - y)
			done = start
		}
		c.reward += s.skip(0, done)
	}
	return c.reward, check(c, &tr, 0)
}

func fill[T Float](x []T, v T) {
	for t := range x {
		x[t] = v
	}
}
