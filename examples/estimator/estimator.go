// Package estimator is an example of an own advantage estimator: the leave-one-out
// baseline of RLOO, and less of it the more cuts lie between a segment and the end.
// What was done many windows ago had less to do with how the trajectory came out.
package estimator

import (
	"errors"
	"fmt"
	"math"

	"github.com/infinirl/infinirl/advantage"
)

// Name is the estimator's name in configurations and on the command line.
const Name = "rloo-segment"

var _ = advantage.Register(advantage.Estimator{
	Name:     Name,
	Summary:  "score − mean of the others in the group, times gamma for each cut before the end",
	Batch:    true, // a trajectory is compared with others
	Estimate: estimate,
})

// estimate writes, at the trainable tokens of the segment with k segments after it,
//
//	A = γ^k · (s − mean of the other scores of the group)
//
// It sees whole trajectories, so that the score reaches every segment.
func estimate(trajectories []advantage.Trajectory[float32], cfg advantage.Config) error {
	groups := map[string][]int{}
	for i, tr := range trajectories {
		if tr.GroupID == "" {
			return fmt.Errorf("trajectory %q: no group_id: its score is compared with those of its group", tr.ID)
		}
		if s := tr.Score(); math.Abs(s) > math.MaxFloat32/4 || s != s { // differences must fit the columns
			return fmt.Errorf("trajectory %q: score %v: want a finite number that 32 bits hold", tr.ID, s)
		}
		groups[tr.GroupID] = append(groups[tr.GroupID], i)
	}
	if n := len(trajectories); n > 0 && len(groups) == n {
		return errors.New("estimator " + Name + ": every group has one trajectory, and nothing to compare it with")
	}
	for _, members := range groups {
		scores := make([]float64, len(members))
		for k, i := range members {
			scores[k] = trajectories[i].Score()
		}
		for k, a := range advantage.RLOO(scores) {
			segments := trajectories[members[k]].Segments
			for n := len(segments) - 1; n >= 0; n-- { // the last has no cut after it
				write(segments[n], float32(a))
				a *= cfg.Gamma
			}
		}
	}
	return nil
}

// write fills both columns: 0 where the policy did not act.
func write(s advantage.Segment[float32], a float32) {
	for t, sampled := range s.Mask {
		s.Advantages[t], s.Returns[t] = 0, 0
		if sampled {
			s.Advantages[t], s.Returns[t] = a, a
		}
	}
}
