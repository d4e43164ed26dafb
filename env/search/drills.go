package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/toolcall"
)

// The exercises from which a base model learns to copy what follows a key, and to
// count down, before it is shown whole trajectories. None of them shows which bearer
// the task means: wherever one is chosen, it is chosen at random.
const (
	lookups     = iota // a page with little filler, then queries
	fullLookups        // the same on a page of full length
	countdowns         // a full-length question over tiny pages, without errors
	shortChains        // the demonstrator on questions of one to three hops
	drillLevels
)

const (
	drillRelations   = 5
	drillOccupations = 3
	drillQueries     = 16
)

// Levels returns the number of drill levels.
func (lessons) Levels() int { return drillLevels }

// Drill returns an exercise: ids and the mask of those to be learnt. It panics
// when the level is outside [0, Levels()).
func (l lessons) Drill(level int, seed uint64) (ids []int32, mask []bool) {
	rng := rand.New(rand.NewPCG(seed, uint64(level)))
	sheet := curriculum.NewSheet(l.renderer)
	switch level {
	case lookups:
		drillLookups(sheet, rng, 40)
	case fullLookups:
		drillLookups(sheet, rng, full.minPage+rng.IntN(full.maxPage-full.minPage+1))
	case countdowns:
		drillCountdown(sheet, rng)
	case shortChains:
		task := env.Task{ID: fmt.Sprintf("drill %d", seed), Seed: rng.Uint64()}
		sheet.Play(&environment{scale: short}, task, newDemonstrator(rng.Uint64()))
	default:
		panic(fmt.Sprintf("search: drill level %d: want 0 to %d", level, drillLevels-1))
	}
	return sheet.IDs, sheet.Mask
}

// drillLookups shows a page of relations and occupations and asks for every one in
// turn. Label and key are given; what follows the key on the page is learnt.
func drillLookups(sheet *curriculum.Sheet, rng *rand.Rand, words int) {
	lines := append(
		randomLines(rng, relationNames(), drillRelations),
		randomLines(rng, occupations, drillOccupations)...)
	sheet.Show(toolResult(pageOf(rng, lines, words)))
	for asked := 0; asked < drillQueries; {
		for _, i := range rng.Perm(len(lines)) {
			sheet.LearnEnd(stepCall(1+rng.IntN(maxLabel), lines[i]), 2)
			asked++
		}
	}
}

// drillCountdown walks through a question of full length. Every page holds one to
// three facts, the one asked for among them, so that many steps stand close
// together and the nearest page is the one that counts.
func drillCountdown(sheet *curriculum.Sheet, rng *rand.Rand) {
	w := newWorld(rng.Uint64(), minHops, maxHops)
	q := w.question
	sheet.Show(chat.Message{Role: chat.System, Content: systemText}, chat.Message{Role: chat.User, Content: q.taskText()})
	sheet.Learn(searchCall(q.name))
	listing, _ := w.listingText(q.name)
	sheet.Show(toolResult(listing))

	candidates := readLines(listing)
	next := candidates[rng.IntN(len(candidates))]
	names := relationNames()
	for i, hop := range q.hops {
		sheet.Learn(stepCall(len(q.hops)+1-i, next))
		others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == hop })
		lines := randomLines(rng, others, rng.IntN(3))
		next = randomLines(rng, []string{hop}, 1)[0]
		lines = append(lines, next)
		sheet.Show(toolResult(pageOf(rng, lines, rng.IntN(24))))
	}
	sheet.Learn(stepCall(1, next))
}

// randomLines draws n distinct keys, each with an entity of its own.
func randomLines(rng *rand.Rand, keys []string, n int) []line {
	ids := rng.Perm(entities)
	lines := make([]line, n)
	for i, k := range rng.Perm(len(keys))[:n] {
		lines[i] = line{keys[k], entityID(ids[i]).handle()}
	}
	return lines
}

// pageOf writes lines as the page of a random entity, words words long if they
// leave room for that many.
func pageOf(rng *rand.Rand, lines []line, words int) string {
	var text []string
	for _, l := range lines {
		text = append(text, strings.Join([]string{l.key, l.entity, "."}, " "))
	}
	return page(rng, entityID(rng.IntN(entities)), text, words)
}

func toolResult(text string) chat.Message { return toolcall.Result(chat.ToolCall{}, text) }

func relationNames() []string {
	var names []string
	for _, r := range relations {
		names = append(names, r.name)
	}
	return names
}
