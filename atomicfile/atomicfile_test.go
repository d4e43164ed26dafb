package atomicfile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/infinirl/infinirl/atomicfile"
)

func TestAFileAppearsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := atomicfile.WriteBytes(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := atomicfile.Write(path, func(w io.Writer) error {
		io.WriteString(w, "half of what is ne")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v does not wrap %v", err, broken)
	}
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Errorf("after a failed write the file is %q, want the old one", text)
	}
	if err := atomicfile.WriteBytes(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "new" {
		t.Errorf("the file is %q, want the new one", text)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files in the folder, want one: %v", len(entries), entries)
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, "missing", "file"), nil); err == nil {
		t.Error("writing into a folder that is not there succeeded")
	}
}

// A device is written to, never replaced; a folder is neither.
func TestWhatIsNoRegularFileStays(t *testing.T) {
	t.Parallel()
	if err := atomicfile.WriteBytes(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s is now %v, %v", os.DevNull, info.Mode(), err)
	}
	dir := t.TempDir()
	if err := atomicfile.WriteBytes(dir, []byte("x")); err == nil {
		t.Error("writing to a folder succeeded")
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		err := atomicfile.WriteBytes("/dev/full", []byte("x"))
		if err == nil || err.Error() != "write /dev/full: no space left on device" {
			t.Errorf("a full device: error %v", err)
		}
	}
}
