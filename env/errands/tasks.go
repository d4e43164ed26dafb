// Package errands is a long row of small decisions, each of which pays later: the
// setting in which credit has to cross cuts, though never many. Behind every door
// hangs the next; a sign at each names the one of four keys that fits.
//
//	look       shows the first door
//	take(key)  takes a key and goes on to the next door
//
// A fitting key pays 1, two doors later: mostly when the window that showed its sign
// has been cut. What is unpaid at the last door is paid there.
//
// With luck there are coins at every door, as many at one as at the next, found or
// lost whichever key is taken. How many is drawn for each trajectory, not for the
// task, and stands at each door: one who reads it knows what the returns of two
// trajectories differ by that no key explains. The mean return is the same.
//
// A trajectory is one call more than there are doors, whatever is said: where no key
// that fits is taken, the door pays nothing.
package errands

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
)

var colours = []string{
	"red", "amber", "blue", "jade", "white", "black", "green", "violet", "silver", "brown", "pink", "teal",
}

// World returns the errands without luck, with what a base model is cloned from.
func World() curriculum.World { return world(tasks{name: "errands"}) }

// WithLuck returns the same world but for the coins. One base model does for both.
func WithLuck() curriculum.World { return world(tasks{name: "errands-luck", luck: true}) }

func world(t tasks) curriculum.World {
	return curriculum.NewWorld(t, words(), tools(), func(renderer *chat.Words) curriculum.Curriculum { return lessons{renderer} })
}

// tasks is the family of errands.
type tasks struct {
	name string
	luck bool
}

func (t tasks) Name() string { return t.name }

func (tasks) Len(env.Split) int { return env.Seeds }

func (t tasks) Task(split env.Split, i int) env.Task {
	return env.Task{ID: fmt.Sprintf("%s-%s-%d", t.name, split, i), Seed: split.Seed(i)}
}

func (t tasks) New(seed uint64) env.Environment {
	e := &environment{scale: full}
	if t.luck {
		e.coins = drawCoins(rand.New(rand.NewPCG(seed, streamCoins)))
	}
	return e
}

// streamCoins is apart from the streams 0, 1, 2, … of one seed, which a trajectory's
// replies are sampled from.
const streamCoins = 1 << 32

func drawCoins(rng *rand.Rand) int { return rng.IntN(2*maxCoins+1) - maxCoins }

// lessons is what a base model of these worlds is cloned from.
type lessons struct{ renderer *chat.Words }

// Expert returns the agent that takes the key of the sign.
func (lessons) Expert() curriculum.Actor { return expert{} }

// Demonstrator returns the agent that takes any of the keys.
func (lessons) Demonstrator(seed uint64) curriculum.Actor { return newDemonstrator(seed) }

// words lists every word that a message of this environment can hold. Coins are words
// of their own, apart from the numbers of doors.
func words() []string {
	all := []string{
		"use", "look", "and", "take", // tools
		"open", "doors", // task
		"door", ":", "the", "sign", "says", "keys", "coins", ".", "done", // results
	}
	for number := range maxDoors {
		all = append(all, strconv.Itoa(number+1))
	}
	for coins := -maxCoins; coins <= maxCoins; coins++ {
		all = append(all, coinWord(coins))
	}
	return append(all, colours...)
}

// The arguments of the tools.
type (
	noArguments   struct{}
	takeArguments struct {
		Key string `json:"key"`
	}
)

func tools() []chat.Tool {
	return []chat.Tool{
		{Name: "look", Description: "Shows the first door.", Parameters: json.RawMessage(`{"type": "object", "properties": {}}`)},
		{Name: "take", Description: "Takes one key and goes on to the next door.", Parameters: json.RawMessage(`{
		"type": "object",
		"properties": {"key": {"type": "string", "description": "colour of the key"}},
		"required": ["key"]
	}`)},
	}
}
