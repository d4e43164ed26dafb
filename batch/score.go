package batch

import (
	"fmt"
	"math"

	"github.com/infinirl/infinirl/chat"
)

// PlaceScores turns scores into rewards when the batch has no rewards: the
// score of a trajectory becomes the reward of its last trainable token. A
// batch with rewards is left as it is: there they stand already, where they stand
// for rewards.
func (b *Batch) PlaceScores() error {
	if b.Rewards != nil {
		return nil
	}
	trajectories, err := b.Trajectories()
	if err != nil {
		return err
	}
	for _, t := range trajectories {
		if !t.HasScore {
			return fmt.Errorf("trajectory %q: neither rewards nor a score", chat.Excerpt(t.ID))
		}
	}
	return b.addRewards(trajectories)
}

// addRewards makes the rewards column of a batch that has none: scores where there
// are scores, else zeros.
func (b *Batch) addRewards(trajectories []Trajectory) error {
	b.Rewards = make([]float32, len(b.TokenIDs))
	err := b.placeScores(trajectories, nil)
	if err != nil {
		b.Rewards = nil
	}
	return err
}

// placeScores gives those trajectories their score as reward of which no row gave
// rewards, as given tells of every row (nil: none did). One without a score, or
// without a trainable token, keeps its zeros.
func (b *Batch) placeScores(trajectories []Trajectory, given []bool) error {
	for i := range trajectories {
		t := &trajectories[i]
		rewarded := false
		for _, row := range t.Rows {
			rewarded = rewarded || given != nil && given[row]
		}
		if rewarded || !t.HasScore {
			continue
		}
		row, token, ok := b.LastTrainable(*t)
		if !ok {
			continue
		}
		reward := float32(t.Score)
		if math.IsInf(float64(reward), 0) {
			return t.wrong(row, "score %v: does not fit the 32 bits of a reward", t.Score)
		}
		b.Rewards[token] = reward
	}
	return nil
}

// LastTrainable is the last token of t that the loss mask keeps, and its row; ok
// tells whether there is one. It is where a score goes that stands for rewards.
func (b *Batch) LastTrainable(t Trajectory) (row, token int, ok bool) {
	for k := len(t.Rows) - 1; k >= 0; k-- {
		start, end := b.Span(t.Rows[k])
		for i := end - 1; i >= start; i-- {
			if b.LossMask[i] {
				return t.Rows[k], i, true
			}
		}
	}
	return 0, 0, false
}
