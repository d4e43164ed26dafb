package advantage

import "math"

// CompactionRL gives the outcome R of the trajectory to the last trainable
// token of every segment, runs GAE in each segment by itself, and discounts the
// segment's advantages by the decisions that came after it:
//
//	A_t = (γλ)^n · GAE_segment(r = R at the segment's last decision)_t
//	n   = trainable tokens of the trajectory after the segment
//
// R is the score, or the sum of the rewards. Returns are those of the local
// scan. Source: CompactionRL, arXiv 2607.05378.
func CompactionRL[T Float](tr Trajectory[T], gamma, lambdaActor, lambdaCritic float64) error {
	return outcomePerSegment(tr, gamma, lambdaActor, lambdaCritic, gamma*lambdaActor)
}

// OutcomeCopy is CompactionRL without the discount: every segment is an
// trajectory of its own that ends with the outcome. It is a baseline; rows closer
// to the start get as much credit as the last one.
func OutcomeCopy[T Float](tr Trajectory[T], gamma, lambdaActor, lambdaCritic float64) error {
	return outcomePerSegment(tr, gamma, lambdaActor, lambdaCritic, 1)
}

func outcomePerSegment[T Float](tr Trajectory[T], gamma, lambdaActor, lambdaCritic, discount float64) error {
	outcome := tr.Score()
	longest := 0
	for _, s := range tr.Segments {
		longest = max(longest, len(s.Mask))
	}
	noRewards := make([]T, longest)
	after, nv := 0, tr.Bootstrap
	for k := len(tr.Segments) - 1; k >= 0; k-- {
		s := tr.Segments[k]
		s.Rewards = noRewards[:len(s.Mask)]
		c := carry{nv: nv, reward: outcome}
		scan(&c, s, gamma, gamma*lambdaActor, gamma*lambdaCritic)
		if err := check(c, &tr, k); err != nil {
			return err
		}
		scale, before := math.Pow(discount, float64(after)), after
		for start, end := range spans(s.Mask) {
			for t := start; t < end; t++ {
				s.Advantages[t] = T(float64(s.Advantages[t]) * scale)
			}
			after += end - start
		}
		if after > before { // the bootstrap is of the last segment that decides anything
			nv = 0
		}
	}
	if !isFinite(outcome) {
		return tr.badSum()
	}
	return nil
}
