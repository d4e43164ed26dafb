// Package stream reads and writes batches that need not fit in memory.
//
// A Reader takes a batch from an open file or pipe, in whichever form it is, whole
// or in parts of whole trajectories; Write writes a batch that is in memory, and a
// Writer one that comes in parts. Advantages goes from one to the other: it holds a
// part a core, as long as the rows of a trajectory follow one another.
package stream

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/infinirl/infinirl/batch"
)

// Format is a form of a batch in a file; see docs/formats.md.
type Format string

const (
	JSONLines   Format = "jsonl"
	Safetensors Format = "safetensors"
	Packed      Format = "packed" // safetensors in packed layout
)

// FormatOf is the format that the name of a file tells.
func FormatOf(path string) (Format, error) {
	switch filepath.Ext(path) {
	case ".jsonl":
		return JSONLines, nil
	case ".safetensors":
		return Safetensors, nil
	}
	return "", fmt.Errorf("%s: want a name that ends in .jsonl or .safetensors", path)
}

// layout is that of a safetensors format.
func (f Format) layout() batch.Layout {
	if f == Packed {
		return batch.Packed
	}
	return batch.Plain
}

// ContentError is a fault in the content of a file: what went wrong is the input's,
// not the machine's.
type ContentError struct {
	Name string // of the file
	Line int    // of JSON Lines, from 1; 0 if the fault has no line
	Err  error
}

// NewContentError marks err, of which a *batch.LineError tells the line, as a fault
// of the named file. It is nil if err is.
func NewContentError(name string, err error) error {
	if err == nil {
		return nil
	}
	if line := (*batch.LineError)(nil); errors.As(err, &line) {
		return &ContentError{name, line.Line, line.Err}
	}
	return &ContentError{name, 0, err}
}

func (e *ContentError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Name, e.Err)
}

func (e *ContentError) Unwrap() error { return e.Err }
