package stream

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/safetensors"
)

// columnSpool gathers the parts of a batch in files, one a column, so that a
// batch that comes row by row can be written column by column in little memory.
// Only the row columns are kept in memory.
type columnSpool struct {
	to      io.Writer
	layout  batch.Layout
	rows    []batch.Row
	cu      []int64
	columns []spooledColumn // ids, mask, floats
	// scores are those that become rewards if some part has rewards.
	scores    []batch.TokenReward
	scoresErr error
	rewards   int // number of their column
}

// The first columns; the float columns follow, in the order of batch.Columns.
const (
	columnIDs = iota
	columnMask
	firstFloats
)

type spooledColumn struct {
	file *os.File
	w    *bufio.Writer
	n    int64 // entries
}

func newColumnSpool(to io.Writer, layout batch.Layout) *columnSpool {
	s := &columnSpool{to: to, layout: layout, cu: []int64{0}}
	b := &batch.Batch{}
	for k, c := range b.Columns() {
		if c.Data == &b.Rewards {
			s.rewards = firstFloats + k
		}
	}
	s.columns = make([]spooledColumn, firstFloats+len(b.Columns()))
	return s
}

// close closes the files, which have no names, so that they are gone then.
func (s *columnSpool) close() {
	for _, c := range s.columns {
		if c.file != nil {
			c.file.Close()
		}
	}
}

// add appends the rows of a part.
func (s *columnSpool) add(b *batch.Batch) error {
	before := s.cu[len(s.cu)-1]
	for i := range b.Rows {
		s.rows = append(s.rows, b.Rows[i])
		s.cu = append(s.cu, before+b.CuSeqLens[i+1])
	}
	after := s.cu[len(s.cu)-1]
	if err := s.write(columnIDs, memory(b.TokenIDs), after); err != nil {
		return err
	}
	if err := s.write(columnMask, memory(b.LossMask), after); err != nil {
		return err
	}
	if b.Rewards == nil {
		s.keepScores(b, before)
	}
	for k, c := range b.Columns() {
		if *c.Data == nil {
			continue
		}
		if err := s.pad(firstFloats+k, before); err != nil {
			return err
		}
		if err := s.write(firstFloats+k, memory(*c.Data), after); err != nil {
			return err
		}
	}
	return nil
}

// keepScores remembers the scores of a part without rewards, whose first token is
// token before.
func (s *columnSpool) keepScores(b *batch.Batch, before int64) {
	trajectories, err := b.Trajectories()
	var scores []batch.TokenReward
	if err == nil {
		scores, err = b.ScoreRewards(trajectories, nil)
	}
	if bad := (*batch.RowError)(nil); errors.As(err, &bad) {
		err = bad.Err // the number of the row is that in the part
	}
	if s.scoresErr == nil {
		s.scoresErr = err
	}
	slices.SortFunc(scores, func(a, b batch.TokenReward) int { return cmp.Compare(a.Token, b.Token) })
	for _, r := range scores {
		s.scores = append(s.scores, batch.TokenReward{Token: before + r.Token, Reward: r.Reward})
	}
}

// write appends data to a column, which has n entries then.
func (s *columnSpool) write(column int, data []byte, n int64) error {
	c := &s.columns[column]
	if c.file == nil {
		f, err := atomicfile.Nameless()
		if err != nil {
			return err
		}
		c.file, c.w = f, bufio.NewWriterSize(f, 1<<18)
	}
	c.n = n
	_, err := c.w.Write(data)
	return err
}

// pad fills a float column up to n entries: the parts before had none. They are
// zeros, but for rewards that scores stand for.
func (s *columnSpool) pad(column int, n int64) error {
	if s.columns[column].n == n {
		return nil
	}
	if column == s.rewards && s.scoresErr != nil {
		return s.scoresErr
	}
	fill := make([]float32, min(1<<14, n-s.columns[column].n))
	for at := s.columns[column].n; at < n; at = s.columns[column].n {
		k := min(int64(len(fill)), n-at)
		clear(fill)
		for column == s.rewards && len(s.scores) > 0 && s.scores[0].Token < at+k {
			fill[s.scores[0].Token-at] = s.scores[0].Reward
			s.scores = s.scores[1:]
		}
		if err := s.write(column, memory(fill[:k]), at+k); err != nil {
			return err
		}
	}
	return nil
}

// finish writes all rows as one safetensors file.
func (s *columnSpool) finish() error {
	b := &batch.Batch{Rows: s.rows, CuSeqLens: s.cu}
	n := s.cu[len(s.cu)-1]
	maps := make([]*mappedFile, len(s.columns))
	defer func() {
		for _, m := range maps {
			if m != nil {
				m.close()
			}
		}
	}()
	floats := b.Columns()
	for k := range s.columns {
		c := &s.columns[k]
		if c.file == nil {
			continue
		}
		if k >= firstFloats {
			if err := s.pad(k, n); err != nil {
				return err
			}
		}
		if err := c.w.Flush(); err != nil {
			return err
		}
		m, err := mapFile(c.file)
		if err != nil {
			return err
		}
		maps[k] = m
		switch k {
		case columnIDs:
			b.TokenIDs = elements[int32](m.data)
		case columnMask:
			b.LossMask = elements[bool](m.data)
		default:
			*floats[k-firstFloats].Data = elements[float32](m.data)
		}
	}
	return b.WriteSafetensors(&releasingWriter{s.to, maps}, s.layout)
}

// releasingWriter writes long stretches of mapped memory bit by bit and gives
// back what is behind.
type releasingWriter struct {
	w    io.Writer
	maps []*mappedFile // nil: none
}

var _ safetensors.Releaser = (*releasingWriter)(nil)

// Release gives all of the mapped memory back.
func (w *releasingWriter) Release() {
	for _, m := range w.maps {
		if m != nil {
			m.release()
		}
	}
}

func (w *releasingWriter) Write(data []byte) (int, error) {
	const piece = 16 << 20
	done := 0
	for done < len(data) {
		n, err := w.w.Write(data[done:min(len(data), done+piece)])
		done += n
		if err != nil {
			return done, fmt.Errorf("write batch: %w", err)
		}
		if n == piece {
			w.Release()
		}
	}
	return done, nil
}

// memory views x as the bytes that it is.
func memory[T int32 | bool | float32](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

// elements views bytes that memory has written.
func elements[T int32 | bool | float32](data []byte) []T {
	if len(data) == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/int(unsafe.Sizeof(*new(T))))
}
