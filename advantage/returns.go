package advantage

import "math"

// DiscountedReturns are the Monte Carlo returns of the trajectory through all
// of its segments, written to both advantages and returns:
//
//	G_t = r_t + γ·G_{t+1} over trainable tokens,  G_T = V(s_T) if truncated, else 0
//
// Whitened over the batch they are the advantages of REINFORCE++
// (Hu, arXiv 2501.03262).
func DiscountedReturns[T Float](e Episode[T], gamma float64) (dropped float64, err error) {
	g, reward := e.Bootstrap, e.Outcome
	for k := len(e.Segments) - 1; k >= 0; k-- {
		s := e.Segments[k]
		done := len(s.Mask)
		for start, end := range spans(s.Mask) {
			reward += s.skip(end, done)
			for t := end - 1; t >= start; t-- {
				g = math.FMA(gamma, g, float64(s.Rewards[t])+reward)
				reward = 0
				s.Advantages[t], s.Returns[t] = T(g), T(g)
			}
			done = start
		}
		reward += s.skip(0, done)
	}
	if !isFinite(g) {
		return 0, e.checkFinite()
	}
	return reward, nil
}
