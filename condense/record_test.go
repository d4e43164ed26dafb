package condense

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// numbers is a log in which message i has i+1 ids, all 10*i and more.
type numbers int

func (n numbers) Len() int { return int(n) }

func (n numbers) IDs(i int) []int32 {
	var ids []int32
	for k := range i + 1 {
		ids = append(ids, int32(10*i+k))
	}
	return ids
}

var example = Record{Version: 1, Rule: ToolClear, RuleVersion: 1, Messages: 8, Keep: []Range{{0, 2}, {4, 8}},
	Replace:      []Replacement{{Kind: Blank, Indices: []int{4, 6}, Text: "<gone>", IDs: []int32{7, 8}}, {Kind: Cut, Indices: []int{7}, Text: "[5 tokens cut]", IDs: []int32{9}, Head: 2, Cut: 5, Tail: 1}},
	TokensBefore: 33, TokensAfter: 17, Lengths: []int{6, 7, 8}}

const exampleJSON = `{"version":1,"rule":"tool-clear","rule_version":1,"messages":8,"keep":[[0,2],[4,8]],` +
	`"replace":[{"kind":"blank","indices":[4,6],"text":"<gone>","ids":[7,8]},{"kind":"cut","indices":[7],"text":"[5 tokens cut]","ids":[9],"head":2,"cut":5,"tail":1}],` +
	`"tokens_before":33,"tokens_after":17,"lengths":[6,7,8]}`

// TestRecord fixes the canonical form, its digest, and the prompt that a record
// gives with a log.
func TestRecord(t *testing.T) {
	t.Parallel()
	if got := string(example.JSON()); got != exampleJSON {
		t.Errorf("JSON\n got %s\nwant %s", got, exampleJSON)
	}
	back, err := ParseRecord([]byte(exampleJSON))
	if err != nil || !reflect.DeepEqual(back, example) {
		t.Errorf("read back %+v, %v", back, err)
	}
	changed := example
	changed.Keep = []Range{{0, 2}, {5, 8}}
	if changed.Digest() == example.Digest() {
		t.Error("records that differ have one digest")
	}
	got, err := example.Prompt([]int32{-1}, numbers(8))
	want := []int32{-1, 0, 10, 11, 7, 8, 50, 51, 52, 53, 54, 55, 7, 8, 70, 71, 9, 77}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("prompt %v, %v; want %v", got, err, want)
	}
	if _, err := example.Prompt(nil, numbers(7)); err == nil || !strings.Contains(err.Error(), "8 messages, the log has 7") {
		t.Errorf("a log that is too short: error %v", err)
	}
	cut := example
	cut.Replace = []Replacement{{Kind: Cut, Indices: []int{7}, Head: 2, Cut: 6, Tail: 1}}
	if _, err := cut.Prompt(nil, numbers(8)); err == nil || !strings.Contains(err.Error(), "message 7 has 8 tokens, its cut speaks of 9") {
		t.Errorf("a cut of another message: error %v", err)
	}
	if got := example.Kept(); got != 6 {
		t.Errorf("%d messages kept, want 6", got)
	}
}

func TestParseRecordErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, want string }{
		{`{"version":1`, `{"version":2`, "version: 2, want 1"},
		{`"messages":8`, `"messages":-1`, "messages: -1"},
		{`"messages":8`, `"messages":7`, "keep: range [4,8]"},
		{`[[0,2],`, `[[2,2],`, "keep: range [2,2]"},
		{`[[0,2],`, `[[0,4],`, "keep: range [4,8]"},
		{`[[0,2],`, `[[-1,2],`, "keep: range [-1,2]"},
		{`[[0,2],`, `[[0,2,3],`, "want [start,end]"},
		{`"kind":"blank"`, `"kind":"hide"`, `kind "hide"`},
		{`"indices":[4,6]`, `"indices":[3,6]`, "message 3 is not kept"},
		{`"indices":[4,6]`, `"indices":[4,7]`, "message 7 is not kept, or is replaced twice"},
		{`"head":2`, `"head":-2`, "head -2"},
		{`"lengths":[6,7,8]`, `"lengths":[6,-7,8]`, "lengths: "},
		{`"lengths":[6,7,8]`, `"lengths":[0,0,0,0,0,0,0,0,0]`, "lengths: 9 of 8"},
		{`"rule"`, `"role"`, "unknown field"},
		{`"rule_version":1`, `"rule_version":"1"`, "rule_version"},
		{exampleJSON, "", "condense record: "},
	} {
		text := strings.Replace(exampleJSON, c.from, c.to, 1)
		if _, err := ParseRecord([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.to, err, c.want)
		}
	}
}

// FuzzParseRecord checks that a record that was accepted gives a prompt or an
// error, and is written as it was read.
func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(exampleJSON))
	f.Add([]byte(KeepAll(3, 6).JSON()))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRecord(text)
		if err != nil {
			return
		}
		if back, err := ParseRecord(r.JSON()); err != nil || back.Digest() != r.Digest() {
			t.Fatalf("%s is read back as %s, %v", r.JSON(), back.JSON(), err)
		}
		if _, err := r.Prompt(nil, numbers(8)); err == nil && r.Messages > 8 {
			t.Errorf("%s: a prompt from a log that is too short", r.JSON())
		}
	})
}
