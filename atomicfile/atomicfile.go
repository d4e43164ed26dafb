// Package atomicfile writes files that are seen whole or not at all, whenever the
// process is killed and whatever fails.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Create has write fill a temporary file beside path, syncs it and renames it to
// path. An error leaves neither the file nor a temporary one. If path is there and
// no regular file (a device, a pipe), what was written is copied to it in the end.
func Create(path string, write func(*os.File) error) (err error) {
	dir, name, special := filepath.Dir(path), "."+filepath.Base(path)+".*", false
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("write %s: it is a directory", path)
	} else if err == nil && !info.Mode().IsRegular() {
		dir, name, special = "", "infinirl-*", true
	}
	file, err := os.CreateTemp(dir, name)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	defer func() {
		if err != nil || special {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	if err := write(file); err != nil {
		var of *fs.PathError
		if errors.As(err, &of) && of.Path == file.Name() {
			err = fmt.Errorf("write %s: %w", path, of.Err) // the temporary name tells nobody anything
		}
		return err
	}
	finish := []func() error{
		func() error { return file.Chmod(0o644) },
		file.Sync,
		file.Close,
		func() error { return os.Rename(file.Name(), path) },
	}
	if special {
		finish = []func() error{func() error { return copyTo(path, file) }}
	}
	for _, step := range finish {
		if err := step(); err != nil {
			return fmt.Errorf("write %s: %w", path, cause(err))
		}
	}
	return nil
}

// copyTo writes all of a file to something that is there already.
func copyTo(path string, file *os.File) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, file)
	return errors.Join(err, out.Close())
}

// cause is the error below the name of the temporary file.
func cause(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// Write is Create for a plain stream of bytes.
func Write(path string, write func(io.Writer) error) error {
	return Create(path, func(file *os.File) error {
		buffered := bufio.NewWriterSize(file, 1<<20)
		if err := write(buffered); err != nil {
			return err
		}
		return buffered.Flush()
	})
}

// WriteBytes is Create of data.
func WriteBytes(path string, data []byte) error {
	return Create(path, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
}
