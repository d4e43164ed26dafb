package bpe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestCharacters compares models of characters, and steps before ByteLevel, with what
// Hugging Face's tokenizers made of some texts (compare/reference.py golden).
func TestCharacters(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/characters.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var line struct {
			Tokenizer json.RawMessage
			Cases     []struct {
				Text, Decoded string
				IDs, Wrapped  []int32
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		tokenizer, err := Read(bytes.NewReader(line.Tokenizer))
		if err != nil {
			t.Errorf("setting %d: %v", n, err)
			continue
		}
		for _, c := range line.Cases {
			ids := rendered(t, tokenizer, c.Text)
			if !slices.Equal(ids, c.IDs) {
				t.Errorf("setting %d: %q: got %v, want %v", n, c.Text, ids, c.IDs)
			}
			if got := tokenizer.Wrap(ids); !slices.Equal(got, c.Wrapped) {
				t.Errorf("setting %d: %q: wrapped %v, want %v", n, c.Text, got, c.Wrapped)
			}
			if got := tokenizer.Decode(c.IDs); got != c.Decoded {
				t.Errorf("setting %d: %v: decoded %q, want %q", n, c.IDs, got, c.Decoded)
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
				t.Errorf("setting %d: %v: decoded one by one %q, want %q", n, c.IDs, text.String(), c.Decoded)
			}
		}
	}
	if err := lines.Err(); err != nil || n < 7 {
		t.Errorf("%d settings, %v", n, err)
	}
}

// A long piece is cut where no merge crosses, and is none the different for it.
func TestLongPiecesOfCharacters(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/characters.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var line struct{ Tokenizer json.RawMessage }
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&line); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := Read(bytes.NewReader(line.Tokenizer))
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
