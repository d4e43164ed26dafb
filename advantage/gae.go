package advantage

import (
	"math"
	"slices"
)

// GAE is cross-segment generalised advantage estimation with separate λ for
// actor and critic: one scan, backwards in time, over the whole trajectory.
//
//	A = C = 0;  nv = V(s_T) if truncated, else 0      once a trajectory
//	for every trainable token, last to first, through all segments:
//	    δ_t  = r_t + γ·nv − V_t
//	    A_t  = δ_t + γ·λ_actor ·A_{t+1}               advantage
//	    C_t  = δ_t + γ·λ_critic·C_{t+1}               return R_t = C_t + V_t
//	    nv   = V_t
//
// A condensation is a deterministic part of the environment: the state after
// the last action of one segment is the condensed prompt of the next, whose
// value is V at that segment's first trainable token. Therefore the carry
// (A, C, nv) crosses the cut as it is, and cutting a trajectory anywhere
// changes no bit of the result.
//
// The scan must meet the last segment (inv_iter 0) first. In the order of time,
// inv_iter from high to low, the reward would never leave the last segment.
//
// Sources: Schulman et al., arXiv 1506.02438, eq. 16; decoupled λ: VC-PPO,
// arXiv 2503.01491, and VAPO, arXiv 2504.05118.
//
// It returns the reward that came before the first trainable token: it follows
// no action and is credited to none.
func GAE[T Float](tr Trajectory[T], gamma, lambdaActor, lambdaCritic float64) (dropped float64, err error) {
	c := carry{nv: tr.Bootstrap, reward: tr.Outcome}
	for k := len(tr.Segments) - 1; k >= 0; k-- {
		scan(&c, tr.Segments[k], gamma, gamma*lambdaActor, gamma*lambdaCritic)
	}
	return c.reward, check(c, &tr, 0)
}

// PerSegmentGAE is GAE with every segment its own terminal trajectory: the
// baseline that lets no credit cross a cut. Only rewards on tokens without a
// decision still find their action in an earlier segment.
func PerSegmentGAE[T Float](tr Trajectory[T], gamma, lambdaActor, lambdaCritic float64) (dropped float64, err error) {
	c := carry{nv: tr.Bootstrap, reward: tr.Outcome}
	due := true // the bootstrap, to the last segment that decides anything
	for k := len(tr.Segments) - 1; k >= 0; k-- {
		scan(&c, tr.Segments[k], gamma, gamma*lambdaActor, gamma*lambdaCritic)
		if err := check(c, &tr, k); err != nil {
			return 0, err
		}
		c = carry{reward: c.reward}
		if due = due && !slices.Contains(tr.Segments[k].Mask, true); due {
			c.nv = tr.Bootstrap
		}
	}
	return c.reward, nil
}

// carry is the state of the scan between two trainable tokens.
type carry struct {
	a, c   float64 // A_{t+1}, C_{t+1}
	nv     float64 // value of the state after the current token
	reward float64 // rewards since the token before, waiting for their action
	over   float64 // not finite once credit has overflowed its column
}

// check reports, behind the scan of segment k, a NaN or infinity, which the
// recursion never loses again, and credit that has overflowed its column.
func check[T Float](c carry, tr *Trajectory[T], k int) error {
	sums := isFinite(c.a) && isFinite(c.c)
	if sums && isFinite(c.over) {
		return nil
	}
	if err := tr.overflow(k); err != nil || sums { // over may be a false alarm
		return err
	}
	return tr.sumsOverflow()
}

// scan runs the recursion through one segment.
func scan[T Float](c *carry, s Segment[T], gamma, gammaLambdaActor, gammaLambdaCritic float64) {
	done := len(s.Mask)
	for start, end := range spans(s.Mask) {
		c.reward += s.skip(end, done)
		scanSpan(c, &s, start, end, gamma, gammaLambdaActor, gammaLambdaCritic)
		done = start
	}
	c.reward += s.skip(0, done)
}

// scanSpan is the recursion itself, over trainable tokens only. Its speed is the
// latency of A and C, which a fused multiply-add cuts by a third. Where products
// are fused is spelled out, so that all processors give the same bits.
func scanSpan[T Float](s *carry, segment *Segment[T], start, end int, gamma, gammaLambdaActor, gammaLambdaCritic float64) {
	rewards := segment.Rewards[start:end]
	values := segment.Values[start:end][:len(rewards)]
	advantages, returns := segment.Advantages[start:end][:len(rewards)], segment.Returns[start:end][:len(rewards)]
	a, c, nv, waiting := s.a, s.c, s.nv, s.reward
	var over T
	for t := len(rewards) - 1; t >= 0; t-- {
		r, v := float64(rewards[t]), float64(values[t])
		if waiting != 0 {
			r, waiting = r+waiting, 0
		}
		delta := r + float64(gamma*nv) - v
		a = math.FMA(gammaLambdaActor, a, delta)
		c = math.FMA(gammaLambdaCritic, c, delta)
		nv = v
		x, y := T(a), T(c+v)
		advantages[t], returns[t] = x, y
		over += x - y // stays NaN or infinite after one that is
	}
	*s = carry{a, c, nv, waiting, s.over + float64(over)}
}

// skip writes zeros to the tokens [start, end), none of them trainable, and
// returns the sum of their rewards: it waits for the nearest earlier trainable
// token and is not decayed. A NaN or infinity there is no reward.
func (s *Segment[T]) skip(start, end int) (reward float64) {
	clear(s.Advantages[start:end])
	clear(s.Returns[start:end])
	if zeroBits(s.Rewards[start:end]) { // as nearly always
		return 0
	}
	for _, r := range s.Rewards[start:end] {
		if isFinite(float64(r)) {
			reward += float64(r)
		}
	}
	return reward
}
