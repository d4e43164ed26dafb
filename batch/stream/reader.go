package stream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/batch"
)

// Reader is a batch in an open file. What is no regular file (standard input, a
// pipe) can be read once; Rewind makes up for that with a copy.
type Reader struct {
	name   string
	format Format
	r      *bufio.Reader
	file   *os.File  // the regular file that Rewind goes back to
	copied bool      // file is a copy, without a name, that grows as r is read
	source io.Closer // what it is a copy of
	mapped *mappedFile
}

// NewReader reads a batch from source, which it closes on Close; if that is a regular
// *os.File, it must stand at its start. The name stands in errors. Without a format
// the first bytes tell it.
func NewReader(source io.ReadCloser, name string, format Format) (*Reader, error) {
	in := &Reader{name: name, format: format, source: source}
	var reader io.Reader = source
	if file, ok := source.(*os.File); ok {
		info, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, source.Close())
		}
		if info.Mode().IsRegular() {
			in.file = file
		}
	}
	if in.file == nil {
		var err error
		if in.file, err = atomicfile.Nameless(); err != nil {
			return nil, errors.Join(err, source.Close())
		}
		in.copied = true
		reader = io.TeeReader(source, in.file)
	}
	in.r = bufio.NewReaderSize(reader, 1<<16)
	if in.format == "" {
		in.format = sniff(in.r)
	}
	return in, nil
}

// Format is the format that the batch is in.
func (in *Reader) Format() Format { return in.format }

// sniff tells the formats by their first bytes: a safetensors file begins with
// the length of its header, of which the high bytes are 0, and a brace.
func sniff(r *bufio.Reader) Format {
	start, _ := r.Peek(9)
	if len(start) == 9 && start[8] == '{' && binary.LittleEndian.Uint64(start) < 1<<40 {
		return Safetensors
	}
	return JSONLines
}

// whole reads the input to its end and returns it as a file.
func (in *Reader) whole() (*os.File, error) {
	if in.copied {
		if _, err := io.Copy(io.Discard, in.r); err != nil { // what is read is copied
			return nil, fmt.Errorf("%s: %w", in.name, err)
		}
	}
	return in.file, nil
}

// Rewind starts again from the first byte.
func (in *Reader) Rewind() error {
	file, err := in.whole()
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	in.r = bufio.NewReaderSize(file, 1<<16)
	return nil
}

// Close closes the input. Parts of a batch in columns, which Parts has handed on,
// end with it.
func (in *Reader) Close() {
	if in.mapped != nil {
		in.mapped.close()
	}
	in.file.Close() // read from, or a copy that nobody wants any more
	if in.copied {
		in.source.Close()
	}
}

// bad marks an error of the content, with the name of the file.
func (in *Reader) bad(err error) error { return NewContentError(in.name, err) }

// Read reads the rest of the input as one batch. A fault of the content is a
// *ContentError.
func (in *Reader) Read(ctx context.Context) (*batch.Batch, error) {
	if in.format != JSONLines {
		b, err := batch.ReadSafetensors(in.r)
		return b, in.bad(err)
	}
	var parts []*batch.LineDecoder
	err := in.decodeLines(ctx, func(d *batch.LineDecoder) error {
		parts = append(parts, d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	b, err := batch.JoinLines(parts).Batch()
	return b, in.bad(err)
}

// decodeLines parses JSON Lines on all cores and hands the rows to each, some
// hundred at a time, in order.
func (in *Reader) decodeLines(ctx context.Context, each func(*batch.LineDecoder) error) error {
	type chunk struct {
		lines []byte
		first int // number of the first line
	}
	number := 1
	next := func() (chunk, error) {
		lines, err := readLines(in.r, 1<<20)
		c := chunk{lines, number}
		number += bytes.Count(lines, []byte("\n"))
		return c, err
	}
	parse := func(c chunk) (*batch.LineDecoder, error) {
		d := &batch.LineDecoder{}
		for number := c.first; len(c.lines) > 0; number++ {
			line, rest, _ := bytes.Cut(c.lines, []byte("\n"))
			if err := d.Line(line, number); err != nil {
				return nil, in.bad(err)
			}
			c.lines = rest
		}
		return d, nil
	}
	return ordered(ctx, runtime.GOMAXPROCS(0), next, parse, each)
}

// readLines reads about n bytes, and on to the end of the line.
func readLines(r *bufio.Reader, n int) ([]byte, error) {
	lines := make([]byte, n, n+n/8)
	got, err := io.ReadFull(r, lines)
	lines = lines[:got]
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return lines, nil
	case err != nil:
		return nil, err
	}
	for {
		part, err := r.ReadSlice('\n')
		lines = append(lines, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return lines, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
