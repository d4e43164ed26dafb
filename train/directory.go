package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// CreateDirectory makes a directory appear at path with everything that fill
// puts into it, or not at all. A path that exists is an error, but for an empty
// directory, which is replaced.
func CreateDirectory(path string, fill func(temporary string) error) (err error) {
	if info, err := os.Lstat(path); err == nil {
		entries, unread := os.ReadDir(path)
		if !info.IsDir() || unread != nil || len(entries) > 0 {
			return fmt.Errorf("%s: %w", path, fs.ErrExist)
		}
	}
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return wrongPlace(err)
	}
	temporary, err := os.MkdirTemp(parent, "."+filepath.Base(path)+".*")
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = fmt.Errorf("create %s: %w", path, of.Err) // the temporary name tells nobody anything
	}
	if err != nil {
		return wrongPlace(err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temporary)
		}
	}()
	if err = os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	if err = fill(temporary); err != nil {
		return err
	}
	if err = os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // the empty directory
		return err
	}
	if err = os.Rename(temporary, path); errors.Is(err, fs.ErrExist) { // another process was faster
		err = fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return err
}

// wrongPlace marks the error of a place where no directory can be made as one of the
// input, unless the disk is to blame.
func wrongPlace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO) {
		return err
	}
	return inputError{err}
}

// removeLeftovers deletes what a killed process left under temporary names.
func removeLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsRun tells whether a directory is that of a run, whatever it has come to.
func IsRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ConfigName))
	return err == nil
}
