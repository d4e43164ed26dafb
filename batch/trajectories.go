package batch

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/trajectory"
)

// FromTrajectories returns the segments of closed trajectories as rows, in order
// of time, with the columns that a rollout fills: token ids, loss mask, rollout
// log-probs and rewards. What is not known is absent:
//
//   - RolloutLogProbs is nil unless every row with trainable tokens has log-probs;
//   - Rewards is nil unless some trajectory has step rewards. If some do, the score
//     of those that do not stands on their last trainable token.
//
// It fails on a trajectory that may not be trained on.
func FromTrajectories(trajectories []*trajectory.Trajectory) (*Batch, error) {
	b := &Batch{CuSeqLens: []int64{0}}
	var segments []trajectory.Sample
	for _, t := range trajectories {
		if !t.Status.Trainable() {
			return nil, fmt.Errorf("trajectory %q: status %s: such a trajectory cannot be trained on", chat.Excerpt(t.ID), t.Status)
		}
		rows, err := t.Samples()
		if err != nil {
			return nil, err
		}
		segments = append(segments, rows...)
	}
	for i := range segments {
		b.appendSegment(&segments[i])
	}
	if logProbsKnown(segments) {
		b.RolloutLogProbs = b.responseColumn(segments, func(s *trajectory.Sample) []float32 { return s.LogProbs })
	}
	given := make([]bool, len(segments))
	for i := range segments {
		given[i] = segments[i].Rewards != nil
	}
	if !slices.Contains(given, true) {
		return b, nil
	}
	b.Rewards = b.responseColumn(segments, func(s *trajectory.Sample) []float32 { return s.Rewards })
	whole, err := b.Trajectories()
	if err != nil {
		return nil, err
	}
	if err := b.placeScores(whole, given); err != nil {
		return nil, err
	}
	return b, nil
}

// appendSegment appends one row with its token ids and loss mask.
func (b *Batch) appendSegment(s *trajectory.Sample) {
	b.Rows = append(b.Rows, Row{
		TrajectoryID:        s.TrajectoryID,
		GroupID:             s.GroupID,
		InvIter:             s.InvIter,
		PromptLen:           len(s.Prompt),
		Status:              s.Status,
		Score:               s.Score,
		HasScore:            s.HasScore,
		Success:             s.Success,
		HasSuccess:          s.HasSuccess,
		Error:               s.Error,
		NextIDs:             s.Next,
		PolicyVersion:       s.NewestVersion,
		OldestPolicyVersion: s.OldestVersion,
		Condense:            s.Condense,
	})
	b.TokenIDs = append(append(b.TokenIDs, s.Prompt...), s.Response...)
	b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
	b.LossMask = append(append(b.LossMask, make([]bool, len(s.Prompt))...), s.Mask...)
}

// logProbsKnown tells whether all rows with trainable tokens have log-probs.
func logProbsKnown(segments []trajectory.Sample) bool {
	some := false
	for i := range segments {
		s := &segments[i]
		if s.LogProbs == nil && slices.Contains(s.Mask, true) {
			return false
		}
		some = some || s.LogProbs != nil
	}
	return some
}

// responseColumn lays a column of the responses out over all tokens: 0 on prompts,
// and on the rows that do not have it.
func (b *Batch) responseColumn(segments []trajectory.Sample, of func(*trajectory.Sample) []float32) []float32 {
	column := make([]float32, len(b.TokenIDs))
	for i := range segments {
		start, _ := b.Span(i)
		copy(column[start+b.Rows[i].PromptLen:], of(&segments[i]))
	}
	return column
}
