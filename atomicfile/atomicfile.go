// Package atomicfile writes files that are seen whole or not at all, whenever the
// process is killed and whatever fails.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Create has write fill a temporary file beside path, syncs it and renames it to
// path. An error leaves neither the file nor a temporary one, and what a process left
// that was killed while it wrote the same file is removed. The mode of a file that was
// there stays; a new one gets what the umask allows. A symbolic link stays: the file
// that it leads to is written. If path is there and no regular file (a device, a pipe),
// what was written is copied to it in the end.
func Create(path string, write func(*os.File) error) (err error) {
	target, special, err := place(path)
	if err != nil {
		return err
	}
	file, err := temporary(target, special)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	defer func() {
		if err != nil && !special {
			os.Remove(file.Name())
		}
		file.Close()
	}()
	if err := write(file); err != nil {
		var of *fs.PathError
		if errors.As(err, &of) && of.Path == file.Name() {
			err = fmt.Errorf("write %s: %w", path, of.Err) // the temporary name tells nobody anything
		}
		return err
	}
	finish := []func() error{
		func() error { return keepMode(target, file) },
		file.Sync,
		func() error { return rename(file, target) },
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

// Check returns the error that Create would meet before it has anything to write:
// no such folder, a folder of that name, no permission.
func Check(path string) error {
	target, special, err := place(path)
	if err != nil || special {
		return err
	}
	file, err := temporary(target, special)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	return errors.Join(os.Remove(file.Name()), file.Close())
}

// Nameless returns a temporary file that has no name any more: it goes with its last
// descriptor, however the process ends.
func Nameless() (*os.File, error) {
	file, err := os.CreateTemp("", "infinirl-*")
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("temporary file: %w", err), file.Close())
	}
	return file, nil
}

// place tells where what is written to path goes, behind symbolic links, and whether
// it is special: there already and no regular file.
func place(path string) (target string, special bool, err error) {
	if path == "" {
		return "", false, fmt.Errorf("write a file: its name is empty: %w", fs.ErrInvalid)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "", false, fmt.Errorf("write %s: %w", path, syscall.EISDIR)
	case err == nil && !info.Mode().IsRegular():
		return path, true, nil
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved, false, nil
	}
	if to, err := os.Readlink(path); err == nil { // to a file that is not there yet
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		return to, false, nil
	}
	return path, false, nil
}

// temporary creates the file that is written first.
func temporary(target string, special bool) (*os.File, error) {
	if special {
		return Nameless()
	}
	removeLeft(target)
	// A secret is never readable by others, not even while it is written.
	mode := fs.FileMode(0o666)
	if _, err := os.Stat(target); err == nil {
		mode = 0o600
	}
	for try := 0; ; try++ {
		name := temporaryPrefix(target) + fmt.Sprintf("%08x", rand.Uint32())
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) && try < 100 {
			continue
		}
		if err != nil {
			return nil, err
		}
		if held(file) {
			return file, nil
		}
		file.Close()
	}
}

// temporaryPrefix begins the names of the temporary files of a target; eight
// hexadecimal digits follow.
func temporaryPrefix(target string) string {
	return filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".infinirl-")
}

// removeLeft removes the temporary files of a target that nobody holds: a process
// holds its own until it ends, however it ends.
func removeLeft(target string) {
	entries, err := os.ReadDir(filepath.Dir(target))
	if err != nil {
		return // creating the file will tell
	}
	prefix := filepath.Base(temporaryPrefix(target))
	for _, entry := range entries {
		digits, ours := strings.CutPrefix(entry.Name(), prefix)
		if ours && len(digits) == 8 && strings.Trim(digits, "0123456789abcdef") == "" && entry.Type().IsRegular() {
			removeUnheld(filepath.Join(filepath.Dir(target), entry.Name()))
		}
	}
}

// keepMode gives the file that will take the place of target its mode.
func keepMode(target string, file *os.File) error {
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the umask has given it one
	}
	if err != nil {
		return err
	}
	return file.Chmod(info.Mode().Perm())
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
