//go:build unix

package atomicfile_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/infinirl/infinirl/atomicfile"
)

// A named pipe is written to, and stays one.
func TestAPipeStays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes on this file system: ", err)
	}
	read := make(chan string)
	go func() {
		file, err := os.Open(path)
		if err != nil {
			read <- err.Error()
			return
		}
		defer file.Close()
		text, _ := io.ReadAll(file)
		read <- string(text)
	}()
	if err := atomicfile.WriteBytes(path, []byte("through")); err != nil {
		t.Fatal(err)
	}
	if text := <-read; text != "through" {
		t.Errorf("the reader got %q", text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("it is now %v, %v", info, err)
	}
}
