//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterruptOfAPipe: a named pipe that nobody writes to, and one that is open and
// stays empty, can both be left.
func TestInterruptOfAPipe(t *testing.T) {
	t.Parallel()
	for _, opened := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "pipe.jsonl")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Skip("no named pipes on this file system: ", err)
		}
		if opened {
			file, err := os.OpenFile(path, os.O_RDWR, 0) // opens at once, and keeps readers waiting
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		interrupted, stop := context.WithCancel(context.Background())
		defer context.AfterFunc(ctx, stop)()
		var out, errs bytes.Buffer
		code := run(interrupted, []string{"advantage", path}, streams{strings.NewReader(""), &out, &errs})
		if code != 1 || errs.String() != "infinirl: interrupted\n" {
			t.Errorf("open %v: exit %d, %q", opened, code, errs.String())
		}
	}
}
