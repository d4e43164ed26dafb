package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeOutput lets write fill the file at path, or standard output if path is "-".
// A file appears under its name only when it is whole: it is written beside it and
// renamed, and an error leaves nothing behind.
func writeOutput(path string, std streams, write func(io.Writer) error) (err error) {
	if path == "-" {
		w := bufio.NewWriter(std.out)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Chmod(0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// openInput opens a file, or standard input if path is "-", and returns the name
// that errors give it.
func openInput(path string, std streams) (io.ReadCloser, string, error) {
	if path == "-" {
		return io.NopCloser(std.in), "stdin", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", badInput(err)
	}
	return f, path, nil
}
