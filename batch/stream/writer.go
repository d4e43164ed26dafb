package stream

import (
	"bufio"
	"context"
	"io"
	"runtime"

	"github.com/infinirl/infinirl/batch"
)

// Write writes a batch that is in memory, JSON Lines on all cores.
func Write(ctx context.Context, w io.Writer, b *batch.Batch, format Format) error {
	if format != JSONLines {
		return b.WriteSafetensors(w, format.layout())
	}
	encode := func(part *batch.Batch) ([]byte, error) { return appendLines(nil, part), nil }
	return ordered(ctx, runtime.GOMAXPROCS(0), sliced(b), encode, func(lines []byte) error {
		_, err := w.Write(lines)
		return err
	})
}

// appendLines appends all rows as JSON Lines.
func appendLines(lines []byte, b *batch.Batch) []byte {
	for i := range b.Rows {
		lines = b.AppendJSON(lines, i)
	}
	return lines
}

// Writer writes a batch that comes in parts of whole trajectories. JSON Lines go out
// as they come; columns wait in files without names, so that only the row columns
// are in memory.
type Writer struct {
	lines *bufio.Writer // JSON Lines, or
	spool *columnSpool
}

// NewWriter returns a writer to w. Close it.
func NewWriter(w io.Writer, format Format) *Writer {
	if format == JSONLines {
		return &Writer{lines: bufio.NewWriterSize(w, 1<<20)}
	}
	return &Writer{spool: newColumnSpool(w, format.layout())}
}

// Add writes the rows of a part behind those before. Parts may have different
// columns: a column of one is a column of all, with zeros on the others; but if only
// some parts have rewards, the scores of the others become rewards, as in
// batch.Batch.PlaceScores.
func (w *Writer) Add(b *batch.Batch) error {
	if w.lines != nil {
		return w.addLines(appendLines(nil, b))
	}
	return w.spool.add(b)
}

// addLines is Add for rows that are JSON Lines already.
func (w *Writer) addLines(lines []byte) error {
	_, err := w.lines.Write(lines)
	return err
}

// Finish ends the batch, which must have rows.
func (w *Writer) Finish() error {
	if w.lines != nil {
		return w.lines.Flush()
	}
	return w.spool.finish()
}

// Close lets go of what the writer holds. It writes nothing.
func (w *Writer) Close() {
	if w.spool != nil {
		w.spool.close()
	}
}
