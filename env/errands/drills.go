package errands

import (
	"fmt"
	"math/rand/v2"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/toolcall"
)

// The exercises from which a base model learns to take keys that hang there, before it
// is shown whole trajectories. None of them shows which key the sign means: it is
// always taken at random. Coins are drawn in both worlds, so that a base model of one
// has seen those of the other.
const (
	keyLists  = iota // many doors without a task, one key taken at each
	shortRows        // the demonstrator at two to six doors
	drillLevels
)

const drillDoors = 10

// Levels returns the number of drill levels.
func (lessons) Levels() int { return drillLevels }

// Drill returns an exercise: ids and the mask of those to be learnt. It panics
// when the level is outside [0, Levels()).
func (l lessons) Drill(level int, seed uint64) (ids []int32, mask []bool) {
	rng := rand.New(rand.NewPCG(seed, uint64(level)))
	sheet := curriculum.NewSheet(l.renderer)
	switch level {
	case keyLists:
		for range drillDoors {
			d := newDoor(rng, 1+rng.IntN(maxDoors))
			sheet.Show(toolcall.Result(chat.ToolCall{}, d.text(drawCoins(rng))))
			sheet.LearnEnd(takeCall(d.keys[rng.IntN(keys)]), 2)
		}
	case shortRows:
		task := env.Task{ID: fmt.Sprintf("drill %d", seed), Seed: rng.Uint64()}
		sheet.Play(&environment{scale: short, coins: drawCoins(rng)}, task, newDemonstrator(rng.Uint64()))
	default:
		panic(fmt.Sprintf("errands: drill level %d: want 0 to %d", level, drillLevels-1))
	}
	return sheet.IDs, sheet.Mask
}
