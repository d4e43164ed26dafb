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

// placeScores writes the rewards that ScoreRewards tells.
func (b *Batch) placeScores(trajectories []Trajectory, given []bool) error {
	rewards, err := b.ScoreRewards(trajectories, given)
	for _, r := range rewards {
		b.Rewards[r.Token] = r.Reward
	}
	return err
}

// TokenReward is the reward of a token of a batch.
type TokenReward struct {
	Token  int64
	Reward float32
}

// ScoreRewards are the rewards that scores stand for: the score of each trajectory
// of which no row gave rewards, on its last trainable token. given tells the rows
// that did; nil means none. A trajectory without a score, or without a trainable
// token, has none. It fails with a *RowError on a score beyond 32 bits.
func (b *Batch) ScoreRewards(trajectories []Trajectory, given []bool) ([]TokenReward, error) {
	var list []TokenReward
	for i := range trajectories {
		t := &trajectories[i]
		rewarded := false
		for _, row := range t.Rows {
			rewarded = rewarded || given != nil && given[row]
		}
		if rewarded || !t.HasScore {
			continue
		}
		row, token := b.lastTrainable(t)
		if row < 0 {
			continue
		}
		reward := float32(t.Score)
		if math.IsInf(float64(reward), 0) {
			return nil, t.wrong(row, "score %v: does not fit the 32 bits of a reward", t.Score)
		}
		list = append(list, TokenReward{int64(token), reward})
	}
	return list, nil
}

// lastTrainable is the last token of t that the loss mask keeps, and its row; −1 if
// there is none.
func (b *Batch) lastTrainable(t *Trajectory) (row, token int) {
	for k := len(t.Rows) - 1; k >= 0; k-- {
		start, end := b.Span(t.Rows[k])
		for i := end - 1; i >= start; i-- {
			if b.LossMask[i] {
				return t.Rows[k], i
			}
		}
	}
	return -1, -1
}
