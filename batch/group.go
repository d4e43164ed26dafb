package batch

import (
	"fmt"
	"math"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/trajectory"
)

// Trajectory is one trajectory of a batch: the rows that it was cut into.
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
	// Success tells whether the task was solved, stated on any of the rows.
	Success    bool
	HasSuccess bool
	// Error is why the trajectory ended early, "" if nothing went wrong.
	Error string
	// BootstrapValue is V(s_T), the value of the state in which a truncated
	// trajectory was left; 0 for a terminated one.
	BootstrapValue float64
}

// Trajectories groups the rows by trajectory id, in the order in which the ids
// first appear; the rows themselves may come in any order.
//
// It fails with a *RowError that names the trajectory when an inv_iter is missing or comes twice,
// when the rows of a trajectory disagree on group, status, score, success or
// error, when a score or bootstrap value is not finite, or when the oldest policy
// version of a row is newer than its newest.
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

// RowError is a fault of one row of a batch.
type RowError struct {
	Row int
	Err error
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %v", e.Row, e.Err) }

func (e *RowError) Unwrap() error { return e.Err }

// wrong is a RowError of trajectory t.
func (t *Trajectory) wrong(row int, format string, args ...any) error {
	return &RowError{row, fmt.Errorf("trajectory %q: %w", chat.Excerpt(t.ID), fmt.Errorf(format, args...))}
}

// place puts row i of the batch into its place in time.
func (t *Trajectory) place(b *Batch, i int) error {
	n, k := len(t.Rows), b.Rows[i].InvIter
	switch {
	case k < 0:
		return t.wrong(i, "inv_iter %d: want 0 or more", k)
	case k >= n:
		// n rows with one number beyond n−1: one below it is missing.
		return t.wrong(i, "inv_iter %d on one of %d rows: want 0 to %d, each once", k, n, n-1)
	case t.Rows[n-1-k] >= 0:
		return t.wrong(i, "inv_iter %d comes twice", k)
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
			return t.wrong(i, "group_id %q on inv_iter %d, %q on inv_iter %d: want one group", chat.Excerpt(t.GroupID), first.InvIter, chat.Excerpt(r.GroupID), r.InvIter)
		}
		if r.Status != "" {
			if err := r.Status.Validate(); err != nil {
				return t.wrong(i, "inv_iter %d: %w", r.InvIter, err)
			}
			if t.Status != "" && t.Status != r.Status {
				return t.wrong(i, "status %q on inv_iter %d, %q on an earlier segment: want one status", r.Status, r.InvIter, t.Status)
			}
			t.Status = r.Status
		}
		if r.HasScore {
			if math.IsNaN(r.Score) || math.IsInf(r.Score, 0) {
				return t.wrong(i, "inv_iter %d: score %v: want a finite number", r.InvIter, r.Score)
			}
			if t.HasScore && t.Score != r.Score {
				return t.wrong(i, "score %v on inv_iter %d, %v on an earlier segment: want one score", r.Score, r.InvIter, t.Score)
			}
			t.Score, t.HasScore = r.Score, true
		}
		if r.HasSuccess {
			if t.HasSuccess && t.Success != r.Success {
				return t.wrong(i, "success %v on inv_iter %d, %v on an earlier segment: want one success", r.Success, r.InvIter, t.Success)
			}
			t.Success, t.HasSuccess = r.Success, true
		}
		if r.Error != "" {
			if t.Error != "" && t.Error != r.Error {
				return t.wrong(i, "error %q on inv_iter %d, %q on an earlier segment: want one error", chat.Excerpt(r.Error), r.InvIter, chat.Excerpt(t.Error))
			}
			t.Error = r.Error
		}
		if r.OldestPolicyVersion > r.PolicyVersion {
			return t.wrong(i, "inv_iter %d: oldest_policy_version %d after policy_version %d: want at most that", r.InvIter, r.OldestPolicyVersion, r.PolicyVersion)
		}
	}
	if t.Status == "" {
		t.Status = trajectory.Finished
	}
	if t.Status == trajectory.Truncated || t.Status == trajectory.ContextOverflow {
		last := t.Rows[len(t.Rows)-1]
		t.BootstrapValue = b.Rows[last].BootstrapValue
		if math.IsNaN(t.BootstrapValue) || math.IsInf(t.BootstrapValue, 0) {
			return t.wrong(last, "bootstrap_value %v: want a finite number", t.BootstrapValue)
		}
	}
	return nil
}
