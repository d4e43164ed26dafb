package token

import (
	"strings"
	"testing"
)

func TestBytes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "plain", "naïve ☃", "\xff\x00\xfe"} {
		ids, err := Bytes{}.Encode(text)
		if err != nil || len(ids) != len(text) {
			t.Fatalf("%q: %d ids, %v", text, len(ids), err)
		}
		if got := (Bytes{}).Decode(ids); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if got := (Bytes{}).Decode([]int32{-1, 'a', 256}); got != "\uFFFDa\uFFFD" {
		t.Errorf("ids out of range: %q", got)
	}
}

func TestVocabulary(t *testing.T) {
	t.Parallel()
	v, err := NewVocabulary([]string{"<|end|>", "open", "door", "<|>"})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := v.Encode(" open  door ")
	if err != nil || v.Decode(ids) != "open door" {
		t.Errorf("got %v (%q), %v", ids, v.Decode(ids), err)
	}
	if id, ok := v.Control("<|end|>"); !ok || id != 0 {
		t.Errorf("control: %d, %v", id, ok)
	}
	if _, ok := v.Control("door"); ok {
		t.Error("an ordinary word is a control token")
	}
	for text, want := range map[string]string{"open window": `word "window" is not in the vocabulary of 4 words`, "open <|end|>": "control token"} {
		if _, err := v.Encode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	for _, words := range [][]string{{"a", "a"}, {""}, {"two words"}, {"tail "}} {
		if _, err := NewVocabulary(words); err == nil {
			t.Errorf("%q: no error", words)
		}
	}
}
