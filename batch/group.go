package batch

import (
	"fmt"
	"math"

	"github.com/infinirl/infinirl/trajectory"
)

// Trajectory is one episode of a batch: the rows that it was cut into.
type Trajectory struct {
	ID      string
	GroupID string
	Status  trajectory.Status
	// Rows are the row numbers in the order of time: the first segment
	// (inv_iter N−1) first, the last segment (inv_iter 0) at the end.
	Rows []int
	// Score is the outcome, stated on any of the rows.
	Score    float64
	HasScore bool
	// BootstrapValue is V(s_T), the value of the state in which a truncated
	// trajectory was left; 0 for a terminated one.
	BootstrapValue float64
}

// Trajectories groups the rows by trajectory id, in the order in which the ids
// first appear; the rows themselves may come in any order.
//
// It fails, naming the trajectory, when an inv_iter is missing or comes twice,
// when the rows of a trajectory disagree on group, status or score, or when a
// score or bootstrap value is not finite.
func (b *Batch) Trajectories() ([]Trajectory, error) {
	// Count the rows of each id first, so that all row lists share one array.
	var (
		out   []Trajectory
		index = make(map[string]int)
		of    = make([]int, len(b.Rows)) // trajectory of each row
		count []int
	)
	for i := range b.Rows {
		id := b.Rows[i].TrajectoryID
		if i > 0 && id == b.Rows[i-1].TrajectoryID { // rows mostly come together
			of[i] = of[i-1]
			count[of[i]]++
			continue
		}
		t, seen := index[id]
		if !seen {
			t = len(out)
			index[id] = t
			out = append(out, Trajectory{ID: id})
			count = append(count, 0)
		}
		of[i] = t
		count[t]++
	}
	rows := make([]int, len(b.Rows))
	for t, at := 0, 0; t < len(out); t++ {
		out[t].Rows = rows[at : at+count[t] : at+count[t]]
		at += count[t]
		for i := range out[t].Rows {
			out[t].Rows[i] = -1
		}
	}
	for i := range b.Rows {
		if err := out[of[i]].place(b, i); err != nil {
			return nil, err
		}
	}
	for t := range out {
		if err := out[t].close(b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// place puts row i of the batch into its place in time.
func (t *Trajectory) place(b *Batch, i int) error {
	n, k := len(t.Rows), b.Rows[i].InvIter
	switch {
	case k < 0:
		return fmt.Errorf("trajectory %q: row %d: inv_iter %d: want 0 or more", t.ID, i, k)
	case k >= n:
		// n rows with one number beyond n−1: one below it is missing.
		return fmt.Errorf("trajectory %q: inv_iter %d on one of %d rows: want 0 to %d, each once", t.ID, k, n, n-1)
	case t.Rows[n-1-k] >= 0:
		return fmt.Errorf("trajectory %q: inv_iter %d on rows %d and %d: want it once", t.ID, k, t.Rows[n-1-k], i)
	}
	t.Rows[n-1-k] = i
	return nil
}

// close collects what the rows say about the whole trajectory.
func (t *Trajectory) close(b *Batch) error {
	first := &b.Rows[t.Rows[0]]
	t.GroupID = first.GroupID
	for _, i := range t.Rows {
		r := &b.Rows[i]
		if r.GroupID != t.GroupID {
			return fmt.Errorf("trajectory %q: group_id %q on inv_iter %d, %q on inv_iter %d: want one group", t.ID, t.GroupID, first.InvIter, r.GroupID, r.InvIter)
		}
		if r.Status != "" {
			if err := r.Status.Validate(); err != nil {
				return fmt.Errorf("trajectory %q: inv_iter %d: %w", t.ID, r.InvIter, err)
			}
			if t.Status != "" && t.Status != r.Status {
				return fmt.Errorf("trajectory %q: status %q on inv_iter %d, %q on an earlier segment: want one status", t.ID, r.Status, r.InvIter, t.Status)
			}
			t.Status = r.Status
		}
		if r.HasScore {
			if math.IsNaN(r.Score) || math.IsInf(r.Score, 0) {
				return fmt.Errorf("trajectory %q: inv_iter %d: score %v: want a finite number", t.ID, r.InvIter, r.Score)
			}
			if t.HasScore && t.Score != r.Score {
				return fmt.Errorf("trajectory %q: score %v on inv_iter %d, %v on an earlier segment: want one score", t.ID, r.Score, r.InvIter, t.Score)
			}
			t.Score, t.HasScore = r.Score, true
		}
	}
	if t.Status == "" {
		t.Status = trajectory.Finished
	}
	if t.Status == trajectory.Truncated || t.Status == trajectory.ContextOverflow {
		last := &b.Rows[t.Rows[len(t.Rows)-1]]
		t.BootstrapValue = last.BootstrapValue
		if math.IsNaN(t.BootstrapValue) || math.IsInf(t.BootstrapValue, 0) {
			return fmt.Errorf("trajectory %q: bootstrap_value %v: want a finite number", t.ID, t.BootstrapValue)
		}
	}
	return nil
}
