// Package env defines what an agent acts in: one episode of one task.
package env

import (
	"context"

	"github.com/infinirl/infinirl/chat"
)

// Task is one reproducible task of an environment.
type Task struct {
	ID   string `json:"id"`
	Seed uint64 `json:"seed"`
}

// Observation is what the environment shows after a reset or a step.
type Observation struct {
	// Messages are appended to the conversation: system and user at the reset,
	// tool results after a step.
	Messages []chat.Message
	// Tools are the schemas the agent may call; set at the reset only.
	Tools  []chat.Tool
	Reward float64
	Done   bool
	// Success tells, when Done, whether the task was solved.
	Success bool
}

// Environment is one episode. It is used by one goroutine at a time.
type Environment interface {
	Reset(ctx context.Context, task Task) (Observation, error)
	Step(ctx context.Context, action chat.Message) (Observation, error)
	Close() error
}

// Split separates the seed ranges of training, held-out and cloning tasks.
type Split string

const (
	Train Split = "train"
	Eval  Split = "eval"  // never trained on
	Clone Split = "clone" // for the base model
)

// Actor is a scripted agent that sees only the window: the messages that are in
// the prompt, and what it says next.
type Actor interface {
	Act(window []chat.Message) (chat.Message, error)
}

// Suite is a family of tasks with everything a run needs to know of it.
type Suite interface {
	Name() string
	// Codec is the word-level codec over the suite's closed vocabulary.
	Codec() chat.Codec
	// VocabularySize is the number of token ids of the codec.
	VocabularySize() int
	// Task returns task number i of a split; splits never share a seed.
	Task(split Split, i int) Task
	// New returns a fresh episode.
	New() Environment
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
