// Package curriculum holds what the base models of synthetic worlds are cloned from:
// scripted agents and drills. Only cloning sees it; training knows tasks alone.
package curriculum

import (
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/token"
)

// Actor is a scripted agent that sees only the window: the messages that are in
// the prompt, and what it says next.
type Actor interface {
	Act(window []chat.Message) (chat.Message, error)
}

// Curriculum is what a world teaches a base model.
type Curriculum interface {
	// Expert always succeeds, from the window alone.
	Expert() Actor
	// Demonstrator knows the format, chooses at random what cannot be known
	// without learning, and errs; it is what base models are cloned from.
	Demonstrator(seed uint64) Actor
	// Drill returns one cloning exercise, easiest at level 0: ids and the mask of
	// the ids to be learnt. Levels returns how many levels there are.
	Drill(level int, seed uint64) (ids []int32, mask []bool)
	Levels() int
}

// World is a synthetic family of tasks in a closed vocabulary, with all that it takes
// to make a model for it.
type World struct {
	Tasks env.Tasks
	Curriculum
	// Renderer is that of the models that speak the world's words.
	Renderer *chat.Words
	// VocabularySize is the number of token ids of the renderer.
	VocabularySize int
}

// NewWorld returns a world of the given words and tools. It panics when the renderer
// cannot have them: a world brings its own.
func NewWorld(tasks env.Tasks, words []string, tools []chat.Tool, of func(*chat.Words) Curriculum) World {
	vocabulary, err := token.NewVocabulary(append(chat.WordControls(), words...))
	if err != nil {
		panic(tasks.Name() + ": " + err.Error())
	}
	renderer, err := chat.NewWords(vocabulary, tools)
	if err != nil {
		panic(tasks.Name() + ": " + err.Error())
	}
	return World{Tasks: tasks, Curriculum: of(renderer), Renderer: renderer, VocabularySize: vocabulary.Size()}
}
