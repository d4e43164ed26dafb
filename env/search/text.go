package search

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/env/filler"
)

const systemText = "use search , then open , then answer ."

// Streams of randomness of one world, beside the world itself (0): a page is the
// same whenever it is opened, whatever was done before.
const (
	listingStream = 1
	pageStream    = 2 // + entityID
)

// taskText writes the question. The steps are numbered down to 1; before each
// key stands its label, so that the key is what follows the label:
//
//	find the physician Ada Byron : 4 physician 3 employer 2 headquarters 1 mayor ?
func (q question) taskText() string {
	words := []string{"find the", q.occupation, q.name, ":"}
	keys := append([]string{q.occupation}, q.hops...)
	for i, key := range keys {
		words = append(words, strconv.Itoa(len(keys)-i), key)
	}
	return strings.Join(append(words, "?"), " ")
}

// listingText writes the bearers of a name in random order:
//
//	found : baker Q45 . physician Q12 . pilot Q88 .
func (w *world) listingText(name string) (text string, found bool) {
	listing, found := w.listings[name]
	if !found {
		return "", false
	}
	rng := rand.New(rand.NewPCG(w.seed, listingStream))
	lines := []string{"found :"}
	for _, i := range rng.Perm(len(listing)) {
		lines = append(lines, listing[i].occupation+" "+listing[i].id.handle()+" .")
	}
	return strings.Join(lines, " "), true
}

// pageText writes the facts of an entity in random order among filler, at least
// minWords and at most maxWords words together:
//
//	page of Q12 : the old river waits . employer Q33 . the clock hums . …
func (w *world) pageText(id entityID, minWords, maxWords int) string {
	rng := rand.New(rand.NewPCG(w.seed, pageStream+uint64(id)))
	lines := make([]string, len(w.facts[id]))
	for i, f := range w.facts[id] {
		lines[i] = f.relation + " " + f.target.handle() + " ."
	}
	return page(rng, id, lines, minWords+rng.IntN(maxWords-minWords+1))
}

// page shuffles lines of three words among filler, words words together if the
// lines leave room for that many.
func page(rng *rand.Rand, id entityID, lines []string, words int) string {
	if rest := words - 4 - 3*len(lines); rest >= filler.Shortest {
		for _, sentence := range filler.Sentences(rng, rest) {
			lines = append(lines, strings.Join(sentence, " "))
		}
	}
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return "page of " + id.handle() + " : " + strings.Join(lines, " ")
}
