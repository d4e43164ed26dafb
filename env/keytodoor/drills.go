package keytodoor

import (
	"fmt"
	"math/rand/v2"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/filler"
	"github.com/infinirl/infinirl/env/toolcall"
)

// The exercises from which a base model learns to count down and to take keys that
// hang there, before it is shown whole trajectories. None of them shows which key the
// sign means: it is always taken at random.
const (
	countdowns     = iota // a corridor of full length with little to see
	keyLists              // many signs and keys, one key taken of each
	shortCorridors        // the demonstrator in one to three rooms
	drillLevels
)

const drillSigns = 12

// Levels returns the number of drill levels.
func (lessons) Levels() int { return drillLevels }

// Drill returns an exercise: ids and the mask of those to be learnt. It panics
// when the level is outside [0, Levels()).
func (l lessons) Drill(level int, seed uint64) (ids []int32, mask []bool) {
	rng := rand.New(rand.NewPCG(seed, uint64(level)))
	sheet := curriculum.NewSheet(l.renderer)
	switch level {
	case countdowns:
		drillCountdown(sheet, rng)
	case keyLists:
		for range drillSigns {
			w := newWorld(rng.Uint64(), full)
			sheet.Show(lookCall(), toolResult(w.signText()))
			sheet.LearnEnd(takeCall(w.keys[rng.IntN(keys)]), 2)
		}
	case shortCorridors:
		task := env.Task{ID: fmt.Sprintf("drill %d", seed), Seed: rng.Uint64()}
		sheet.Play(&environment{scale: short}, task, newDemonstrator(rng.Uint64()))
	default:
		panic(fmt.Sprintf("keytodoor: drill level %d: want 0 to %d", level, drillLevels-1))
	}
	return sheet.IDs, sheet.Mask
}

// drillCountdown walks a corridor of full length with little to see.
func drillCountdown(sheet *curriculum.Sheet, rng *rand.Rand) {
	w := newWorld(rng.Uint64(), full)
	view := func() chat.Message {
		return toolResult(filler.Text(rng, filler.Shortest+rng.IntN(filler.Longest-filler.Shortest+1)))
	}
	sheet.Show(chat.Message{Role: chat.System, Content: systemText}, chat.Message{Role: chat.User, Content: w.taskText()})
	sheet.Learn(lookCall())
	sheet.Show(toolResult(w.signText()))
	sheet.Learn(takeCall(w.keys[rng.IntN(keys)]))
	for room := w.rooms; room > 0; room-- {
		sheet.Show(view())
		sheet.Learn(walkCall(room))
	}
	sheet.Show(view())
	sheet.Learn(openCall())
}

func toolResult(text string) chat.Message { return toolcall.Result(chat.ToolCall{}, text) }
