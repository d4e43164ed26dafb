package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/lm"
)

// longTalk is a recorded run of twelve tool rounds.
func longTalk(t *testing.T) string {
	t.Helper()
	type message map[string]any
	messages := []message{{"role": "system", "content": "You find things."}, {"role": "user", "content": "Find x."}}
	for range 12 {
		messages = append(messages,
			message{"role": "assistant", "content": nil, "tool_calls": []message{{"id": "c", "type": "function", "function": message{"name": "find", "arguments": "{}"}}}},
			message{"role": "tool", "tool_call_id": "c", "content": strings.Repeat("result ", 20)})
	}
	messages = append(messages, message{"role": "assistant", "content": "Here is x."})
	text, err := json.Marshal(message{"id": "long", "score": 1, "messages": messages})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReplay cuts a run with every rule and replays what was written, from the
// segments alone and from the log, then with a token changed.
func TestReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := longTalk(t)
	for _, rule := range []string{"tool-fifo", "tool-clear", "window", "discard-all", "summary"} {
		for _, name := range []string{rule + ".jsonl", rule + ".safetensors"} {
			segments, log := filepath.Join(dir, name), filepath.Join(dir, name+".log")
			code, out, stderr := command(t, input, "condense", "-", "--high", "1500", "--rule", rule, "-v", "-o", segments, "--log", log)
			if code != 0 || !strings.Contains(out, "27 messages") {
				t.Fatalf("%s: exit %d, %s%s", name, code, out, stderr)
			}
			for _, args := range [][]string{{segments}, {segments, "--log", log}, {log}} {
				code, out, stderr := command(t, "", append([]string{"replay"}, args...)...)
				if code != 0 || !strings.HasPrefix(out, "1 trajectories: ") {
					t.Errorf("%v: exit %d, %s%s", args, code, out, stderr)
				}
			}
		}
	}
	segments, log := filepath.Join(dir, "tool-fifo.jsonl"), filepath.Join(dir, "tool-fifo.jsonl.log")
	text, err := os.ReadFile(segments)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(dir, "changed.jsonl")
	// The second segment shows the system message again.
	second := strings.Index(string(text), "\n") + 1
	line := strings.Replace(string(text[second:]), "89,111,117", "89,111,118", 1)
	if err := os.WriteFile(changed, []byte(string(text[:second])+line), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{changed}, {changed, "--log", log}} {
		code, out, stderr := command(t, "", append([]string{"replay", "--tokenizer", "bytes"}, args...)...)
		if code != 1 || !strings.Contains(out, "of message 0, is 118 and derives as 117") || !strings.Contains(out, `is      "ystem\nYov find t"`) || !strings.Contains(stderr, " differ\n") {
			t.Errorf("%v: exit %d, %s%s", args, code, out, stderr)
		}
	}
	// With the log, all that a row holds is compared.
	for _, c := range []struct{ from, to, want string }{
		{`"response_ids":[`, `"response_ids":[7,`, "response_ids has"},
		{`"loss_mask":[1,`, `"loss_mask":[0,`, "loss_mask of response token 0 is 0 and derives as 1\n  is      0\n  derives 1\n"},
		{`"keep":[[0,`, `"keep":[[1,`, "condense.keep is [[1,"},
		{`"version":1`, `"version":9`, "condense.version is 9 and derives as 1"},
		{`"lengths":[`, `"lengths":[5,`, "condense.lengths is [5,"},
	} {
		if c.want == "response_ids has" { // the length stays
			first := string(text[strings.Index(string(text), c.from)+len(c.from):])
			first = first[:strings.Index(first, ",")+1]
			c.from, c.want = c.from+first, "response token 0 is 7 and derives as "+strings.TrimSuffix(first, ",")
		}
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, stderr := command(t, "", "replay", changed, "--log", log)
		if code != 1 || !strings.Contains(out, c.want) || !strings.Contains(stderr, " rows differ\n") {
			t.Errorf("%s: exit %d, %s%s", c.to, code, out, stderr)
		}
	}
	// A log that another program has written anew is one still.
	logged, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(logged, &fields); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	spaced := strings.Replace(string(logged), `{"form":"`, `{ "form" : "`, 1)
	for _, again := range []string{string(sorted), spaced, "\ufeff" + spaced} {
		if code, out, stderr := command(t, again, "replay", "-"); code != 0 || !strings.Contains(out, " prompts match") {
			t.Errorf("%.40s: exit %d, %s%s", again, code, out, stderr)
		}
	}
	if code, out, _ := command(t, "", "replay", "--json", changed, "--log", log); code != 1 || !json.Valid([]byte(out)) {
		t.Errorf("--json: exit %d, %s", code, out)
	}
}

