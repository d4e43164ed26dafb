// Package keytodoor is a task whose reward hangs on its first decision (Hung et
// al. 2019, arXiv 1810.06721). A sign names the colour of the key that opens a
// door; one of four keys is taken; then come rooms with nothing to learn in them;
// at the end the door opens or does not.
//
//	look        shows the sign and the keys
//	take(key)   takes one of the keys, once
//	walk(step)  goes through one room; the rooms are numbered down to 1
//	open        ends the episode, reward 1 if the key is the one on the sign
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
	"github.com/infinirl/infinirl/env/filler"
	"github.com/infinirl/infinirl/token"
)

var colours = []string{
	"red", "amber", "blue", "jade", "white", "black", "green", "violet", "silver", "brown", "pink", "teal",
}

// Suite is the family of key-to-door tasks. It is immutable.
type Suite struct {
	words *token.Vocabulary
	codec *chat.Words
}

var _ env.Suite = (*Suite)(nil)

// NewSuite returns the suite.
func NewSuite() *Suite {
	vocabulary, err := token.NewVocabulary(append(chat.WordControls(), words()...))
	if err != nil {
		panic("keytodoor: " + err.Error())
	}
	codec, err := chat.NewWords(vocabulary, tools())
	if err != nil {
		panic("keytodoor: " + err.Error())
	}
	return &Suite{words: vocabulary, codec: codec}
}

// Name is "keytodoor".
func (*Suite) Name() string { return "keytodoor" }

// Codec returns the word-level codec.
func (s *Suite) Codec() chat.Codec { return s.codec }

// VocabularySize returns the number of words, control words included.
func (s *Suite) VocabularySize() int { return s.words.Size() }

// Task returns task i of a split.
func (s *Suite) Task(split env.Split, i int) env.Task {
	return env.Task{ID: fmt.Sprintf("%s-%s-%d", s.Name(), split, i), Seed: split.Seed(i)}
}

// New returns a fresh episode.
func (*Suite) New() env.Environment { return &environment{scale: full} }

// Expert returns the agent that takes the key of the sign.
func (*Suite) Expert() env.Actor { return expert{} }

// Demonstrator returns the agent that takes any of the keys.
func (*Suite) Demonstrator(seed uint64) env.Actor { return newDemonstrator(seed) }

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
