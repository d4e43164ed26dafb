// Package env defines what an agent acts in: trajectories of tasks.
package env

import (
	"context"
	"encoding/json"

	"github.com/infinirl/infinirl/chat"
)

// Task is one task of an environment.
type Task struct {
	ID string
	// Seed is what a generated task is made from.
	Seed uint64
	// Data is what a task of the user's own holds: a question with its answer, a
	// repository with its tests. Only its environment reads it.
	Data json.RawMessage
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
	// Metrics are what the environment counts of the trajectory so far beside the
	// reward, such as the share of right answers: finite numbers by name. Those that
	// came last are the trajectory's; nothing is trained on them.
	Metrics map[string]float64
}

// Environment plays one trajectory, begun by Reset and ended by a step that is Done or by
// Close. It is used by one goroutine at a time. What the policy did wrong is answered by
// an observation; an error is the environment's own failure, and ends the trajectory as
// failed. So is a step before a reset, after the end or after Close, and either under a
// context that has ended.
type Environment interface {
	// Reset begins a trajectory: its messages, and the tools that may be called.
	Reset(ctx context.Context, task Task) (Observation, error)
	// Step answers an assistant message, every call of it by a message of its own.
	Step(ctx context.Context, action chat.Message) (Observation, error)
	// Close gives back what the environment holds; it may be called at any time.
	Close() error
}

// Split separates the seed ranges of training, held-out and cloning tasks.
type Split string

const (
	Train Split = "train"
	Eval  Split = "eval"  // never trained on
	Clone Split = "clone" // for the base model
)

// Tasks is a family of tasks with the environment that they are done in. It belongs
// to the user; the loop knows nothing of tokens here, and tasks nothing of models.
// It is safe for concurrent use. envtest.Run is its conformance suite.
type Tasks interface {
	Name() string
	// Len returns the number of tasks of a split; splits share no task.
	Len(split Split) int
	// Task returns task i of a split, 0 ≤ i < Len(split), the same every time.
	Task(split Split, i int) Task
	// New returns a fresh environment. What is left to chance in it follows from seed, so
	// that two trajectories of one task can differ and a run can be repeated.
	New(seed uint64) Environment
}
