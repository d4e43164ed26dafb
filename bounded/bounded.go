// Package bounded reads what others wrote without trusting its size: a file or a
// stream that is larger than it may be is an error before it fills the memory.
package bounded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrTooLarge is wrapped by the errors about something that is over its limit.
var ErrTooLarge = errors.New("too large")

// ErrNotRegular is wrapped by the errors about a device, pipe, socket or folder
// where a file is wanted: such a thing may have no end.
var ErrNotRegular = errors.New("no regular file")

// Open opens a regular file of at most limit bytes and returns its size. It does
// not wait for the other end of a pipe.
func Open(path string, limit int64) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if err := check(path, info, limit); err != nil { // opening a pipe would wait
		return nil, 0, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	if info, err = file.Stat(); err == nil {
		err = check(path, info, limit)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

func check(path string, info fs.FileInfo, limit int64) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%s: it is a folder: %w", path, ErrNotRegular)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: it is a device or a pipe: %w", path, ErrNotRegular)
	case info.Size() > limit:
		return fmt.Errorf("%s: %w: %d bytes, want at most %d", path, ErrTooLarge, info.Size(), limit)
	}
	return nil
}

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	file, size, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, size)
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// Some files, those of /proc among them, say that they are empty; others grow.
	rest, err := ReadAll(file, limit-size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return append(data, rest...), nil
}

// ReadAll reads a stream to its end, which has to come within limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return data, nil
}
