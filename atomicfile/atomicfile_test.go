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

func TestALinkStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, link := range []string{"to-a-file", "to-nothing-yet"} {
		target := filepath.Join(dir, "elsewhere", link)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, link)
		if err := os.Symlink(filepath.Join("elsewhere", link), path); err != nil {
			t.Skip("no symbolic links on this file system: ", err)
		}
		if link == "to-a-file" {
			if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := atomicfile.WriteBytes(path, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(path); err != nil {
			t.Errorf("%s is no link any more: %s, %v", link, to, err)
		}
		if text, _ := os.ReadFile(target); string(text) != "new" {
			t.Errorf("%s leads to %q", link, text)
		}
	}
}

func TestCheckLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := atomicfile.Check(filepath.Join(dir, "file")); err != nil {
		t.Error(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "missing", "file"), ""} {
		if err := atomicfile.Check(path); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestANamelessFileIsInNoFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file, err := atomicfile.Nameless()
	if err != nil {
		t.Skip("no nameless files on this system: ", err)
	}
	defer file.Close()
	if _, err := file.WriteString("still there"); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 11)
	if _, err := file.ReadAt(back, 0); err != nil || string(back) != "still there" {
		t.Errorf("read back %q, %v", back, err)
	}
	if entries, _ := os.ReadDir(os.TempDir()); len(entries) != 0 {
		t.Errorf("it has a name: %v", entries)
	}
}
