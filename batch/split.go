package batch

import (
	"fmt"
	"slices"
)

// Steps lists the rows of each optimizer step: perStep trajectories a step, in
// the given order, the last step possibly smaller. A step has whole
// trajectories, so that its size does not depend on how often they were cut.
func Steps(trajectories []Trajectory, perStep int) [][]int {
	var steps [][]int
	for chunk := range slices.Chunk(trajectories, perStep) {
		var rows []int
		for _, t := range chunk {
			rows = append(rows, t.Rows...)
		}
		steps = append(steps, rows)
	}
	return steps
}

// MicroBatches splits the rows of one step into parts of at most maxTokens
// tokens, nearly equal and as few as possible, to be packed without padding.
// It fails, naming the segment, on a row that is longer.
func (b *Batch) MicroBatches(rows []int, maxTokens int) ([][]int, error) {
	sizes := make([]int, len(rows))
	for j, i := range rows {
		start, end := b.Span(i)
		if sizes[j] = end - start; sizes[j] > maxTokens {
			return nil, fmt.Errorf("%s has %d tokens: more than the %d of a micro-batch", b.Describe(i), sizes[j], maxTokens)
		}
	}
	parts, err := BalanceAtMost(sizes, maxTokens)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		for j := range part {
			part[j] = rows[part[j]]
		}
	}
	return parts, nil
}

// Part is the share of one data-parallel rank.
type Part struct {
	*Batch
	// Rows are the row numbers in the batch that was split; the rows of Batch
	// behind them are padding.
	Rows []int
}

// Split deals whole trajectories out to ranks, balanced by tokens, and fills
// every part up to the same number of rows with padding: rows of one token
// that is not trainable, each a trajectory and a group of its own. Padding
// weighs nothing under any aggregation; compute loss weights before splitting
// all the same, and carry them along with Gather.
func (b *Batch) Split(ranks int) ([]Part, error) {
	trajectories, err := b.Trajectories()
	if err != nil {
		return nil, err
	}
	if ranks < 1 || ranks > len(trajectories) {
		return nil, fmt.Errorf("split %d trajectories for %d ranks: want 1 to %d ranks", len(trajectories), ranks, len(trajectories))
	}
	sizes, ids := make([]int, len(trajectories)), map[string]bool{}
	for t := range trajectories {
		ids[trajectories[t].ID] = true
		for _, i := range trajectories[t].Rows {
			start, end := b.Span(i)
			sizes[t] += end - start
		}
	}
	parts, most := make([]Part, ranks), 0
	for rank, share := range Balance(sizes, ranks) {
		for _, t := range share {
			parts[rank].Rows = append(parts[rank].Rows, trajectories[t].Rows...)
		}
		slices.Sort(parts[rank].Rows)
		parts[rank].Batch = b.Select(parts[rank].Rows)
		most = max(most, len(parts[rank].Rows))
	}
	next := 0
	for rank := range parts {
		for len(parts[rank].Batch.Rows) < most {
			id := fmt.Sprintf("padding-%d", next)
			if next++; !ids[id] {
				parts[rank].pad(id)
			}
		}
	}
	return parts, nil
}

// pad adds one inert row.
func (b *Batch) pad(id string) {
	b.Rows = append(b.Rows, Row{TrajectoryID: id, GroupID: id})
	b.TokenIDs, b.LossMask = append(b.TokenIDs, 0), append(b.LossMask, false)
	for _, c := range b.floatColumns() {
		if *c.data != nil {
			*c.data = append(*c.data, 0)
		}
	}
	b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
}
