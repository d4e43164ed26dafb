package trajectory

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/condense"
)

// TestReplay derives the prompts of all cuts from their rows alone, and finds every
// changed token of what is shown again.
func TestReplay(t *testing.T) {
	t.Parallel()
	for _, name := range cuts {
		tr, _ := recutDialogue(t, name)
		rows, err := tr.Samples()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Replay(rows)
		if err != nil || got.Matching != len(rows) || got.Prompts != len(rows) || len(got.Mismatches) > 0 {
			t.Fatalf("%s: %+v, %v; want %d matching prompts", name, got, err, len(rows))
		}
		tokens := 0
		for _, row := range rows {
			tokens += len(row.Prompt)
		}
		if got.Tokens != tokens || len(rows) > 1 && got.Known == 0 {
			t.Errorf("%s: compared %d of %d tokens, the rows have %d", name, got.Known, got.Tokens, tokens)
		}
		// What was known is known, and any change in it is found where it is.
		found := 0
		for k := 1; k < len(rows); k++ {
			for at := 0; at < len(rows[k].Prompt); at += 7 {
				changed := slices.Clone(rows)
				changed[k].Prompt = slices.Clone(rows[k].Prompt)
				changed[k].Prompt[at] ^= 1
				again, err := Replay(changed)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range again.Mismatches {
					// A message shown first here, and changed, differs where it is shown again.
					if m.InvIter == rows[k].InvIter && m.Token != at || m.InvIter > rows[k].InvIter || m.Got^1 != m.Want {
						t.Fatalf("%s: token %d of segment %d changed, found %v", name, at, k, m)
					}
				}
				found += len(again.Mismatches)
			}
		}
		if len(rows) > 1 && found == 0 {
			t.Errorf("%s: no change was found", name)
		}
	}
}

// TestReplayOfALog finds every change of a row, in the field in which it is.
func TestReplayOfALog(t *testing.T) {
	t.Parallel()
	tr, _ := recutDialogue(t, "tool-fifo")
	for i := range tr.Entries {
		if e := &tr.Entries[i]; e.Sampled() {
			e.LogProbs = slices.Repeat([]float32{-0.5}, e.End-e.Start)
		}
	}
	record := func(from, to string) func(*Sample) {
		return func(s *Sample) { s.Condense = []byte(strings.Replace(string(s.Condense), from, to, 1)) }
	}
	for _, c := range []struct {
		name   string
		change func(*Sample)
		want   []string // the fields that differ
		say    string
	}{
		{"nothing", func(*Sample) {}, nil, ""},
		{"prompt", func(s *Sample) { s.Prompt[3] ^= 1 }, []string{"prompt_ids"}, "prompt token 3, of message 0, is "},
		{"prompt cut off", func(s *Sample) { s.Prompt = s.Prompt[:5] }, []string{"prompt_ids"}, "is missing and derives as "},
		{"response", func(s *Sample) { s.Response[0] = 7 }, []string{"response_ids"}, "response token 0 is 7 and derives as "},
		{"response longer", func(s *Sample) {
			s.Response, s.Mask, s.LogProbs = append(s.Response, 7), append(s.Mask, true), append(s.LogProbs, -1)
		}, []string{"response_ids", "loss_mask"}, "is 7 and derives as missing"},
		{"mask", func(s *Sample) { s.Mask[0] = !s.Mask[0] }, []string{"loss_mask"}, "loss_mask of response token 0 is 0 and derives as 1"},
		{"log-probs", func(s *Sample) { s.LogProbs[1] = -0.25 }, []string{"rollout_log_probs"}, "rollout_log_probs of response token 1 is -0.25 and derives as -0.5"},
		{"log-probs not known", func(s *Sample) { s.LogProbs = nil }, nil, ""},
		{"keep", record(`"keep":[[`, `"keep":[[0,1],[`), []string{"condense.keep"}, "condense.keep is [[0,1],["},
		{"version", record(`"version":1`, `"version":2`), []string{"condense.version"}, "condense.version is 2 and derives as 1"},
		{"lengths", record(`"lengths":[`, `"lengths":[1,`), []string{"condense.lengths"}, "condense.lengths is [1,"},
		{"unknown field", record(`"rule"`, `"role"`), []string{"condense.role"}, `condense.role is "tool-fifo" and derives as missing`},
		{"no object", func(s *Sample) { s.Condense = []byte("[]") }, []string{"condense"}, "condense is [] and derives as {"},
		{"other order", func(s *Sample) {
			var fields map[string]any
			if err := json.Unmarshal(s.Condense, &fields); err != nil {
				t.Fatal(err)
			}
			s.Condense, _ = json.MarshalIndent(fields, "", " ")
		}, nil, ""},
	} {
		rows, err := tr.Samples()
		if err != nil {
			t.Fatal(err)
		}
		c.change(&rows[1])
		got, err := tr.Replay(rows)
		if err != nil || got.Prompts != len(rows) || (got.Matching == len(rows)) != (c.want == nil) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
			continue
		}
		var fields []string
		for _, m := range got.Mismatches {
			fields = append(fields, m.Field)
			if !strings.HasPrefix(m.String(), "trajectory tool-fifo, inv_iter 3: ") {
				t.Errorf("%s: %s", c.name, m)
			}
		}
		if !slices.Equal(fields, c.want) || c.want != nil && !strings.Contains(got.Mismatches[0].String(), c.say) {
			t.Errorf("%s: %v, want %v with %q", c.name, got.Mismatches, c.want, c.say)
		}
	}
}