// TestReplayDrift measures log-probs with a checkpoint against those in the file.
func TestReplayDrift(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model, err := lm.NewActor(lm.Config{VocabSize: 300, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 1, NumAttentionHeads: 2, MaxPositionEmbeddings: 64}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Save(filepath.Join(dir, "actor")); err != nil {
		t.Fatal(err)
	}
	prompt, response := []int32{1, 2, 3}, []int32{4, 5, 6}
	logProbs := [][]float32{make([]float32, 3)}
	rows := []lm.Sequence{{Tokens: append(prompt, response...), Targets: []int32{3, 4, 5}}}
	if err := model.LogProbs(t.Context(), rows, 1, logProbs, nil); err != nil {
		t.Fatal(err)
	}
	logProbs[0][2] += 0.5
	line, err := json.Marshal(map[string]any{"trajectory_id": "t", "inv_iter": 0, "prompt_ids": prompt, "response_ids": response, "loss_mask": []int{1, 1, 1},
		"rollout_log_probs": logProbs[0], "condense": json.RawMessage(`{"version":1,"rule":"none","rule_version":1,"messages":1,"keep":[[0,1]],"tokens_before":3,"tokens_after":3,"lengths":[3]}`)})
	if err != nil {
		t.Fatal(err)
	}
	code, out, stderr := command(t, string(line), "replay", "-", "--model", dir)
	if code != 0 || !strings.Contains(out, "log-prob drift over 3 sampled tokens: mean 0.167, median 0, 90% 0, 99% 0, max 0.5 nats") {
		t.Errorf("exit %d, %s%s", code, out, stderr)
	}
}

func TestReplayBadInput(t *testing.T) {
	t.Parallel()
	row := `{"trajectory_id":"t","inv_iter":0,"prompt_ids":[1],"response_ids":[2],"loss_mask":[1]}`
	for _, c := range []struct {
		input string
		args  []string
		want  string
	}{
		{row, []string{"-"}, "trajectory t, inv_iter 0: no condense record"},
		{"{", []string{"-"}, "stdin:1: the line ends: want"},
		{row + "\n\n" + strings.Replace(row, `"t"`, `""`, 1), []string{"-"}, `stdin:3: trajectory "": trajectory_id is empty`},
		{strings.Replace(row, `"t"`, `"`+strings.Repeat("t", 200)+`"`, 1), []string{"-"}, "trajectory " + strings.Repeat("t", 80) + "…, inv_iter 0: no condense record"},
		{row, []string{"-", "--log", "nowhere.jsonl"}, "nowhere.jsonl"},
		{row, []string{"-", "--model", "nowhere"}, "--model"},
		{row, []string{"-", "--tokenizer", "nowhere"}, "--tokenizer"},
		{row, []string{t.TempDir()}, "no batches under rollouts/"},
	} {
		code, _, stderr := command(t, c.input, append([]string{"replay"}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, %q; want 2, %q", c.args, code, stderr, c.want)
		}
	}
}

// A run that opened no window is a row without tokens, of which nothing is replayed.
func TestReplayRunsWithoutASegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rows, log := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "log.jsonl")
	of := func(task string) string {
		return `{"messages":[{"role":"user","content":"` + task + `"},{"role":"assistant","content":"b"}],"score":1}` + "\n"
	}
	recording := of("a") + of(strings.Repeat("a", 1000))
	if code, _, stderr := command(t, recording, "condense", "-", "--high", "400", "-o", rows, "--log", log); code != 0 {
		t.Fatal(stderr)
	}
	for _, args := range [][]string{{"replay", rows}, {"replay", rows, "--log", log}, {"replay", log}} {
		code, out, stderr := command(t, "", args...)
		if code != 0 || !strings.Contains(out, "1 of 1 ") {
			t.Errorf("%v: status %d, %q, %q", args, code, out, stderr)
		}
	}
}

// Rows that somebody has taken out are told.
func TestReplayTellsOfMissingRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rows, log := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "log.jsonl")
	if code, _, stderr := command(t, longTalk(t), "condense", "-", "--high", "1500", "-o", rows, "--log", log); code != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	const told = "1 segments of the log have no row"
	if _, out, _ := command(t, "", "replay", rows, "--log", log); strings.Contains(out, told) {
		t.Errorf("all rows are there: %s", out)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	if code, out, stderr := command(t, rest, "replay", "-", "--log", log); code != 0 || !strings.Contains(out, told) {
		t.Errorf("status %d, %s%s", code, out, stderr)
	}
}
