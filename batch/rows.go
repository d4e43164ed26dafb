package batch

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
)

// Select returns a new batch of the given rows, in that order, with copies of
// all columns. A row may be asked for more than once.
func (b *Batch) Select(rows []int) *Batch {
	out := &Batch{Rows: make([]Row, len(rows)), CuSeqLens: make([]int64, len(rows)+1)}
	for j, i := range rows {
		out.Rows[j] = b.Rows[i]
		out.CuSeqLens[j+1] = out.CuSeqLens[j] + b.CuSeqLens[i+1] - b.CuSeqLens[i]
	}
	out.TokenIDs = Gather(b, b.TokenIDs, rows)
	out.LossMask = Gather(b, b.LossMask, rows)
	from, to := b.Columns(), out.Columns()
	for c := range from {
		*to[c].Data = Gather(b, *from[c].Data, rows)
	}
	return out
}

// Keep drops all rows but those given, in ascending order, without further
// memory: the others move up in the columns.
func (b *Batch) Keep(rows []int) {
	lengths := make([]int64, len(rows))
	for j, i := range rows {
		lengths[j] = b.CuSeqLens[i+1] - b.CuSeqLens[i]
	}
	b.TokenIDs = keep(b, b.TokenIDs, rows)
	b.LossMask = keep(b, b.LossMask, rows)
	for _, c := range b.Columns() {
		*c.Data = keep(b, *c.Data, rows)
	}
	for j, i := range rows {
		b.Rows[j] = b.Rows[i]
	}
	clear(b.Rows[len(rows):])
	b.Rows, b.CuSeqLens = b.Rows[:len(rows)], b.CuSeqLens[:len(rows)+1]
	for j, n := range lengths {
		b.CuSeqLens[j+1] = b.CuSeqLens[j] + n
	}
}

func keep[T any](b *Batch, column []T, rows []int) []T {
	if column == nil {
		return nil
	}
	n := 0
	for _, i := range rows {
		start, end := b.Span(i)
		n += copy(column[n:], column[start:end])
	}
	return column[:n]
}

// Slice returns the rows [from, to) as a batch that shares the columns of b,
// with offsets of its own.
func (b *Batch) Slice(from, to int) *Batch {
	start, end := b.CuSeqLens[from], b.CuSeqLens[to]
	out := &Batch{
		Rows: b.Rows[from:to:to], CuSeqLens: make([]int64, to-from+1),
		TokenIDs: b.TokenIDs[start:end:end], LossMask: b.LossMask[start:end:end],
	}
	for i := range out.CuSeqLens {
		out.CuSeqLens[i] = b.CuSeqLens[from+i] - start
	}
	mine, theirs := out.Columns(), b.Columns()
	for c := range mine {
		if *theirs[c].Data != nil {
			*mine[c].Data = (*theirs[c].Data)[start:end:end]
		}
	}
	return out
}

// Gather returns the entries of a token column of b at the given rows,
// concatenated; nil for an absent column. It carries columns that are not part
// of the batch (loss weights) along with a Select.
func Gather[T any](b *Batch, column []T, rows []int) []T {
	if column == nil {
		return nil
	}
	n := 0
	for _, i := range rows {
		start, end := b.Span(i)
		n += end - start
	}
	out := make([]T, 0, n)
	for _, i := range rows {
		start, end := b.Span(i)
		out = append(out, column[start:end]...)
	}
	return out
}

// Append adds the rows of other behind those of b. Both must have the same
// columns, unless b has no rows yet: then b takes the columns of other. If only one
// of them has rewards, the scores of the other become rewards (see PlaceScores):
// both must have whole trajectories then.
func (b *Batch) Append(other *Batch) error {
	if len(b.Rows) > 0 && len(other.Rows) > 0 && (b.Rewards == nil) != (other.Rewards == nil) {
		without := b
		if other.Rewards == nil {
			copied := *other
			other, without = &copied, &copied
		}
		trajectories, err := without.Trajectories()
		if err == nil {
			err = without.addRewards(trajectories)
		}
		if err != nil {
			return fmt.Errorf("append to a batch: column rewards is in one batch and not in the other: scores as rewards: %w", err)
		}
	}
	if len(b.Rows) > 0 && len(other.Rows) > 0 {
		mine, theirs := b.Columns(), other.Columns()
		for c := range mine {
			if (*mine[c].Data == nil) != (*theirs[c].Data == nil) {
				return fmt.Errorf("append to a batch: column %s is in one batch and not in the other", mine[c].Name)
			}
		}
	}
	if len(b.CuSeqLens) == 0 {
		b.CuSeqLens = append(b.CuSeqLens, 0)
	}
	base := b.CuSeqLens[len(b.CuSeqLens)-1]
	for i := range other.Rows {
		b.Rows = append(b.Rows, other.Rows[i])
		b.CuSeqLens = append(b.CuSeqLens, base+other.CuSeqLens[i+1]-other.CuSeqLens[0])
	}
	b.TokenIDs = append(b.TokenIDs, other.TokenIDs...)
	b.LossMask = append(b.LossMask, other.LossMask...)
	mine, theirs := b.Columns(), other.Columns()
	for c := range mine {
		*mine[c].Data = append(*mine[c].Data, *theirs[c].Data...)
	}
	return nil
}

// Trainable returns the number of tokens of row i that the loss mask keeps.
func (b *Batch) Trainable(i int) int {
	start, end := b.Span(i)
	n := 0
	for _, m := range b.LossMask[start:end] {
		if m {
			n++
		}
	}
	return n
}

// HasTrainable tells whether the loss mask keeps a token of row i.
func (b *Batch) HasTrainable(i int) bool {
	start, end := b.Span(i)
	return slices.Contains(b.LossMask[start:end], true)
}

// Describe names row i in an error: its trajectory and segment.
func (b *Batch) Describe(i int) string {
	return fmt.Sprintf("trajectory %q, inv_iter %d", chat.Excerpt(b.Rows[i].TrajectoryID), b.Rows[i].InvIter)
}
