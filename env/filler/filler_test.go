package filler

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSentencesHaveTheAskedLength(t *testing.T) {
	t.Parallel()
	known := Words()
	for n := range 120 {
		if n > 0 && n < Shortest {
			continue
		}
		for seed := range uint64(20) {
			total := 0
			for _, s := range Sentences(rand.New(rand.NewPCG(seed, 0)), n) {
				if len(s) < Shortest || len(s) > Longest || s[len(s)-1] != "." || slices.Index(s, ".") != len(s)-1 {
					t.Fatalf("n=%d: sentence %q", n, s)
				}
				for _, word := range s {
					if !slices.Contains(known, word) {
						t.Fatalf("n=%d: %q is not among Words", n, word)
					}
				}
				total += len(s)
			}
			if total != n {
				t.Fatalf("n=%d: the sentences have %d words", n, total)
			}
		}
	}
}

func TestWordsAreDistinct(t *testing.T) {
	t.Parallel()
	words := Words()
	slices.Sort(words)
	if n := len(slices.Compact(slices.Clone(words))); n != len(words) {
		t.Errorf("%d words, %d distinct", len(words), n)
	}
}
