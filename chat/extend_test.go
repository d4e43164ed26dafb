package chat

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tokenPairs reads ids that an engine saw beside those after rendering again.
func tokenPairs(t *testing.T, name string) map[string][]int32 {
	t.Helper()
	path := filepath.Join("..", "..", "shared", "data", name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no recorded data at %s", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	var pairs map[string][]int32
	if err := json.Unmarshal(data, &pairs); err != nil {
		t.Fatal(err)
	}
	return pairs
}

// TestExtendRecorded extends conversations of a Qwen model whose ids differ after
// rendering again: the ids that were seen stay.
func TestExtendRecorded(t *testing.T) {
	t.Parallel()
	const imEnd = 151645
	pairs := tokenPairs(t, "nemorl_correct_merged_tokens.json")
	seen, rendered, want := pairs["seen_token_ids"], pairs["output_prompt_token_ids"], pairs["expected_output"]
	if slices.Equal(rendered[:len(seen)], seen) {
		t.Fatal("rendering again changes nothing: the pair shows nothing")
	}
	got, err := Extend(seen, rendered, imEnd)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d ids, %v; want %d", len(got), err, len(want))
	}
	pairs = tokenPairs(t, "nemorl_replace_prefix_tokens.json")
	seen, rendered = pairs["model_token_ids"], pairs["template_token_ids"]
	if slices.Equal(rendered, seen) {
		t.Fatal("rendering again changes nothing: the pair shows nothing")
	}
	if got, err := Extend(seen, rendered, imEnd); err != nil || !slices.Equal(got, seen) {
		t.Errorf("%d ids, %v; want the %d that were seen", len(got), err, len(seen))
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	const end = 9
	for _, c := range []struct {
		name           string
		seen, rendered []int32
		want           []int32
		err            string
	}{
		{"nothing seen", nil, []int32{1, 9}, []int32{1, 9}, ""},
		{"other ids before", []int32{1, 2, 9}, []int32{12, 9, 3, 9, 4}, []int32{1, 2, 9, 3, 9, 4}, ""},
		{"generation prefix", []int32{1, 9, 5}, []int32{2, 9, 5, 6, 9}, []int32{1, 9, 5, 6, 9}, ""},
		{"fewer turns", []int32{1, 9, 2, 9}, []int32{1, 9}, nil, "it renders 1 turns, 2 were seen"},
		{"other prefix", []int32{1, 9, 5}, []int32{1, 9, 4}, nil, "token 0 after turn 1 is not the 5"},
		{"prefix missing", []int32{1, 9, 5}, []int32{1, 9}, nil, "token 0 after turn 1"},
	} {
		got, err := Extend(c.seen, c.rendered, end)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}
