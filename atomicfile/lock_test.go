//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that has its name can be locked, whoever still has a copy of the descriptor that
// it was written through, as processes have that are being started.
func TestAWrittenFileIsNotLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	err := Create(path, func(file *os.File) error {
		copied, err := syscall.Dup(int(file.Fd()))
		t.Cleanup(func() { syscall.Close(copied) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Error(err)
	}
}
