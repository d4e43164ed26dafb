package advantage

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/batch"
)

// Compute fills b.Advantages and b.Returns, at trainable tokens and 0
// everywhere else, reusing the columns when they are there.
//
// It fails, naming the trajectory, on rows that do not make whole
// trajectories, on failed and aborted trajectories, on a trajectory with neither
// rewards nor a score, on a NaN or infinity at a trainable token that the
// estimator reads (at other tokens those have no effect), and on credit that
// overflows the 32 bits of its columns. Values that the batch lacks are 0.
func Compute(b *batch.Batch, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	estimator, err := Lookup(cfg.Estimator)
	if err != nil {
		return err
	}
	trajectories, err := b.Trajectories()
	if err != nil {
		return err
	}
	v := openView(b)
	if estimator.Batch {
		v.segments, v.trajectories = make([]Segment[float32], 0, len(b.Rows)), make([]Trajectory[float32], 0, len(trajectories))
	}
	for _, t := range trajectories {
		if err := v.add(t, cfg); err != nil {
			return err
		}
		if !estimator.Batch { // one trajectory at a time, the memory used again
			if err := estimator.Estimate(v.trajectories, cfg); err != nil {
				return err
			}
			v.trajectories, v.segments = v.trajectories[:0], v.segments[:0]
		}
	}
	if estimator.Batch {
		if err := estimator.Estimate(v.trajectories, cfg); err != nil {
			return err
		}
	}
	if cfg.Whiten || estimator.Whiten {
		Whiten(b.Advantages, v.compared())
	}
	return nil
}

// compared is the loss mask without the trajectories that there was nothing to compare
// with: their 0 would neither stay 0 nor say anything about the spread of the others.
func (v *view) compared() []bool {
	mask := v.b.LossMask
	for _, tr := range v.trajectories {
		if !tr.Equal {
			continue
		}
		if &mask[0] == &v.b.LossMask[0] {
			mask = slices.Clone(mask)
		}
		for _, i := range tr.rows {
			start, end := v.b.Span(i)
			clear(mask[start:end])
		}
	}
	return mask
}

// view shows the rows of a batch as trajectories with columns.
type view struct {
	b            *batch.Batch
	zeros        []float32 // as long as the longest row: stands in for absent columns
	segments     []Segment[float32]
	trajectories []Trajectory[float32]
}

// openView sizes the columns to be written; add writes all of their tokens.
func openView(b *batch.Batch) *view {
	n := len(b.TokenIDs)
	if len(b.Advantages) != n {
		b.Advantages = make([]float32, n)
	}
	if len(b.Returns) != n {
		b.Returns = make([]float32, n)
	}
	longest := 0
	for i := range b.Rows {
		start, end := b.Span(i)
		longest = max(longest, end-start)
	}
	return &view{b: b, zeros: make([]float32, longest)}
}

// add opens one trajectory. One without a trainable token gets zeros and is left
// out.
func (v *view) add(t batch.Trajectory, cfg Config) error {
	if !t.Status.Trainable() {
		return fmt.Errorf("trajectory %q: status %s: such a trajectory cannot be trained on", t.ID, t.Status)
	}
	if v.b.Rewards == nil && !t.HasScore {
		return fmt.Errorf("trajectory %q: neither rewards nor a score", t.ID)
	}
	first := len(v.segments)
	for _, i := range t.Rows {
		v.segments = append(v.segments, v.segment(i))
	}
	tr := Trajectory[float32]{
		ID: t.ID, GroupID: t.GroupID, Segments: v.segments[first:len(v.segments):len(v.segments)],
		Bootstrap: t.BootstrapValue, Stated: t.HasScore, StatedScore: t.Score, rows: t.Rows,
	}
	if v.b.Rewards == nil {
		tr.Outcome = t.Score
	}
	if !tr.hasTrainable() {
		cfg.warn("trajectory %q: no trainable token: no sample", t.ID)
		Broadcast(tr, 0)
		return nil
	}
	v.trajectories = append(v.trajectories, tr)
	return nil
}

// segment is the response of row i; the prompt's advantages are cleared here.
func (v *view) segment(i int) Segment[float32] {
	b := v.b
	prompt, end := b.Span(i)
	start := prompt + b.Rows[i].PromptLen
	clear(b.Advantages[prompt:start])
	clear(b.Returns[prompt:start])
	s := Segment[float32]{
		Mask: b.LossMask[start:end], Values: v.zeros[:end-start], Rewards: v.zeros[:end-start],
		Advantages: b.Advantages[start:end], Returns: b.Returns[start:end],
	}
	if b.Values != nil {
		s.Values = b.Values[start:end]
	}
	if b.Rewards != nil {
		s.Rewards = b.Rewards[start:end]
	}
	return s
}
