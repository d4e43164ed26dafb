package advantage

import "math"

// DiscountedReturns are the Monte Carlo returns of the trajectory through all
// of its segments, written to both advantages and returns:
//
//	G_t = r_t + γ·G_{t+1} over trainable tokens,  G_T = V(s_T) if truncated, else 0
//
// Whitened over the batch they are the advantages of REINFORCE++
// (Hu, arXiv 2501.03262).
func DiscountedReturns[T Float](tr Trajectory[T], gamma float64) (dropped float64, err error) {
	g, reward := tr.Bootstrap, tr.Outcome
	var over T // as in carry
	for k := len(tr.Segments) - 1; k >= 0; k-- {
		s := tr.Segments[k]
		done := len(s.Mask)
		for start, end := range spans(s.Mask) {
			reward += s.skip(end, done)
			for t := end - 1; t >= start; t-- {
				g = math.FMA(gamma, g, float64(s.Rewards[t])+reward)
				reward = 0
				x := T(g)
				s.Advantages[t], s.Returns[t] = x, x
				over += x
			}
			done = start
		}
		reward += s.skip(0, done)
	}
	return reward, check(carry{a: g, over: float64(over)}, &tr, 0)
}
