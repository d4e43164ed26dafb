package batch

import (
	"fmt"

	"github.com/infinirl/infinirl/chat"
)

// PlaceScores turns scores into rewards when the batch has no rewards: the
// score of a trajectory becomes the reward of its last trainable token. A
// batch with rewards is left as it is.
func (b *Batch) PlaceScores() error {
	if b.Rewards != nil {
		return nil
	}
	trajectories, err := b.Trajectories()
	if err != nil {
		return err
	}
	rewards := make([]float32, len(b.TokenIDs))
	for _, t := range trajectories {
		if !t.HasScore {
			return fmt.Errorf("trajectory %q: neither rewards nor a score", chat.Excerpt(t.ID))
		}
		if last := b.lastTrainable(t); last >= 0 {
			rewards[last] = float32(t.Score)
		}
	}
	b.Rewards = rewards
	return nil
}

// lastTrainable is the place of the last trainable token of t, −1 for none.
func (b *Batch) lastTrainable(t Trajectory) int {
	for k := len(t.Rows) - 1; k >= 0; k-- {
		start, end := b.Span(t.Rows[k])
		for i := end - 1; i >= start; i-- {
			if b.LossMask[i] {
				return i
			}
		}
	}
	return -1
}
