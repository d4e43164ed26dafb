package batch

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/safetensors"
	"github.com/infinirl/infinirl/trajectory"
)

// played is a trajectory of two segments: two replies of two tokens, the second of
// which earned the reward. Log-probs may be unknown.
func played(id string, reward float64, logProbs bool) *trajectory.Trajectory {
	t := &trajectory.Trajectory{ID: id, GroupID: "g", Status: trajectory.Finished, Score: 5, HasScore: true}
	t.Entries = []trajectory.Entry{
		{Message: chat.Message{Role: chat.User}, IDs: []int32{1, 2, 3}, Round: -1},
		{Message: chat.Message{Role: chat.Assistant}, IDs: []int32{4, 5}, End: 2, Round: -1, Versions: trajectory.Versions{First: 7, Last: 7}},
		{Message: chat.Message{Role: chat.Assistant}, IDs: []int32{6, 7}, End: 2, Round: -1, Versions: trajectory.Versions{First: 8, Last: 8}, Reward: reward},
	}
	if logProbs {
		t.Entries[1].LogProbs, t.Entries[2].LogProbs = []float32{-1, -2}, []float32{-3, -4}
	}
	window := condense.Record{Messages: 1, Keep: []condense.Range{{Start: 0, End: 1}}}
	t.Segments = []trajectory.Segment{{Record: window, Start: 1, End: 2, InvIter: 1}, {Record: window, Start: 2, End: 3}}
	return t
}

func TestFromTrajectories(t *testing.T) {
	t.Parallel()
	untrained := played("u", 0, false)
	untrained.Segments[0].Untrained, untrained.Segments[1].Untrained = true, true
	for name, c := range map[string]struct {
		of                []*trajectory.Trajectory
		logProbs, rewards string
	}{
		"nothing known":                    {[]*trajectory.Trajectory{played("a", 0, false)}, "[]", "[]"},
		"log-probs":                        {[]*trajectory.Trajectory{played("a", 0, true)}, "[0 0 0 -1 -2 0 0 0 -3 -4]", "[]"},
		"log-probs of one only":            {[]*trajectory.Trajectory{played("a", 0, true), played("b", 0, false)}, "[]", "[]"},
		"log-probs where they are trained": {[]*trajectory.Trajectory{played("a", 0, true), untrained}, "[0 0 0 -1 -2 0 0 0 -3 -4 0 0 0 0 0 0 0 0 0 0]", "[]"},
		"nothing trained":                  {[]*trajectory.Trajectory{untrained}, "[]", "[]"},
		"rewards":                          {[]*trajectory.Trajectory{played("a", 2, false)}, "[]", "[0 0 0 0 0 0 0 0 0 2]"},
		"rewards of one, score of another": {[]*trajectory.Trajectory{played("a", 2, false), played("b", 0, false)}, "[]",
			"[0 0 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0 0 0 5]"},
	} {
		b, err := FromTrajectories(c.of)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := b.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, column := range []struct {
			name string
			got  []float32
			want string
		}{{"rollout_log_probs", b.RolloutLogProbs, c.logProbs}, {"rewards", b.Rewards, c.rewards}} {
			if fmt.Sprint(column.got) != column.want || (column.got == nil) != (column.want == "[]") {
				t.Errorf("%s: %s %v: want %s", name, column.name, column.got, column.want)
			}
		}
	}
	b, err := FromTrajectories([]*trajectory.Trajectory{played("a", 0, false)})
	if err != nil {
		t.Fatal(err)
	}
	r := b.Rows[1]
	if r.TrajectoryID != "a" || r.GroupID != "g" || r.InvIter != 0 || r.PromptLen != 3 || r.Score != 5 || !r.HasScore || r.PolicyVersion != 8 || r.OldestPolicyVersion != 8 {
		t.Errorf("row %+v", r)
	}
	big := played("big", 0, false)
	big.Score = 1e300
	if _, err := FromTrajectories([]*trajectory.Trajectory{played("a", 2, false), big}); err == nil || !strings.Contains(err.Error(), `trajectory "big": score 1e+300: does not fit`) {
		t.Errorf("a score beyond 32 bits: %v", err)
	}
}

