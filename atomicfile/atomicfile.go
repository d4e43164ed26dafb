// Package atomicfile writes files that are seen whole or not at all, whenever the
// process is killed and whatever fails.
package atomicfile

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Write has write fill a temporary file beside path, syncs it and renames it to
// path. An error leaves neither the file nor a temporary one.
func Write(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	buffered := bufio.NewWriterSize(file, 1<<20)
	if err := write(buffered); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	for _, finish := range []func() error{
		buffered.Flush,
		func() error { return file.Chmod(0o644) },
		file.Sync,
		file.Close,
		func() error { return os.Rename(file.Name(), path) },
	} {
		if err := finish(); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// WriteBytes is Write of data.
func WriteBytes(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
