//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// recordedLines are runs of the recordings of others, each as a line.
func recordedLines(t *testing.T) [][]byte {
	t.Helper()
	folder := filepath.Join("..", "..", "..", "shared", "data")
	var lines [][]byte
	for _, name := range []string{"taubench_gpt4o_airline_longest77.json", "openhands_multi_swe_output.jsonl", "webdancer_sample_traj_first102.jsonl",
		"sweagent_marshmallow1867_fc_replace_from_source.traj", "sweagent_pydicom1458.traj", "miniswe_github_issue.traj.json"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Skipf("the recorded runs are not there: %v", err)
		}
		values := json.NewDecoder(bytes.NewReader(text))
		for values.More() {
			var value json.RawMessage
			if err := values.Decode(&value); err != nil {
				t.Fatal(err)
			}
			runs := []json.RawMessage{value}
			if value[0] == '[' && strings.HasPrefix(name, "taubench") {
				if err := json.Unmarshal(value, &runs); err != nil {
					t.Fatal(err)
				}
			}
			for _, run := range runs {
				var line bytes.Buffer
				if err := json.Compact(&line, run); err != nil {
					t.Fatal(err)
				}
				lines = append(lines, append(line.Bytes(), '\n'))
			}
		}
	}
	return lines
}

// TestCondenseLarge cuts a file of INFINIRL_LARGE_MB megabytes of runs and holds the
// memory that it takes to 300 MB, with and without outputs.
func TestCondenseLarge(t *testing.T) {
	size, err := strconv.Atoi(os.Getenv("INFINIRL_LARGE_MB"))
	if err != nil {
		t.Skip("INFINIRL_LARGE_MB gives no size: see docs/performance.md")
	}
	lines := recordedLines(t)
	dir := t.TempDir()
	program, path := filepath.Join(dir, "infinirl"), filepath.Join(dir, "runs.jsonl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	runs := 0
	for written := 0; written < size<<20; runs++ {
		n, err := w.Write(lines[runs%len(lines)])
		if err != nil {
			t.Fatal(err)
		}
		written += n
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"", "-o DIR/x.safetensors", "-o DIR/x.jsonl", "--log DIR/x.log.jsonl", "--compare"} {
		args := append([]string{"condense", path, "--high", "16384"}, strings.Fields(strings.ReplaceAll(flags, "DIR", dir))...)
		command := exec.CommandContext(t.Context(), program, args...)
		command.Env = append(os.Environ(), "TMPDIR="+dir)
		var errs bytes.Buffer
		command.Stderr = &errs
		start := time.Now()
		if err := command.Run(); err != nil {
			t.Fatalf("%s: %v: %s", flags, err, errs.String())
		}
		peak := command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * 1024
		report := fmt.Sprintf("condense --high 16384 %s: %d runs, %d MB: %.0f s, peak memory %d MB", flags, runs, size, time.Since(start).Seconds(), peak/1e6)
		for _, name := range []string{"x.safetensors", "x.jsonl", "x.log.jsonl"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
				report += fmt.Sprintf(", writes %.1f GB", float64(info.Size())/1e9)
				os.Remove(filepath.Join(dir, name))
			}
		}
		t.Log(report)
		if peak > 300e6 {
			t.Errorf("%s: peak memory %d MB, want at most 300 MB", flags, peak/1e6)
		}
	}
}
