// Package search is the task of looking something up over many pages. An
// encyclopedia of 300 persons, companies and cities, new for every task, is read
// through three tools:
//
//	search(name)              lists the bearers of a name, told apart by occupation
//	open(step, key, entity)   shows the page of an entity
//	answer(step, key, entity) ends the trajectory, reward 1 if the entity is right
//
// The task names a person by a name that three bear and by an occupation, and
// four to eight relations to follow from there. The bearer is chosen at the start,
// the reward comes at the end, and in between stand pages of 60 to 84 words.
//
// A call says which step of the task it takes (numbered down to 1), by which key,
// and to which entity, so that whoever sees only the task, the last call and its
// result knows how to go on: the label is the last one less one, the key follows
// the label in the task, the entity follows the key in the result.
package search

import (
	"encoding/json"
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
)

// World returns the search tasks, with what a base model is cloned from.
func World() curriculum.World {
	return curriculum.NewWorld(tasks{}, words(), tools(), func(renderer *chat.Words) curriculum.Curriculum { return lessons{renderer} })
}

// tasks is the family of search tasks.
type tasks struct{}

func (tasks) Name() string { return "search" }

func (tasks) Len(env.Split) int { return env.Seeds }

func (tasks) Task(split env.Split, i int) env.Task {
	return env.Task{ID: fmt.Sprintf("search-%s-%d", split, i), Seed: split.Seed(i)}
}

func (tasks) New(uint64) env.Environment { return &environment{scale: full} }

// lessons is what a base model of this world is cloned from.
type lessons struct{ renderer *chat.Words }

// Expert returns the agent that looks up what the task asks for.
func (lessons) Expert() curriculum.Actor { return expert{} }

// Demonstrator returns the agent that takes any bearer and, at one hop in four,
// any fact.
func (lessons) Demonstrator(seed uint64) curriculum.Actor { return newDemonstrator(seed) }

// The arguments of the tools, in the order in which a call is written.
type (
	searchArguments struct {
		Name string `json:"name"`
	}
	stepArguments struct {
		Step   int    `json:"step"`
		Key    string `json:"key"`
		Entity string `json:"entity"`
	}
)

func tools() []chat.Tool {
	step := json.RawMessage(`{
		"type": "object",
		"properties": {
			"step": {"type": "integer", "description": "number of the step of the task"},
			"key": {"type": "string", "description": "occupation or relation that the step goes by"},
			"entity": {"type": "string", "description": "where the key leads, as Q12"}
		},
		"required": ["step", "key", "entity"]
	}`)
	return []chat.Tool{
		{Name: "search", Description: "Lists the persons who bear a name.", Parameters: json.RawMessage(`{
		"type": "object",
		"properties": {"name": {"type": "string", "description": "first and last name", "x-words": 2}},
		"required": ["name"]
	}`)},
		{Name: "open", Description: "Shows the page of an entity.", Parameters: step},
		{Name: "answer", Description: "Ends the task with an entity.", Parameters: step},
	}
}
