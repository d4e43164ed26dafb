package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recutFlags are the rules, with flags that change what stands in their windows.
var recutFlags = []string{
	"--rule none", "--rule tool-fifo", "--rule tool-fifo --mode result --keep-first 1", "--rule tool-clear --clear-tool-inputs --placeholder [gone]",
	"--rule window --keep-last 2", "--rule discard-all --max-segments 3", "--rule summary", "--rule summary --train-summary --reply 40",
}

// A recording and the log that was written of it are cut alike: the same rows and the
// same records, byte for byte.
func checkRecut(t *testing.T, file, high string) (cut bool) {
	t.Helper()
	dir := t.TempDir()
	for _, flags := range recutFlags {
		var rows, logs [2][]byte
		input := file
		for i, name := range []string{"first", "again"} {
			segments, log := filepath.Join(dir, name+".jsonl"), filepath.Join(dir, name+".log.jsonl")
			args := append([]string{"condense", input, "--high", high, "-o", segments, "--log", log}, strings.Fields(flags)...)
			code, _, stderr := command(t, "", args...)
			if code != 0 && i == 0 {
				t.Logf("%s %s: %s", file, flags, stderr)
				return false // no runs, or none that can be cut
			}
			if code != 0 {
				t.Fatalf("%s, %s --high %s: the log: %s", file, flags, high, stderr)
			}
			var err error
			if rows[i], err = os.ReadFile(segments); err != nil {
				t.Fatal(err)
			}
			if logs[i], err = os.ReadFile(log); err != nil {
				t.Fatal(err)
			}
			input = log
		}
		if !bytes.Equal(rows[0], rows[1]) {
			t.Errorf("%s, %s --high %s: other rows: %s", file, flags, high, firstDifference(rows[0], rows[1]))
		}
		if !bytes.Equal(logs[0], logs[1]) {
			t.Errorf("%s, %s --high %s: other logs: %s", file, flags, high, firstDifference(logs[0], logs[1]))
		}
	}
	return true
}

func firstDifference(a, b []byte) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	around := func(x []byte) string { return string(x[min(len(x), max(0, n-150)):min(len(x), n+150)]) }
	return "…" + around(a) + "…\nagain …" + around(b) + "…"
}

func TestLogsAreCutAsTheirRecordings(t *testing.T) {
	t.Parallel()
	own := filepath.Join(t.TempDir(), "own.jsonl")
	if err := os.WriteFile(own, []byte(longTalk(t)+"\n"+greeting+"\n"+
		`{"id":"unasked","messages":[{"role":"system","content":"Only this."}]}`+"\n"+
		`{"id":"shown","tools":[{"type":"function","function":{"name":"find","parameters":{"type":"object"}}}],"messages":[{"role":"user","content":"Like this:"},{"role":"assistant","content":"so","weight":0},{"role":"user","content":"Now you."},{"role":"assistant","content":"`+strings.Repeat("so it is ", 60)+`"},{"role":"user","content":"Go on."},{"role":"assistant","content":"`+strings.Repeat("and on ", 400)+`"}]}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := []string{own}
	for _, pattern := range []string{"*.json", "*.jsonl", "*.traj"} {
		more, err := filepath.Glob(filepath.Join("..", "..", "chat", "recorded", "testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	cut := 0
	for _, file := range files {
		for _, high := range []string{"150", "400", "1500"} {
			if checkRecut(t, file, high) {
				cut++
			}
		}
	}
	if cut < 40 {
		t.Errorf("%d recordings were cut", cut)
	}
}

func TestLogsAreCutAsTheRecordingsOfOthers(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "..", "shared", "data")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Skipf("the recorded runs are not there: %v", err)
	}
	cut := 0
	for _, entry := range entries {
		if isRecordingName(entry.Name()) && checkRecut(t, filepath.Join(folder, entry.Name()), "6000") {
			cut++
		}
	}
	if cut < 8 {
		t.Errorf("%d recordings were cut", cut)
	}
}