func TestReplayErrors(t *testing.T) {
	t.Parallel()
	tr, _ := recutDialogue(t, "tool-fifo")
	rows, err := tr.Samples()
	if err != nil {
		t.Fatal(err)
	}
	short := slices.Clone(rows)
	short[1].Prompt = short[1].Prompt[:100]
	if got, err := Replay(short); err != nil || got.Matching == len(rows) || got.Mismatches[0].Token != 100 || got.Mismatches[0].Got != unknown {
		t.Errorf("a prompt cut off: %+v, %v", got, err)
	}
	for _, c := range []struct{ from, to, want string }{
		{`"rule"`, `"role"`, "unknown field"},
		{`"lengths":[`, `"lengths":[1,`, "lengths: "},
		{`"version":1`, `"version":2`, "version: 2"},
		{`"tokens_after":`, `"tokens_after":1`, "tokens_after: "},
	} {
		changed := slices.Clone(rows)
		changed[1].Condense = []byte(strings.Replace(string(rows[1].Condense), c.from, c.to, 1))
		if _, err := Replay(changed); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "trajectory tool-fifo, inv_iter 3") {
			t.Errorf("%s: error %v, want %q", c.to, err, c.want)
		}
	}
}

// TestCost counts what Cost counts from the prompts themselves.
func TestCost(t *testing.T) {
	t.Parallel()
	for _, name := range cuts {
		tr, _ := recutDialogue(t, name)
		var want Cost
		var cache []int32
		for k := range tr.Segments {
			s := &tr.Segments[k]
			want.Dropped += max(0, s.Record.TokensBefore-s.Record.TokensAfter)
			prompt, err := tr.Prompt(k)
			if err != nil {
				t.Fatal(err)
			}
			prompt = prompt[:len(prompt)-tr.Entries[s.Start].Start]
			for _, e := range tr.Entries[s.Start:s.End] {
				if e.Sampled() {
					context := slices.Concat(prompt, e.IDs[:e.Start])
					shared := 0
					for shared < min(len(cache), len(context)) && cache[shared] == context[shared] {
						shared++
					}
					want.Replies++
					want.Prompt += len(context)
					want.Reused += shared
					want.Decode += e.End - e.Start
					cache = slices.Concat(context, e.IDs[e.Start:e.End])
				}
				prompt = append(prompt, e.IDs...)
			}
		}
		if got, err := tr.Cost(); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var all []*Trajectory
	for _, name := range cuts {
		tr, _ := recutDialogue(t, name)
		all = append(all, tr)
	}
	sampled, _ := play(t, condense.Config{Rule: condense.ToolFIFO, High: 29, Low: 15, Options: condense.Options{"mode": condense.Pair}})
	all = append(all, sampled)
	var b bytes.Buffer
	if err := WriteAll(&b, all); err != nil {
		t.Fatal(err)
	}
	back, err := ReadAll("f", bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		want, err := all[i].Samples()
		if err != nil {
			t.Fatal(err)
		}
		got, err := back[i].Samples()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: rows differ after reading back, %v", all[i].ID, err)
		}
		if !reflect.DeepEqual(back[i].Entries, all[i].Entries) {
			t.Errorf("%s: the log differs after reading back", all[i].ID)
		}
	}

	line, err := json.Marshal(all[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{`"form":"infinirl-trajectory"`, `"form":"other"`, `form: "other"`},
		{`"status":"finished"`, `"status":"fine"`, `status "fine"`},
		{`"sampled":[22,`, `"sampled":[22000,`, "entries[2].sampled"},
		{`"inv_iter":0`, `"inv_iter":1`, "segments[0].inv_iter: 1, want 0"},
		{`"start":2`, `"start":3`, "segments[0].condense.messages: 2, want 3"},
		{`"end":`, `"end":1`, "segments[0]: entries"},
		{`"group_id"`, `"team_id"`, "unknown field"},
		{`"rule":"none"`, `"rules":"none"`, "segments[0].condense"},
	} {
		text := strings.Replace(string(line), c.from, c.to, 1)
		if _, err := ReadAll("f", strings.NewReader("\n"+text)); err == nil || !strings.HasPrefix(err.Error(), "f:2: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.to, err, c.want)
		}
	}
	if _, err := ReadAll("f", bytes.NewReader(line[:len(line)/2])); err == nil || !strings.HasPrefix(err.Error(), "f:1: ") {
		t.Errorf("half a line: error %v", err)
	}
}
