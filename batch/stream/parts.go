package stream

import (
	"context"
	"errors"
	"hash/maphash"
	"io"

	"github.com/infinirl/infinirl/batch"
)

// ErrUnsorted tells that the rows of a trajectory do not follow one another, as
// far as a stream can tell: the whole batch must be read.
var ErrUnsorted = errors.New("rows are not sorted by trajectory")

// Parts hands the batch to each in parts of whole trajectories, in order, as it is
// read. It fails with ErrUnsorted if that cannot be done, perhaps after some parts.
// A part may lack a column that another has: rewards, which its scores stand for
// then, or any other if it has no trainable token. Parts of a file in columns
// are views of it, to be read only, and come without advantages and returns.
func (in *Reader) Parts(ctx context.Context, each func(*batch.Batch) error) error {
	if in.format != JSONLines {
		return in.columns(each)
	}
	s := lineSplitter{seen: map[uint64]bool{}, seed: maphash.MakeSeed()}
	if err := in.decodeLines(ctx, func(d *batch.LineDecoder) error {
		s.pending.Append(d)
		return s.split(false, each)
	}); err != nil {
		return err
	}
	if !s.some {
		_, err := s.pending.Batch() // no rows, or only the rows of the last trajectory
		if err != nil {
			return in.bad(err)
		}
	}
	if err := s.split(true, each); err != nil {
		return err
	}
	return in.bad(s.pending.Missing())
}

// lineSplitter cuts the stream of rows behind whole trajectories.
type lineSplitter struct {
	pending batch.LineDecoder
	seen    map[uint64]bool // hashes of the ids handed on
	seed    maphash.Seed
	some    bool
}

// split hands on all pending rows but those of the last trajectory, which may go
// on; at the end, those too.
func (s *lineSplitter) split(end bool, each func(*batch.Batch) error) error {
	n := s.pending.Rows()
	for k := n; !end && n > 0 && s.pending.Row(n-1).TrajectoryID == s.pending.Row(k-1).TrajectoryID; n-- {
		if n == 1 {
			return nil
		}
	}
	if n == 0 {
		return nil
	}
	head := s.pending.Cut(n)
	for i := range n {
		id := head.Row(i).TrajectoryID
		if i > 0 && id == head.Row(i-1).TrajectoryID {
			continue
		}
		hash := maphash.String(s.seed, id)
		if s.seen[hash] {
			return ErrUnsorted
		}
		s.seen[hash] = true
	}
	b, err := head.Batch()
	if err != nil {
		return ErrUnsorted // or wrong: reading all of it will tell
	}
	s.some = true
	return each(b)
}

// partTokens is the size of the parts of a batch in columns.
const partTokens = 1 << 18

// columns maps a safetensors file and hands on views of it, which last
// until the input is closed.
func (in *Reader) columns(each func(*batch.Batch) error) error {
	file, err := in.whole()
	if err != nil {
		return err
	}
	if in.mapped, err = mapFile(file); err != nil {
		return err
	}
	b, err := batch.MapSafetensors(in.mapped.data)
	if err != nil {
		return in.bad(err)
	}
	b.Advantages, b.Returns = nil, nil // the mapped ones cannot be written to
	seen := map[string]bool{}
	for i := range b.Rows {
		if id := b.Rows[i].TrajectoryID; i == 0 || id != b.Rows[i-1].TrajectoryID {
			if seen[id] {
				return ErrUnsorted
			}
			seen[id] = true
		}
	}
	for from := 0; from < len(b.Rows); {
		to := from + 1
		for to < len(b.Rows) && (b.CuSeqLens[to]-b.CuSeqLens[from] < partTokens || b.Rows[to].TrajectoryID == b.Rows[to-1].TrajectoryID) {
			to++
		}
		if err := each(b.Slice(from, to)); err != nil {
			return err
		}
		in.mapped.release()
		from = to
	}
	return nil
}

// sliced hands on slices of a batch in memory, for the work that can be shared.
func sliced(b *batch.Batch) func() (*batch.Batch, error) {
	from := 0
	return func() (*batch.Batch, error) {
		if from == len(b.Rows) {
			return nil, io.EOF
		}
		to := from + 1
		for to < len(b.Rows) && b.CuSeqLens[to]-b.CuSeqLens[from] < partTokens {
			to++
		}
		part := b.Slice(from, to)
		from = to
		return part, nil
	}
}
