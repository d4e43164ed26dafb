package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"unsafe"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/batch"
)

// columnSpool gathers the parts of a batch in files, one a column, so that a
// batch that comes row by row can be written column by column in little memory.
// Only the row columns are kept in memory.
type columnSpool struct {
	to      io.Writer
	layout  batch.Layout
	rows    []batch.Row
	cu      []int64
	columns [9]spooledColumn // ids, mask, floats
}

type spooledColumn struct {
	file *os.File
	w    *bufio.Writer
	n    int64 // entries
}

func newColumnSpool(to io.Writer, layout batch.Layout) *columnSpool {
	return &columnSpool{to: to, layout: layout, cu: []int64{0}}
}

// close closes the files, which have no names, so that they are gone then.
func (s *columnSpool) close() {
	for _, c := range s.columns {
		if c.file != nil {
			c.file.Close()
		}
	}
}

// floatsOf lists the float columns of b.
func floatsOf(b *batch.Batch) [7]*[]float32 {
	return [...]*[]float32{&b.RolloutLogProbs, &b.OldLogProbs, &b.RefLogProbs, &b.Values, &b.Rewards, &b.Advantages, &b.Returns}
}

// add appends the rows of a part.
func (s *columnSpool) add(c credited) error {
	b := c.batch
	before := s.cu[len(s.cu)-1]
	for i := range b.Rows {
		s.rows = append(s.rows, b.Rows[i])
		s.cu = append(s.cu, before+b.CuSeqLens[i+1])
	}
	after := s.cu[len(s.cu)-1]
	if err := s.write(0, memory(b.TokenIDs), after); err != nil {
		return err
	}
	if err := s.write(1, memory(b.LossMask), after); err != nil {
		return err
	}
	for k, c := range floatsOf(b) {
		if *c == nil {
			continue
		}
		if err := s.pad(2+k, before); err != nil {
			return err
		}
		if err := s.write(2+k, memory(*c), after); err != nil {
			return err
		}
	}
	return nil
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

// pad fills a float column up to n entries with zeros: the parts before had none.
func (s *columnSpool) pad(column int, n int64) error {
	zeros := make([]float32, 1<<14)
	for s.columns[column].n < n {
		k := min(int64(len(zeros)), n-s.columns[column].n)
		if err := s.write(column, memory(zeros[:k]), s.columns[column].n+k); err != nil {
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
	floats := floatsOf(b)
	for k := range s.columns {
		c := &s.columns[k]
		if c.file == nil {
			continue
		}
		if k >= 2 {
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
		case 0:
			b.TokenIDs = elements[int32](m.data)
		case 1:
			b.LossMask = elements[bool](m.data)
		default:
			*floats[k-2] = elements[float32](m.data)
		}
	}
	release := func() {
		for _, m := range maps {
			if m != nil {
				m.release()
			}
		}
	}
	return b.WriteSafetensors(&releasingWriter{s.to, release}, s.layout)
}

// releasingWriter writes long stretches of mapped memory bit by bit and gives
// back what is behind.
type releasingWriter struct {
	w       io.Writer
	release func()
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
			w.release()
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
