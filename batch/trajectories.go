package batch

import (
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/trajectory"
)

// FromTrajectories returns the segments of closed trajectories as rows, in order
// of time, with the columns that a rollout fills: token ids, loss mask, rollout
// log-probs and rewards. It fails on a trajectory that may not be trained on.
func FromTrajectories(trajectories []*trajectory.Trajectory) (*Batch, error) {
	b := &Batch{CuSeqLens: []int64{0}}
	for _, t := range trajectories {
		if !t.Status.Trainable() {
			return nil, fmt.Errorf("trajectory %q: status %s: such a trajectory cannot be trained on", chat.Excerpt(t.ID), t.Status)
		}
		segments, err := t.Rows()
		if err != nil {
			return nil, err
		}
		for i := range segments {
			b.appendSegment(&segments[i])
		}
	}
	return b, nil
}

// appendSegment appends one row. Prompt tokens have zeros in every column.
func (b *Batch) appendSegment(s *trajectory.Row) {
	b.Rows = append(b.Rows, Row{
		TrajectoryID:  s.TrajectoryID,
		GroupID:       s.GroupID,
		InvIter:       s.InvIter,
		PromptLen:     len(s.Prompt),
		Status:        s.Status,
		Score:         s.Score,
		HasScore:      s.HasScore,
		PolicyVersion: s.NewestVersion,
		Condense:      s.Condense,
	})
	b.TokenIDs = append(append(b.TokenIDs, s.Prompt...), s.Response...)
	n := len(b.TokenIDs)
	b.CuSeqLens = append(b.CuSeqLens, int64(n))
	response := n - len(s.Response)
	b.LossMask = append(b.LossMask, make([]bool, n-len(b.LossMask))...)
	copy(b.LossMask[response:], s.Mask)
	b.RolloutLogProbs = append(b.RolloutLogProbs, make([]float32, n-len(b.RolloutLogProbs))...)
	copy(b.RolloutLogProbs[response:], s.LogProbs)
	b.Rewards = append(b.Rewards, make([]float32, n-len(b.Rewards))...)
	copy(b.Rewards[response:], s.Rewards)
}
