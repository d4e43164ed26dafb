//go:build unix

package atomicfile_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/infinirl/infinirl/atomicfile"
)

// writerEnv makes the test binary a process that begins to write the named file and
// waits to be killed.
const writerEnv = "ATOMICFILE_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		atomicfile.Create(path, func(file *os.File) error {
			file.WriteString("half")
			os.Stdout.WriteString("begun\n")
			time.Sleep(time.Hour) // until it is killed
			return nil
		})
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The mode of a file stays, and a new one has what the umask allows.
func TestModes(t *testing.T) { // not parallel: the umask is the process's
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, umask := range []int{0o022, 0o077, 0o002} {
		old := syscall.Umask(umask)
		err := atomicfile.WriteBytes(path, []byte("new"))
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := mode(t, path), os.FileMode(0o666&^umask); got != want {
			t.Errorf("umask %03o: mode %03o, want %03o", umask, got, want)
		}
		os.Remove(path)
	}
	for _, want := range []os.FileMode{0o600, 0o640, 0o444, 0o755, 0o666} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, want); err != nil {
			t.Fatal(err)
		}
		err := atomicfile.Create(path, func(file *os.File) error {
			if info, err := file.Stat(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("while a file of mode %03o is written, others can read mode %v, %v", want, info.Mode(), err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := mode(t, path); got != want {
			t.Errorf("mode %03o, want %03o", got, want)
		}
		os.Remove(path)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// What a killed process left goes with the next write of the same file; the temporary
// files of living ones, of other files and of other programs stay.
func TestLeftFilesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	begin := func() *exec.Cmd {
		command := exec.CommandContext(t.Context(), os.Args[0])
		command.Env = append(os.Environ(), writerEnv+"="+path)
		out, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		return command
	}
	kill := func(command *exec.Cmd) {
		command.Process.Kill()
		command.Wait()
	}
	others := []string{".file.infinirl-0123456", ".file.infinirl-0123456x", ".other.infinirl-01234567", ".file.01234567", "file.infinirl-01234567"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries) - len(others)
	}
	killed, living := begin(), begin()
	kill(killed)
	if count() != 2 {
		t.Fatalf("%d temporary files, want two", count())
	}
	if err := atomicfile.WriteBytes(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if count() != 2 {
		t.Errorf("%d files, want the new one and that of the living process", count())
	}
	kill(living)
	if err := atomicfile.Check(path); err != nil {
		t.Fatal(err)
	}
	if count() != 1 {
		t.Errorf("%d files, want the new one", count())
	}
}

// Many that write the same file at once do not take each other's files away.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 50 {
				if err := atomicfile.WriteBytes(path, []byte("new")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
