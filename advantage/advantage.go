// Package advantage assigns credit: from rewards, values and outcomes to one
// advantage and one return a trainable token.
//
// An estimator sees whole trajectories. A trajectory comes as the segments
// that a condenser cut it into. GAE, TurnGAE, DiscountedReturns and the
// group-relative estimators treat them as one sequence of decisions, so that a
// reward in the last segment reaches the decisions of the first; the baselines
// PerSegmentGAE, OutcomeCopy and CompactionRL run segment by segment. What stands
// between two decisions (tool results, prompts, cuts) is no step of the policy: no
// step of the recursion, no decay.
package advantage

import (
	"fmt"
	"unsafe"
)

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

// Trajectory is one trajectory: the segments that it was cut into.
type Trajectory[T Float] struct {
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
	// Equal is written by estimators that compare: nothing in the trajectory's group
	// differs. Its advantages are exactly 0, and it has no part in whitening.
	Equal bool

	rows []int // of the batch, in the order of time
}

// Score is the trajectory's result as a whole, which group-relative estimators
// compare: the score if one was given, else the sum of the rewards.
func (tr *Trajectory[T]) Score() float64 {
	if tr.Stated {
		return tr.StatedScore
	}
	return tr.totalReward()
}

// Trainable returns the number of tokens that the policy sampled.
func (tr *Trajectory[T]) Trainable() int {
	n := 0
	for _, s := range tr.Segments {
		for start, end := range spans(s.Mask) {
			n += end - start
		}
	}
	return n
}

func (tr *Trajectory[T]) hasTrainable() bool {
	for _, s := range tr.Segments {
		for range spans(s.Mask) {
			return true
		}
	}
	return false
}

// totalReward sums the rewards; a NaN or infinity counts at trainable tokens
// only.
func (tr *Trajectory[T]) totalReward() float64 {
	total := tr.Outcome
	for _, s := range tr.Segments {
		for t, r := range s.Rewards {
			if r != 0 && (s.Mask[t] || isFinite(float64(r))) {
				total += float64(r)
			}
		}
	}
	return total
}

func isFinite(x float64) bool { return x-x == 0 }

// checkInputs finds the first value or reward at a trainable token that is not a
// finite number.
func (tr *Trajectory[T]) checkInputs() error {
	for k, s := range tr.Segments {
		for t, m := range s.Mask {
			switch {
			case !m:
			case !isFinite(float64(s.Values[t])):
				return tr.at(k, t, "values: %v: want a finite number at a trainable token", s.Values[t])
			case !isFinite(float64(s.Rewards[t])):
				return tr.at(k, t, "rewards: %v: want a finite number at a trainable token", s.Rewards[t])
			}
		}
	}
	return nil
}

// badSum is the error of a score or sum of rewards that is not finite.
func (tr *Trajectory[T]) badSum() error {
	if err := tr.checkInputs(); err != nil {
		return err
	}
	return tr.sumsOverflow()
}

func (tr *Trajectory[T]) sumsOverflow() error {
	return fmt.Errorf("trajectory %q: the sums of rewards overflow", tr.ID)
}

// at is an error that names token t of segment k.
func (tr *Trajectory[T]) at(k, t int, format string, args ...any) error {
	return fmt.Errorf("trajectory %q, inv_iter %d, response token %d: %w", tr.ID, len(tr.Segments)-1-k, t, fmt.Errorf(format, args...))
}

// overflow is the error of a result that is not finite, in segment from or later: of
// a bad input, or of the first token in the order of the scan, backwards in time,
// whose credit is too large for its column. It is nil if there is no such token.
func (tr *Trajectory[T]) overflow(from int) error {
	if err := tr.checkInputs(); err != nil {
		return err
	}
	for k := len(tr.Segments) - 1; k >= from; k-- {
		s := tr.Segments[k]
		for t := len(s.Mask) - 1; t >= 0; t-- {
			if !s.Mask[t] {
				continue
			}
			for _, c := range [...]struct {
				name string
				x    T
			}{{"advantages", s.Advantages[t]}, {"returns", s.Returns[t]}} {
				if !isFinite(float64(c.x)) {
					return tr.at(k, t, "%s: %v: rewards, values or scores are too large for %d bits", c.name, c.x, 8*unsafe.Sizeof(c.x))
				}
			}
		}
	}
	return nil
}
