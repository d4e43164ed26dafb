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

// What a log of a training run tells beside its messages stays: versions, rewards,
// success and how it ended. What may not be trained on has no rows.
func TestLogsKeepWhatTheyTell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, changed, out := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "changed.jsonl"), filepath.Join(dir, "s.jsonl")
	if code, _, stderr := command(t, talk("a", `"score":1,`)+talk("b", `"score":1,`), "condense", "-", "--high", "400", "--log", log); code != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(text), "\n")
	first = strings.Replace(first, `"status":"finished"`, `"status":"truncated","success":true,"error":"time"`, 1)
	first = strings.Replace(first, `"sampled":`, `"policy_version":7,"first_policy_version":5,"reward":0.5,"sampled":`, 1)
	second = strings.Replace(second, `"status":"finished"`, `"status":"aborted"`, 1)
	write(t, dir, map[string]string{"changed.jsonl": first + "\n" + second})
	code, summary, stderr := command(t, "", "condense", changed, "--high", "400", "-o", out)
	if code != 0 || !strings.Contains(summary, "2 runs, 2 segments: 0 finished, 1 truncated, 0 context_overflow, 1 aborted") || !strings.Contains(stderr, "infinirl: runs that failed or were aborted: 1; they have no rows\n") {
		t.Fatalf("exit %d, %s%s", code, summary, stderr)
	}
	b := readBatchFile(t, out)
	if len(b.Rows) != 1 {
		t.Fatalf("%d rows", len(b.Rows))
	}
	if r := b.Rows[0]; r.TrajectoryID != "a" || r.Status != "truncated" || r.Error != "time" || !r.HasSuccess || !r.Success || r.Score != 1 || r.PolicyVersion != 7 || r.OldestPolicyVersion != 5 {
		t.Errorf("row %+v", r)
	}
	if n := len(b.Rewards); n == 0 || b.Rewards[n-1] != 0.5 {
		t.Errorf("rewards %v", b.Rewards)
	}
	write(t, dir, map[string]string{"changed.jsonl": second})
	if code, _, stderr := command(t, "", "condense", changed, "--high", "400", "-o", out); code != 2 || !strings.Contains(stderr, errNothingWritten.Error()) {
		t.Errorf("nothing to be trained on: exit %d, %s", code, stderr)
	}
}
