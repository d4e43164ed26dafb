package search

import (
	"slices"
	"strconv"

	"github.com/infinirl/infinirl/env/filler"
)

// The closed vocabulary of the encyclopedia.
var (
	occupations = []string{
		"astronomer", "baker", "botanist", "carpenter", "chemist", "composer", "dentist", "diver",
		"farmer", "geologist", "historian", "jeweller", "judge", "librarian", "mason", "nurse",
		"painter", "physician", "pilot", "poet", "sailor", "sculptor", "tailor", "teacher",
	}
	firstNames = []string{
		"Ada", "Bela", "Clara", "Dara", "Elias", "Flora", "Goran", "Hedda", "Ivo", "Jonas", "Karin", "Lena",
	}
	lastNames = []string{
		"Adler", "Byron", "Castell", "Dahl", "Eriksen", "Fontaine", "Grimaldi", "Holm", "Ibsen", "Jansen", "Keller", "Lund",
	}
)

// maxLabel is the label of the choice of the bearer in the longest question.
const maxLabel = maxHops + 1

// words lists every word that a message of this environment can hold.
func words() []string {
	all := []string{
		"use", "search", "then", "open", "and", "answer", ",", ".", // system
		"find", "the", ":", "?", // task
		"found", "page", "of", "right", "wrong", // results
		"error", "call", "one", "tool", "unknown", "name", "entity", "arguments", "too", "many", "calls",
		"summary", "cleared", // what condensers write
	}
	for label := range maxLabel {
		all = append(all, strconv.Itoa(label+1))
	}
	for _, r := range relations {
		all = append(all, r.name)
	}
	all = slices.Concat(all, occupations, firstNames, lastNames, filler.Words())
	for id := range entityID(entities) {
		all = append(all, id.handle())
	}
	return distinct(all)
}

// distinct drops repeated words and keeps the order of first appearance.
func distinct(words []string) []string {
	seen := make(map[string]bool, len(words))
	return slices.DeleteFunc(words, func(word string) bool {
		repeated := seen[word]
		seen[word] = true
		return repeated
	})
}
