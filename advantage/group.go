package advantage

import (
	"fmt"
	"math"
)

// Group-relative estimators: one vote a trajectory, however often it was cut.
// The score of a trajectory is compared with the scores of its group, and the
// result written to every trainable token of every segment.

var (
	_ = Register(Estimator{
		Name: "grpo", Summary: "(score − group mean) / group std, a vote a trajectory", Batch: true,
		Estimate: groupRelative("grpo", GRPO),
	})
	_ = Register(Estimator{
		Name: "dr-grpo", Summary: "score − group mean", Batch: true,
		Estimate: groupRelative("dr-grpo", DrGRPO),
	})
	_ = Register(Estimator{
		Name: "rloo", Summary: "score − mean of the others in the group", Batch: true,
		Estimate: groupRelative("rloo", RLOO),
	})
)

// GRPO turns the scores of one group into advantages:
//
//	A_i = (s_i − mean) / (std + 1e-6),   std unbiased
//
// Shao et al., arXiv 2402.03300, §4.1.2. A group of one, or of equal scores,
// gets exactly 0; scores whose squares overflow get NaN.
func GRPO(scores []float64) []float64 {
	out := DrGRPO(scores)
	var squares float64
	for _, d := range out {
		squares += d * d
	}
	std := math.Sqrt(squares / math.Max(1, float64(len(scores)-1)))
	for i := range out {
		if out[i] /= std + 1e-6; math.IsInf(std, 0) { // no 0 from an overflow
			out[i] = math.NaN()
		}
	}
	return out
}

// DrGRPO is GRPO without the division by the standard deviation:
//
//	A_i = s_i − mean
//
// Liu et al., arXiv 2503.20783. A group of one, or of equal scores, gets
// exactly 0.
func DrGRPO(scores []float64) []float64 {
	out := make([]float64, len(scores))
	if allEqual(scores) { // the mean may be off by one rounding: no noise from it
		return out
	}
	var mean float64
	for _, s := range scores {
		mean += s
	}
	mean /= float64(len(scores))
	for i, s := range scores {
		out[i] = s - mean
	}
	return out
}

// RLOO compares each score with the mean of the others:
//
//	A_i = s_i − mean_{j≠i} s_j = (s_i − mean) · n/(n−1)
//
// Ahmadian et al., arXiv 2402.14740. A group of one, or of equal scores, gets
// exactly 0.
func RLOO(scores []float64) []float64 {
	out := DrGRPO(scores)
	if n := float64(len(scores)); n > 1 {
		for i := range out {
			out[i] *= n / (n - 1)
		}
	}
	return out
}

func allEqual(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return true
}

// groupRelative gathers the scores of each group and writes the advantages to all
// tokens. Groups may be of any size and come in any order; if each has one member
// only, nothing can be compared, which is an error.
func groupRelative(name string, advantages func(scores []float64) []float64) func([]Trajectory[float32], Config) error {
	return func(trajectories []Trajectory[float32], _ Config) error {
		groups := map[string][]int{}
		for i, tr := range trajectories {
			if tr.GroupID == "" {
				return fmt.Errorf("trajectory %q: no group_id: its score is compared with those of its group", tr.ID)
			}
			if !isFinite(tr.Score()) {
				return tr.badSum()
			}
			groups[tr.GroupID] = append(groups[tr.GroupID], i)
		}
		if n := len(trajectories); n > 0 && len(groups) == n {
			return fmt.Errorf("estimator %s: each of %d groups has one trajectory, and nothing to be compared with: want a common group_id on the trajectories of one task", name, n)
		}
		for _, members := range groups {
			scores := make([]float64, len(members))
			for j, i := range members {
				scores[j] = trajectories[i].Score()
			}
			for j, a := range advantages(scores) {
				tr := trajectories[members[j]]
				trajectories[members[j]].Equal = allEqual(scores)
				if Broadcast(tr, a); !isFinite(float64(float32(a))) {
					return tr.overflow(0)
				}
			}
		}
		return nil
	}
}

// Broadcast writes a to advantage and return of every trainable token.
func Broadcast[T Float](tr Trajectory[T], a float64) {
	for _, s := range tr.Segments {
		for t, m := range s.Mask {
			if m {
				s.Advantages[t], s.Returns[t] = T(a), T(a)
			} else {
				s.Advantages[t], s.Returns[t] = 0, 0
			}
		}
	}
}
