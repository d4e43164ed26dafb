// Package keytodoor is a task whose reward hangs on its first decision (Hung et
// al. 2019, arXiv 1810.06721). A sign names the colour of the key that opens a
// door; one of four keys is taken; then come rooms with nothing to learn in them;
// at the end the door opens or does not.
//
//	look        shows the sign and the keys
//	take(key)   takes one of the keys, once
//	walk(step)  goes through one room; the rooms are numbered down to 1
//	open        ends the trajectory, reward 1 if the key is the one on the sign
//
// What to call next follows from the task, the last call and its result alone.
package keytodoor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/filler"
)

var colours = []string{
	"red", "amber", "blue", "jade", "white", "black", "green", "violet", "silver", "brown", "pink", "teal",
}

// World returns the key-to-door tasks, with what a base model is cloned from.
func World() curriculum.World {
	return curriculum.NewWorld(tasks{}, words(), tools(), func(renderer *chat.Words) curriculum.Curriculum { return lessons{renderer} })
}

// tasks is the family of key-to-door tasks.
type tasks struct{}

func (tasks) Name() string { return "keytodoor" }

func (tasks) Len(env.Split) int { return env.Seeds }

func (tasks) Task(split env.Split, i int) env.Task {
	return env.Task{ID: fmt.Sprintf("keytodoor-%s-%d", split, i), Seed: split.Seed(i)}
}

func (tasks) New(uint64) env.Environment { return &environment{scale: full} }

// lessons is what a base model of this world is cloned from.
type lessons struct{ renderer *chat.Words }

// Expert returns the agent that takes the key of the sign.
func (lessons) Expert() curriculum.Actor { return expert{} }

// Demonstrator returns the agent that takes any of the keys.
func (lessons) Demonstrator(seed uint64) curriculum.Actor { return newDemonstrator(seed) }

// words lists every word that a message of this environment can hold.
func words() []string {
	all := []string{
		"use", "look", ",", "take", "walk", "and", "open", // tools
		"rooms", "then", "the", "door", // task
		"sign", "says", "keys", ":", ".", "right", "wrong", // results
		"error", "call", "one", "tool", "unknown", "arguments", "no", "such", "key", "room", "not", "here",
	}
	for room := range maxRooms {
		all = append(all, strconv.Itoa(room+1))
	}
	all = append(all, colours...)
	for _, word := range filler.Words() {
		if !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// The arguments of the tools, in the order in which a call is written.
type (
	noArguments   struct{}
	takeArguments struct {
		Key string `json:"key"`
	}
	walkArguments struct {
		Step int `json:"step"`
	}
)

func tools() []chat.Tool {
	none := json.RawMessage(`{"type": "object", "properties": {}}`)
	return []chat.Tool{
		{Name: "look", Description: "Shows the sign and the keys.", Parameters: none},
		{Name: "take", Description: "Takes one key, for good.", Parameters: json.RawMessage(`{
		"type": "object",
		"properties": {"key": {"type": "string", "description": "colour of the key"}},
		"required": ["key"]
	}`)},
		{Name: "walk", Description: "Goes through one room.", Parameters: json.RawMessage(`{
		"type": "object",
		"properties": {"step": {"type": "integer", "description": "rooms that are left, this one included"}},
		"required": ["step"]
	}`)},
		{Name: "open", Description: "Opens the door behind the last room.", Parameters: none},
	}
}
