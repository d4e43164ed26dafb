//go:build linux

package exec

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/infinirl/infinirl/env"
)

// held counts what would leak: goroutines, files, child processes.
func held(t *testing.T) [3]int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	children := 0
	for _, thread := range tasks {
		of, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		if err == nil {
			children += len(strings.Fields(string(of)))
		}
	}
	return [3]int{runtime.NumGoroutine(), len(files), children}
}

// Trajectories that end in every way leave nothing behind. It is not parallel: it counts
// what the whole process holds.
func TestNothingLeaks(t *testing.T) {
	round := func() {
		for _, name := range []string{"exit", "hang", "huge", "garbage", "pid", `step={"id":ID,"done":true,"reward":1,"success":true}`} {
			for _, reuse := range []bool{false, true} {
				cfg := kind(t, name)
				cfg.Reuse, cfg.Timeout = reuse, 20*time.Second
				if name == "hang" {
					cfg.Timeout = 50 * time.Millisecond
				}
				host, err := NewHost(context.Background(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				tasks := New("test", file(t), host)
				_, _ = play(context.Background(), tasks)
				open := tasks.New(1) // and one that is never closed
				_, _ = open.Reset(context.Background(), tasks.Task(env.Train, 0))
				if err := host.Close(); err != nil {
					t.Error(err)
				}
				open.Close()
			}
		}
	}
	round()
	before := held(t)
	round()
	after := held(t)
	for end := time.Now().Add(20 * time.Second); after[0] > before[0] && time.Now().Before(end); after = held(t) {
		runtime.Gosched() // what has done its work may not have returned yet
	}
	if after[1] > before[1] || after[2] > 0 || after[0] > before[0] {
		t.Errorf("goroutines, files and children are %v after a round, and %v after another", before, after)
	}
}
