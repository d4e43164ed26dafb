package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/batch/stream"
)

// openBatch opens a batch and finds out its format: by the name, or by the first
// bytes of standard input.
func openBatch(ctx context.Context, path string, std streams) (*stream.Reader, error) {
	var format stream.Format
	if path != "-" {
		var err error
		if format, err = stream.FormatOf(path); err != nil {
			return nil, badInput(err)
		}
	}
	source, name, err := openInput(ctx, path, std)
	if err != nil {
		return nil, err
	}
	if file, ok := source.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.IsDir() {
			file.Close()
			return nil, badInput(fmt.Errorf("%s is a directory", path))
		}
	}
	return stream.NewReader(source, name, format)
}

// readBatch reads a whole batch into memory.
func readBatch(ctx context.Context, path string, std streams) (*batch.Batch, stream.Format, error) {
	in, err := openBatch(ctx, path, std)
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	b, err := in.Read(ctx)
	return b, in.Format(), contentIsInput(err)
}

// outputFormat is the format to write: as the flag says, else as the name of the
// file says, else that of the input.
func outputFormat(flag, path string, input stream.Format) (stream.Format, error) {
	switch {
	case flag != "auto":
		return stream.Format(flag), nil
	case path == "-":
		return input, nil
	}
	format, err := stream.FormatOf(path)
	return format, badInput(err)
}

// checkFormat refuses a file whose name says another form than the one it would be
// written in, or none.
func checkFormat(flag string, path outputPath) error {
	if path == "-" {
		return nil
	}
	if info, err := os.Stat(string(path)); err == nil && !info.Mode().IsRegular() && flag != "auto" {
		return nil // a pipe or a device, whose name says nothing
	}
	named, err := stream.FormatOf(string(path))
	if err != nil {
		return badInput(fmt.Errorf("-o %w", err))
	}
	if (flag == string(stream.JSONLines)) != (named == stream.JSONLines) && flag != "auto" {
		return badInput(fmt.Errorf("-o %s: its name says %s, --format says %s: want one of them", path, named, flag))
	}
	return nil
}

// inputName is what errors call an input.
func inputName(path inputPath) string {
	if path == "-" {
		return "stdin"
	}
	return string(path)
}

// contentIsInput marks a fault of a file's content as the user's to mend.
func contentIsInput(err error) error {
	if bad := (*stream.ContentError)(nil); errors.As(err, &bad) {
		return badInput(err)
	}
	return err
}

// badContent marks an error of the content of a file, with its name and the line.
func badContent(name string, err error) error { return badInput(stream.NewContentError(name, err)) }
