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
