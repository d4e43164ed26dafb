package bounded_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/bounded"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, size := range []int{0, 1, 100} {
		want := bytes.Repeat([]byte{'x'}, size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := bounded.ReadFile(path, 100); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
		if _, err := bounded.ReadFile(path, int64(size)-1); !errors.Is(err, bounded.ErrTooLarge) || !strings.Contains(err.Error(), path) {
			t.Errorf("%d bytes, one too many: error %v", size, err)
		}
	}
	// A file of a terabyte that takes no room on the disk.
	if err := os.Truncate(path, 1<<40); err == nil {
		if _, err := bounded.ReadFile(path, 1<<20); !errors.Is(err, bounded.ErrTooLarge) {
			t.Errorf("a terabyte: error %v", err)
		}
	}
	if _, err := bounded.ReadFile(dir, 100); !errors.Is(err, bounded.ErrNotRegular) {
		t.Errorf("a folder: error %v", err)
	}
	if _, err := bounded.ReadFile(filepath.Join(dir, "missing"), 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: error %v", err)
	}
	if _, err := os.Stat("/dev/zero"); err == nil {
		if _, err := bounded.ReadFile("/dev/zero", 100); !errors.Is(err, bounded.ErrNotRegular) {
			t.Errorf("/dev/zero: error %v", err)
		}
	}
}

// endless is a stream that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestReadAll(t *testing.T) {
	t.Parallel()
	if data, err := bounded.ReadAll(strings.NewReader("abc"), 3); err != nil || string(data) != "abc" {
		t.Errorf("got %q, %v", data, err)
	}
	for _, limit := range []int64{0, 2} {
		if _, err := bounded.ReadAll(strings.NewReader("abc"), limit); !errors.Is(err, bounded.ErrTooLarge) {
			t.Errorf("limit %d: error %v", limit, err)
		}
	}
	if _, err := bounded.ReadAll(endless{}, 1<<16); !errors.Is(err, bounded.ErrTooLarge) {
		t.Errorf("an endless stream: error %v", err)
	}
}
