package bpe

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// family is a line of testdata/families.jsonl: a small model set up as those of a family,
// and what Hugging Face's tokenizers make of texts, or of ids alone (compare/reference.py
// golden).
type family struct {
	Name      string
	Tokenizer json.RawMessage
	Cases     []struct {
		Text         *string
		IDs, Wrapped []int32
		Decoded      string
	}
}

func families(t testing.TB) []family {
	t.Helper()
	data, err := os.ReadFile("testdata/families.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []family
	for line := range bytes.Lines(data) {
		var f family
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	if len(all) < 16 {
		t.Fatalf("%d families", len(all))
	}
	return all
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	for _, f := range families(t) {
		tokenizer, err := Read(bytes.NewReader(f.Tokenizer))
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		for _, c := range f.Cases {
			if c.Text != nil {
				ids := rendered(t, tokenizer, *c.Text)
				if !slices.Equal(ids, c.IDs) {
					t.Errorf("%s: %q: got %v, want %v", f.Name, *c.Text, ids, c.IDs)
				}
				if got := tokenizer.Wrap(ids); !slices.Equal(got, c.Wrapped) {
					t.Errorf("%s: %q: wrapped %v, want %v", f.Name, *c.Text, got, c.Wrapped)
				}
			}
			if got := tokenizer.Decode(c.IDs); got != c.Decoded {
				t.Errorf("%s: %v: decoded %q, want %q", f.Name, c.IDs, got, c.Decoded)
			}
			var text strings.Builder
			s := tokenizer.Stream()
			for range 2 { // the second time as new
				text.Reset()
				for _, id := range c.IDs {
					text.WriteString(s.Next(id))
				}
				text.WriteString(s.Flush())
			}
			if text.String() != c.Decoded {
				t.Errorf("%s: %v: decoded one by one %q, want %q", f.Name, c.IDs, text.String(), c.Decoded)
			}
		}
	}
}

// A long piece is cut where no merge crosses, and is none the different for it.
func TestLongPiecesOfCharacters(t *testing.T) {
	t.Parallel()
	tokenizer, err := Read(bytes.NewReader(families(t)[0].Tokenizer))
	if err != nil {
		t.Fatal(err)
	}
	if !tokenizer.model.complete {
		t.Error("no piece would be cut")
	}
	text := strings.Repeat("the cat sat 中文 on thethe 12345 house🙂. ", 400)
	got := rendered(t, tokenizer, text)
	tokenizer.model.complete = false
	if want := rendered(t, tokenizer, text); !slices.Equal(got, want) {
		t.Errorf("%d ids, want %d", len(got), len(want))
	}
}
