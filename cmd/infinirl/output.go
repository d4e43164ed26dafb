package main

import (
	"bufio"
	"io"
	"os"

	"github.com/infinirl/infinirl/atomicfile"
)

// writeOutput lets write fill the file at path, or standard output if path is "-".
// A file appears under its name only when it is whole, and an error leaves nothing
// behind.
func writeOutput(path string, std streams, write func(io.Writer) error) error {
	if path == "-" {
		w := bufio.NewWriter(std.out)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	return atomicfile.Write(path, write)
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
