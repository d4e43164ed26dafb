package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// command runs one command line on an input.
func command(t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, streams{strings.NewReader(input), &out, &errs})
	return code, out.String(), errs.String()
}

const greeting = `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}`

func TestCondenseBadInput(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "s.jsonl")
	for _, c := range []struct {
		input string
		args  []string
		want  string
	}{
		{greeting, []string{"--high", "0"}, "high: 0"},
		{greeting, []string{"--high", "10", "--low", "11"}, "low: 11"},
		{greeting, []string{"--high", "10", "--rule", "best"}, `rule: "best"`},
		{greeting, []string{"--high", "10", "--keep-last=-1"}, "keep_last: -1"},
		{greeting, []string{"--high", "10", "--tokenizer", "nowhere"}, "--tokenizer"},
		{greeting[:40], []string{"--high", "10"}, "stdin:1: the JSON text ends early"},
		{"", []string{"--high", "10"}, "stdin:1: the file is empty"},
		{`{"a":1}`, []string{"--high", "10"}, "stdin:1: no known form"},
		{greeting + "\n\n" + `{"messages":[{"role":"king"}]}`, []string{"--high", "10"}, `stdin:3: messages[0].role: unknown role "king"`},
		{`{"messages":[{"role":"user","content":"q"},{"role":"tool","content":"r"}]}`, []string{"--high", "10"}, "stdin:1: messages[1]: a tool result that answers no call"},
	} {
		code, _, stderr := command(t, c.input, append([]string{"condense", "-", "-o", out}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, %q; want 2, %q", c.args, code, stderr, c.want)
		}
		if line := strings.TrimSuffix(stderr, "\n"); strings.Count(line, "\n") > 0 && !strings.Contains(line, "Usage") {
			t.Errorf("%v: error of several lines: %q", c.args, stderr)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an error left an output file behind")
	}
}

// TestCondenseContradictions: what cannot be meant is refused, and nothing written.
func TestCondenseContradictions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, out, empty := filepath.Join(dir, "in.json"), filepath.Join(dir, "x.jsonl"), mkdir(t, dir, "empty")
	again, link := filepath.Join(dir, ".", "empty", "..", "in.json"), filepath.Join(dir, "link.json")
	if err := os.WriteFile(in, []byte(greeting), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(in, link); err != nil {
		t.Skip("no hard links on this file system: ", err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{in, "-o", in}, "in.json is a recording that is read"},
		{[]string{in, "-o", link}, "link.json is a recording that is read"},
		{[]string{in, "--log", again}, "in.json is a recording that is read"},
		{[]string{in, "-o", out, "--log", out}, "-o and --log: both "},
		{[]string{in, "-o", out, "--log", filepath.Join(empty, "..", "x.jsonl")}, "-o and --log: both "},
		{[]string{in, "-o", "-", "--log", "-"}, "-o and --log: both standard output"},
		{[]string{in, "-o", "-", "--draw"}, "want a file for -o"},
		{[]string{in, "-o", out, "--log", filepath.Join(dir, "none", "y")}, "y: no such file"},
		{[]string{in, "-o", ""}, "the name of the file is empty"},
		{[]string{in, "-o", empty}, "is a directory"},
		{[]string{in, in, "-o", out}, "are one recording"},
		{[]string{in, again, "-o", out}, "are one recording"},
		{[]string{dir, in}, "are one recording"},
		{[]string{empty}, "empty: no recorded runs"},
		{[]string{in, "--compare", "-o", out}, "--compare cuts with every rule"},
		{[]string{in, "--draw", "--compare"}, "--draw and --compare"},
		{[]string{in, "--draw", "--json"}, "--draw and --json"},
		{[]string{in, "--low", "0"}, "low: 0"},
		{[]string{in, "--reply", "9223372036854775807"}, "--reply: 9223372036854775807, want 0 to 4096"},
		{[]string{in, "--reply", "-1"}, "--reply"},
	} {
		code, _, stderr := command(t, "", append([]string{"condense", "--high", "4096"}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q; want 2, %q", c.args, code, stderr, c.want)
		}
	}
	if text, err := os.ReadFile(in); err != nil || string(text) != greeting {
		t.Errorf("the recording is now %q, %v", text, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("errors left files behind: %v, %v", left, err)
	}
	// Two files of one content are two recordings, and no trajectory id comes twice.
	if code, _, stderr := command(t, "", "condense", "--high", "4096", in, link, "-o", out); code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	if code, checked, stderr := command(t, "", "batch", "check", out); code != 0 || !strings.Contains(checked, "2 rows, 2 trajectories") {
		t.Errorf("exit %d, %s%s", code, checked, stderr)
	}
}

// TestCondenseOutput checks what the command prints for one run.
func TestCondenseOutput(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "long.json")
	if err := os.WriteFile(file, []byte(longTalk(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flags, want string }{
		{"", `long (openai-messages): 27 messages, 3628 tokens, 3 segments, finished, score 1
  inv_iter  kept  dropped  replaced  before  after  prompt  response  trained
         2     2        0         0      81     81     103      1236      340
         1     4        8         0    1541    373     395       944      272
         0     4       16         0    1541    373     395       896      224
1 runs, 3 segments: 1 finished, 0 truncated, 0 context_overflow
`},
		{"--draw", `long (openai-messages): 27 messages, 3628 tokens, 3 segments, finished, score 1
  ┌─ segment 0 (inv_iter=2) ───────────────────────────────────────────────┐
  │  sys | user ‖ a₁ t₁ a₂ t₂ a₃ t₃ a₄ t₄ a₅ t₅                            │
`},
		{"--draw", `
1 runs, 3 segments: 1 finished, 0 truncated, 0 context_overflow
`},
		{"--rule none", `long (openai-messages): 12 of 27 messages played, 1541 tokens, 1 segments, truncated, score 1
`},
		{"--rule none --draw", `long (openai-messages): 12 of 27 messages played, 1541 tokens, 1 segments, truncated, score 1
`},
		{"--rule summary", "long (openai-messages): 27 messages, "},
		{"--json", `,"status":"finished","segments":[{"inv_iter":2,"messages_kept":2,`},
		{"--compare", `         rule  done  early  segments  prefill  decode  reused  dropped  rows
         none     0      1         1      999     340   70.9%        0  1339
    tool-fifo     1      0         3     2343     836   76.8%     2336  3969
`},
		{"--compare --json", `"rule":"summary","runs":1,"finished":1,`},
		{"-o -", `{"trajectory_id":"long","group_id":"long","inv_iter":2,"prompt_ids":[60,124,105,`},
	} {
		code, out, stderr := command(t, "", append([]string{"condense", file, "--high", "1500"}, strings.Fields(c.flags)...)...)
		if code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit %d, %s\n got %s\nwant %s", c.flags, code, stderr, out, c.want)
		}
	}
	// Of a folder, files without runs are passed over.
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "other.json"), []byte(`{"a":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := command(t, "", "condense", filepath.Dir(file), "--high", "1500")
	if code != 0 || !strings.Contains(out, "1 runs, 3 segments") || !strings.Contains(stderr, "passed over: ") {
		t.Errorf("folder: exit %d, %s%s", code, out, stderr)
	}
}

// Recorded runs with scores, cut and credited: every prompt fits or its run says
// context_overflow, and with γ = λ = 1 every trainable token of a run, through all of
// its segments, carries the run's score.
func TestScoresOfRecordedRunsReachTheirFirstSegments(t *testing.T) {
	t.Parallel()
	const recording = "../../../shared/data/taubench_gpt4o_airline_longest77.json"
	if _, err := os.Stat(recording); err != nil {
		t.Skipf("the recorded runs are not there: %v", err)
	}
	for _, window := range []struct{ high, low string }{{"4096", "2048"}, {"8192", "7000"}, {"16384", "8192"}} {
		segments, credited := filepath.Join(t.TempDir(), "s.jsonl"), filepath.Join(t.TempDir(), "a.jsonl")
		code, table, stderr := command(t, "", "condense", recording, "--high", window.high, "--low", window.low, "--tokenizer", "bytes", "-o", segments)
		if code != 0 {
			t.Fatalf("condense: status %d: %s", code, stderr)
		}
		if code, _, stderr := command(t, "", "advantage", segments, "-o", credited, "--gamma", "1", "--lambda", "1"); code != 0 {
			t.Fatalf("advantage: status %d: %s", code, stderr)
		}
		high, _ := strconv.Atoi(window.high)
		in, out := readSegmentRows(t, segments), readSegmentRows(t, credited)
		runs := map[string]bool{}
		for _, row := range in {
			runs[row.TrajectoryID] = true
			if len(row.PromptIDs) > high {
				t.Errorf("high %s: trajectory %s, inv_iter %d: a prompt of %d tokens", window.high, row.TrajectoryID, row.InvIter, len(row.PromptIDs))
			}
			if len(row.ResponseIDs) == 0 && row.Status != "context_overflow" {
				t.Errorf("high %s: trajectory %s has an empty row and status %s", window.high, row.TrajectoryID, row.Status)
			}
		}
		if len(runs) != 77 || !strings.Contains(table, "77 runs") {
			t.Errorf("high %s: %d runs in the segments, want 77", window.high, len(runs))
		}
		trained := 0
		for _, row := range out {
			for i, m := range row.LossMask {
				want := 0.0
				if m == 1 {
					want = row.Score
					trained++
				}
				if row.Advantages[i] != want || row.Returns[i] != want {
					t.Fatalf("high %s: trajectory %s, inv_iter %d, token %d: advantage %v, return %v, want %v", window.high, row.TrajectoryID, row.InvIter, i, row.Advantages[i], row.Returns[i], want)
				}
			}
		}
		if (trained == 0) != (window.high == "4096") { // no system prompt of these runs fits 4,096 bytes
			t.Errorf("high %s: %d trainable tokens", window.high, trained)
		}
	}
}

type segmentRow struct {
	TrajectoryID string  `json:"trajectory_id"`
	InvIter      int     `json:"inv_iter"`
	PromptIDs    []int32 `json:"prompt_ids"`
	ResponseIDs  []int32 `json:"response_ids"`
	LossMask     []int   `json:"loss_mask"`
	Score        float64
	Status       string
	Advantages   []float64
	Returns      []float64
}

func readSegmentRows(t *testing.T, path string) []segmentRow {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var rows []segmentRow
	for decoder := json.NewDecoder(file); decoder.More(); {
		var row segmentRow
		if err := decoder.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}
