// Package advantage assigns credit: from rewards, values and outcomes to one
// advantage and one return a trainable token.
//
// An estimator sees whole trajectories. A trajectory comes as the segments
// that a condenser cut it into; every estimator here treats the segments as
// one sequence of decisions, so that a reward in the last segment reaches the
// decisions of the first. What stands between two decisions (tool results,
// prompts, cuts) is no step of the policy: no step of the recursion, no decay.
package advantage

import "fmt"

// Float is the precision of a token column. Running sums are float64 always.
type Float interface{ ~float32 | ~float64 }

// Segment is the response of one row: five columns of one length.
type Segment[T Float] struct {
	Mask       []bool // m_t: token t was sampled by the policy
	Values     []T    // V_t: value of the state before token t
	Rewards    []T    // r_t
	Advantages []T    // written: 0 where m_t is false
	Returns    []T    // written: 0 where m_t is false
}

// Episode is one trajectory.
type Episode[T Float] struct {
	ID      string
	GroupID string
	// Segments in the order of time: the last element is inv_iter 0.
	Segments []Segment[T]
	// Bootstrap is V(s_T) of a truncated trajectory, 0 of a terminated one.
	Bootstrap float64
	// Outcome is a reward that follows the last action: the score when the
	// trajectory has no rewards, else 0.
	Outcome float64
	// StatedScore is the score of the trajectory, if Stated.
	StatedScore float64
	Stated      bool
}

// Score is the trajectory's result as a whole, which group-relative estimators
// compare: the score if one was given, else the sum of the rewards.
func (e *Episode[T]) Score() float64 {
	if e.Stated {
		return e.StatedScore
	}
	return e.totalReward()
}

// Trainable returns the number of tokens that the policy sampled.
func (e *Episode[T]) Trainable() int {
	n := 0
	for _, s := range e.Segments {
		for start, end := range spans(s.Mask) {
			n += end - start
		}
	}
	return n
}

func (e *Episode[T]) hasTrainable() bool {
	for _, s := range e.Segments {
		for range spans(s.Mask) {
			return true
		}
	}
	return false
}

// totalReward sums the rewards; a NaN or infinity counts at trainable tokens
// only.
func (e *Episode[T]) totalReward() float64 {
	total := e.Outcome
	for _, s := range e.Segments {
		for t, r := range s.Rewards {
			if r != 0 && (s.Mask[t] || isFinite(float64(r))) {
				total += float64(r)
			}
		}
	}
	return total
}

func isFinite(x float64) bool { return x-x == 0 }

// checkFinite finds the first value or reward at a trainable token that is not
// a finite number. Estimators call it when their result is not finite.
func (e *Episode[T]) checkFinite() error {
	for k, s := range e.Segments {
		for t, m := range s.Mask {
			if !m {
				continue
			}
			for _, c := range [...]struct {
				name string
				x    T
			}{{"values", s.Values[t]}, {"rewards", s.Rewards[t]}} {
				if !isFinite(float64(c.x)) {
					return fmt.Errorf("trajectory %q, inv_iter %d, response token %d: %s: %v: want a finite number at a trainable token",
						e.ID, len(e.Segments)-1-k, t, c.name, float64(c.x))
				}
			}
		}
	}
	return fmt.Errorf("trajectory %q: the sums of rewards overflow", e.ID)
}