// A trajectory with a score and no rewards, beside one with rewards, has its score
// on its last trainable token whatever the way into the batch.
func TestScoresBesideRewards(t *testing.T) {
	t.Parallel()
	scored := `{"trajectory_id":"s","inv_iter":1,"response_ids":[1,2],"loss_mask":[1,1]%s,"score":5}
{"trajectory_id":"s","inv_iter":0,"response_ids":[3,4],"loss_mask":[1,0]%s}
`
	rewarded := `{"trajectory_id":"r","inv_iter":0,"response_ids":[1],"loss_mask":[1],"rewards":[2],"score":9}` + "\n"
	read := func(text string) *Batch {
		b, err := ReadJSONLines(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain, zeros := fmt.Sprintf(scored, "", ""), fmt.Sprintf(scored, `,"rewards":[0,0]`, `,"rewards":[0,0]`)
	appended, under := read(plain), read(rewarded)
	if err := appended.Append(read(rewarded)); err != nil {
		t.Fatal(err)
	}
	if err := under.Append(read(plain)); err != nil {
		t.Fatal(err)
	}
	// A file of another program, with a rewards column and told which rows gave it.
	foreign := read(zeros + rewarded)
	marked := func(given ...bool) *Batch {
		var out bytes.Buffer
		if err := foreign.writeSafetensors(&out, Plain, tensor("rewards_given", given)); err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(out.Bytes())
		b, err := ParseSafetensors(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, out.Bytes()) {
			t.Error("the file in memory was written to")
		}
		return b
	}
	for name, c := range map[string]struct {
		b    *Batch
		want []float32
	}{
		"JSON Lines":             {read(plain + rewarded), []float32{0, 0, 5, 0, 2}},
		"zeros that were given":  {read(zeros + rewarded), []float32{0, 0, 0, 0, 2}},
		"zeros of one row":       {read(fmt.Sprintf(scored, "", `,"rewards":[0,0]`) + rewarded), []float32{0, 0, 0, 0, 2}},
		"appended to the scored": {appended, []float32{0, 0, 5, 0, 2}},
		"the scored appended":    {under, []float32{2, 0, 0, 5, 0}},
		"safetensors":            {foreign, []float32{0, 0, 0, 0, 2}},
		"safetensors, marked":    {marked(false, false, true), []float32{0, 0, 5, 0, 2}},
		"marked on one row":      {marked(false, true, true), []float32{0, 0, 0, 0, 2}},
	} {
		if !slices.Equal(c.b.Rewards, c.want) {
			t.Errorf("%s: rewards %v: want %v", name, c.b.Rewards, c.want)
		}
		for _, layout := range []Layout{Plain, Packed} { // and stays there
			again, err := ParseSafetensors(encode(t, c.b, layout))
			if err != nil || !slices.Equal(again.Rewards, c.want) {
				t.Errorf("%s, through %s: rewards %v, %v", name, layout, again.Rewards, err)
			}
		}
		if again := read(string(encodeLines(t, c.b))); !slices.Equal(again.Rewards, c.want) {
			t.Errorf("%s, through JSON Lines: rewards %v", name, again.Rewards)
		}
	}
	half := read(plain).Select([]int{0})
	if err := read(rewarded).Append(half); err == nil || !strings.Contains(err.Error(), `column rewards is in one batch and not in the other: scores as rewards: row 0: trajectory "s"`) {
		t.Errorf("half a trajectory without rewards: %v", err)
	}
	if half.Rewards != nil {
		t.Error("the appended batch was changed")
	}
	tooBig := strings.Replace(plain, "5", "1e308", 1)
	if _, err := ReadJSONLines(strings.NewReader(tooBig + rewarded)); err == nil || err.Error() != `line 2: trajectory "s": score 1e+308: does not fit the 32 bits of a reward` {
		t.Errorf("a score beyond 32 bits: %v", err)
	}
}

// What is not told of a row stays so in every form, and old files read as before.
func TestRowColumnsStayAbsent(t *testing.T) {
	t.Parallel()
	b, err := ReadJSONLines(strings.NewReader(`{"trajectory_id":"t","inv_iter":0,"response_ids":[1],"loss_mask":[1],"policy_version":4}`))
	if err != nil {
		t.Fatal(err)
	}
	if r := b.Rows[0]; r.HasSuccess || r.Error != "" || r.NextIDs != nil || r.OldestPolicyVersion != 4 {
		t.Errorf("row %+v: want the oldest version to be the only one, and nothing else", r)
	}
	for _, absent := range []string{"success", "error", "next_", "oldest_policy_version", "rewards"} {
		for form, data := range map[string][]byte{"JSON Lines": encodeLines(t, b), "plain": encode(t, b, Plain), "packed": encode(t, b, Packed)} {
			if bytes.Contains(data, []byte(absent)) {
				t.Errorf("%s: %s appears", form, absent)
			}
		}
	}
	b.Rows[0].OldestPolicyVersion = 0 // the first version is one like the others
	for form, back := range map[string]func() (*Batch, error){
		"JSON Lines": func() (*Batch, error) { return ReadJSONLines(bytes.NewReader(encodeLines(t, b))) },
		"packed":     func() (*Batch, error) { return ParseSafetensors(encode(t, b, Packed)) },
	} {
		again, err := back()
		if err != nil || again.Rows[0].OldestPolicyVersion != 0 || again.Rows[0].PolicyVersion != 4 {
			t.Errorf("%s: versions of %+v, %v: want 0 to 4", form, again.Rows, err)
		}
	}
}

// Row columns of other programs that cannot be right.
func TestRowTensorErrors(t *testing.T) {
	t.Parallel()
	b, err := ReadJSONLines(strings.NewReader(goodLine))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of   string
		want string
		more []safetensors.Tensor
	}{
		{"success", `tensor "success": row 0: 3: want 0 (false), 1 (true) or 2 (not told)`, []safetensors.Tensor{tensor("success", []uint8{3})}},
		{"errors without a list", `metadata errors: want a JSON array`, []safetensors.Tensor{tensor("error", []int32{0})}},
		{"ids without offsets", `tensor "next_offsets" is missing`, []safetensors.Tensor{tensor("next_ids", []int32{1})}},
		{"falling offsets", `tensor "next_offsets": entry 0: [1, 0) of 1`, []safetensors.Tensor{tensor("next_offsets", []int64{1, 0}), tensor("next_ids", []int32{1})}},
		{"offsets too far", `tensor "next_offsets": entry 0: [0, 2) of 1`, []safetensors.Tensor{tensor("next_offsets", []int64{0, 2}), tensor("next_ids", []int32{1})}},
		{"offsets too few", `tensor "next_offsets": shape [1]: want [2]`, []safetensors.Tensor{tensor("next_offsets", []int64{0})}},
		{"oldest version", `oldest_policy_version 1 after policy_version 0`, []safetensors.Tensor{tensor("oldest_policy_version", []int64{1})}},
		{"marks of two rows", `tensor "rewards_given": shape [2]: want [1]`, []safetensors.Tensor{tensor("rewards_given", []bool{true, false})}},
	} {
		var out bytes.Buffer
		if err := b.writeSafetensors(&out, Plain, c.more...); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSafetensors(out.Bytes()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v: want %s", c.of, err, c.want)
		}
	}
}
