package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/batch"
)

// batchFormat is a form of a batch in a file.
type batchFormat string

const (
	formatJSONLines   batchFormat = "jsonl"
	formatSafetensors batchFormat = "safetensors"
	formatPacked      batchFormat = "packed" // safetensors in packed layout
)

// formatOf is the format that a file's name tells; "" for standard streams.
func formatOf(path string) (batchFormat, error) {
	switch filepath.Ext(path) {
	case ".jsonl":
		return formatJSONLines, nil
	case ".safetensors":
		return formatSafetensors, nil
	}
	if path == "-" {
		return "", nil
	}
	return "", badInput(fmt.Errorf("%s: want a name that ends in .jsonl or .safetensors", path))
}

// outputFormat is the format to write: as the flag says, else as the name of the
// file says, else that of the input.
func outputFormat(flag, path string, input batchFormat) (batchFormat, error) {
	named, err := formatOf(path)
	switch {
	case flag != "auto":
		return batchFormat(flag), nil
	case err != nil:
		return "", err
	case named != "":
		return named, nil
	}
	return input, nil
}

// batchInput is an open input file. A name that is no regular file (standard
// input, a pipe) can be read once; rewind makes up for that with a copy.
type batchInput struct {
	name   string
	format batchFormat
	r      *bufio.Reader
	file   *os.File  // the regular file that rewind goes back to
	copied bool      // file is a copy, without a name, that grows as r is read
	source io.Closer // what it is a copy of
	mapped *mappedFile
}

// openBatch opens a batch and finds out its format.
func openBatch(ctx context.Context, path string, std streams) (*batchInput, error) {
	format, err := formatOf(path)
	if err != nil {
		return nil, err
	}
	source, name, err := openInput(ctx, path, std)
	if err != nil {
		return nil, err
	}
	in := &batchInput{name: name, format: format}
	var reader io.Reader = source
	if file, ok := source.(*os.File); ok {
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, badInput(err)
		}
		if info.IsDir() {
			file.Close()
			return nil, badInput(fmt.Errorf("%s is a directory", path))
		}
		if info.Mode().IsRegular() {
			in.file = file
		}
	}
	if in.file == nil {
		if in.file, err = atomicfile.Nameless(); err != nil {
			source.Close()
			return nil, err
		}
		in.source = source
		in.copied = true
		reader = io.TeeReader(source, in.file)
	}
	in.r = bufio.NewReaderSize(reader, 1<<16)
	if in.format == "" {
		in.format = sniff(in.r)
	}
	return in, nil
}

// sniff tells the formats by their first bytes: a safetensors file begins with
// the length of its header, of which the high bytes are 0, and a brace.
func sniff(r *bufio.Reader) batchFormat {
	start, _ := r.Peek(9)
	if len(start) == 9 && start[8] == '{' && binary.LittleEndian.Uint64(start) < 1<<40 {
		return formatSafetensors
	}
	return formatJSONLines
}

// whole reads the input to its end and returns it as a file.
func (in *batchInput) whole() (*os.File, error) {
	if in.copied {
		if _, err := io.Copy(io.Discard, in.r); err != nil { // what is read is copied
			return nil, fmt.Errorf("%s: %w", in.name, err)
		}
	}
	return in.file, nil
}

// rewind starts again from the first byte.
func (in *batchInput) rewind() error {
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

func (in *batchInput) close() {
	if in.mapped != nil {
		in.mapped.close()
	}
	in.file.Close()
	if in.copied {
		in.source.Close()
	}
}

// bad marks an error of the content, with the name of the file.
func (in *batchInput) bad(err error) error { return badContent(in.name, err) }

// badContent marks an error of the content of a file, with its name and the line.
func badContent(name string, err error) error {
	if err == nil {
		return nil
	}
	if line := (*batch.LineError)(nil); errors.As(err, &line) {
		return badInput(fmt.Errorf("%s:%d: %w", name, line.Line, line.Err))
	}
	return badInput(fmt.Errorf("%s: %w", name, err))
}

// readBatch reads a whole batch into memory.
func readBatch(ctx context.Context, path string, std streams) (*batch.Batch, batchFormat, error) {
	in, err := openBatch(ctx, path, std)
	if err != nil {
		return nil, "", err
	}
	defer in.close()
	b, err := in.read(ctx)
	return b, in.format, err
}

// read reads the rest of the input as one batch.
func (in *batchInput) read(ctx context.Context) (*batch.Batch, error) {
	if in.format != formatJSONLines {
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
func (in *batchInput) decodeLines(ctx context.Context, each func(*batch.LineDecoder) error) error {
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

// writeBatch writes a batch that is in memory, JSON Lines on all cores.
func writeBatch(ctx context.Context, b *batch.Batch, w io.Writer, format batchFormat) error {
	if format != formatJSONLines {
		return b.WriteSafetensors(w, format.layout())
	}
	encode := func(part *batch.Batch) ([]byte, error) { return appendLines(nil, part), nil }
	return ordered(ctx, runtime.GOMAXPROCS(0), parts(b), encode, func(lines []byte) error {
		_, err := w.Write(lines)
		return err
	})
}

// layout is that of a safetensors format.
func (f batchFormat) layout() batch.Layout {
	if f == formatPacked {
		return batch.Packed
	}
	return batch.Plain
}

// appendLines appends all rows as JSON Lines.
func appendLines(lines []byte, b *batch.Batch) []byte {
	for i := range b.Rows {
		lines = b.AppendJSON(lines, i)
	}
	return lines
}
