// Package filler writes distractor prose: sentences of an exact number of words
// that carry no information, for pages and corridors whose facts have to be found.
package filler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

var (
	adjectives = []string{
		"old", "quiet", "narrow", "distant", "pale", "heavy", "gentle", "broken", "early",
		"silent", "warm", "bright", "hollow", "ancient", "simple", "careful",
	}
	nouns = []string{
		"garden", "river", "letter", "window", "market", "bridge", "lantern", "harbour", "valley",
		"clock", "painting", "forest", "kitchen", "stone", "winter", "table", "tower", "meadow",
		"ladder", "mirror", "carpet", "engine",
	}
	verbs = []string{
		"rests", "waits", "stands", "shines", "turns", "fades", "sleeps", "grows", "leans", "hums", "falls",
		"lingers", "drifts",
	}
	prepositions = []string{"near", "behind", "above", "under", "beside", "beyond"}
)

// Shortest and longest sentence, in words, the full stop counted as one.
const (
	Shortest = 4
	Longest  = 9
)

// Words lists every word that sentences are made of.
func Words() []string {
	return slices.Concat([]string{"the", "."}, adjectives, nouns, verbs, prepositions)
}

// Sentences returns sentences of Shortest to Longest words that have n words
// together. It panics when no sentences can: n below 0 or from 1 to Shortest-1.
func Sentences(rng *rand.Rand, n int) [][]string {
	if n < 0 || n > 0 && n < Shortest {
		panic(fmt.Sprintf("filler: no sentences have %d words together", n))
	}
	var sentences [][]string
	for n > 0 {
		length := n
		if n > Shortest {
			length = min(n, Shortest+rng.IntN(Longest-Shortest+1))
		}
		if rest := n - length; rest > 0 && rest < Shortest {
			// The rest is too short for a sentence of its own: this one gives way
			// to it, or takes it in.
			if length = n - Shortest; length < Shortest {
				length = n
			}
		}
		sentences = append(sentences, sentence(rng, length))
		n -= length
	}
	return sentences
}

// Text returns Sentences joined by spaces.
func Text(rng *rand.Rand, n int) string {
	return strings.Join(slices.Concat(Sentences(rng, n)...), " ")
}

// sentence has length words: "the [adj] [adj] noun verb [prep the noun] .".
func sentence(rng *rand.Rand, length int) []string {
	pick := func(words []string) string { return words[rng.IntN(len(words))] }
	words := []string{"the"}
	noun := func(adjective bool) {
		if adjective {
			words = append(words, pick(adjectives))
		}
		words = append(words, pick(nouns))
	}
	if length == 6 {
		words = append(words, pick(adjectives))
	}
	noun(length == 5 || length == 6 || length >= 8)
	words = append(words, pick(verbs))
	if length >= 7 {
		words = append(words, pick(prepositions), "the")
		noun(length == 9)
	}
	return append(words, ".")
}
