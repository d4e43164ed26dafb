// Package environment is an example of own env.Tasks and their env.Environment: a number
// is to be found by guesses, each answered by the range that is left. The tasks come
// from a file of JSON Lines, as a set of questions with answers would.
//
// Every answer tells all that is known so far. A policy then needs only what the
// condenser leaves in the window, however old the rest is.
package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/toolcall"
)

// number is one line of the file, and the Data of its task.
type number struct {
	ID     string    `json:"id"`
	Split  env.Split `json:"split"`
	Most   int       `json:"most"`   // the number is one of 1 to Most
	Secret int       `json:"secret"` // the number
	Turns  int       `json:"turns"`  // guesses, wrong calls included
}

// Tasks are the numbers of a file.
type Tasks struct {
	tasks map[env.Split][]env.Task
	most  int
}

var _ env.Tasks = (*Tasks)(nil)

// Read reads one task a line. All of them are checked here, so that no run finds a bad
// one after hours.
func Read(r io.Reader) (*Tasks, error) {
	all, seen := &Tasks{tasks: map[env.Split][]env.Task{}}, map[string]bool{}
	lines := json.NewDecoder(r)
	for line := 1; ; line++ {
		var data json.RawMessage
		var n number
		if err := lines.Decode(&data); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("task %d: %w", line, err)
		}
		if err := json.Unmarshal(data, &n); err != nil {
			return nil, fmt.Errorf("task %d: %w", line, err)
		}
		switch {
		case n.ID == "" || seen[n.ID]:
			return nil, fmt.Errorf("task %d: id: %q: want one that no other task has", line, n.ID)
		case n.Split != env.Train && n.Split != env.Eval && n.Split != env.Clone:
			return nil, fmt.Errorf("task %d: split: %q: want train, eval or clone", line, n.Split)
		case n.Secret < 1 || n.Secret > n.Most:
			return nil, fmt.Errorf("task %d: secret: %d: want 1 to most (%d)", line, n.Secret, n.Most)
		case n.Turns < 1:
			return nil, fmt.Errorf("task %d: turns: %d: want 1 or more", line, n.Turns)
		}
		seen[n.ID] = true
		all.most = max(all.most, n.Most, n.Turns)
		all.tasks[n.Split] = append(all.tasks[n.Split], env.Task{ID: n.ID, Data: data})
	}
}

func (*Tasks) Name() string { return "numbers" }

func (t *Tasks) Len(split env.Split) int { return len(t.tasks[split]) }

func (t *Tasks) Task(split env.Split, i int) env.Task { return t.tasks[split][i] }

// New returns a fresh game. Nothing is left to chance in it: the seed has no use.
func (*Tasks) New(uint64) env.Environment { return &game{} }

// Words lists the words of all messages, for models that know a closed list of words.
// A model with a tokenizer of its own needs no such thing.
func (t *Tasks) Words() []string {
	words := strings.Fields("find the number : call guess . one of 1 to , guesses right left error arguments")
	for n := 2; n <= t.most; n++ {
		words = append(words, strconv.Itoa(n))
	}
	return append(words, "0")
}

// Tools are what the agent may call.
func Tools() []chat.Tool {
	return []chat.Tool{{
		Name: "guess", Description: "Guesses the number.",
		Parameters: json.RawMessage(`{"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}`),
	}}
}

// Guess holds the arguments of guess.
type Guess struct {
	Number int `json:"number"`
}

// game is one game of guessing.
type game struct {
	number
	low, high, left int // the range and the guesses that are left
	running         bool
}

// Reset may be called at any time, and starts anew.
func (e *game) Reset(ctx context.Context, task env.Task) (env.Observation, error) {
	if err := ctx.Err(); err != nil {
		return env.Observation{}, err
	}
	*e = game{}
	if err := json.Unmarshal(task.Data, &e.number); err != nil {
		return env.Observation{}, fmt.Errorf("task %s: data: %w", task.ID, err)
	}
	e.low, e.high, e.left, e.running = 1, e.Most, e.Turns, true
	return env.Observation{
		Messages: []chat.Message{
			{Role: chat.System, Content: "find the number : call guess ."},
			{Role: chat.User, Content: e.known()},
		},
		Tools: Tools(),
	}, nil
}

// known is all that is to know.
func (e *game) known() string {
	return fmt.Sprintf("one of %d to %d , %d guesses left .", e.low, e.high, e.left)
}

// Step answers whatever the policy says: what it did wrong is no error of the
// environment, and costs a guess, so that every game ends.
func (e *game) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	switch {
	case ctx.Err() != nil:
		return env.Observation{}, ctx.Err()
	case !e.running:
		return env.Observation{}, errors.New("no game is running: reset first")
	}
	e.left--
	var guess Guess
	switch {
	case len(action.ToolCalls) != 1 || action.ToolCalls[0].Name != "guess":
		return e.observe(toolcall.Refuse(action, "error : call guess . "+e.known())), nil
	case toolcall.Arguments(action.ToolCalls[0], &guess) != nil:
		return e.observe(toolcall.Refuse(action, "error : arguments . "+e.known())), nil
	}
	call := action.ToolCalls[0]
	if guess.Number == e.Secret {
		e.running = false
		return env.Observation{Messages: []chat.Message{toolcall.Result(call, "right .")}, Reward: 1, Done: true, Success: true}, nil
	}
	if guess.Number < e.Secret {
		e.low = max(e.low, guess.Number+1)
	} else {
		e.high = min(e.high, guess.Number-1)
	}
	return e.observe([]chat.Message{toolcall.Result(call, e.known())}), nil
}

// observe ends the game with the last guess.
func (e *game) observe(messages []chat.Message) env.Observation {
	e.running = e.left > 0
	return env.Observation{Messages: messages, Done: !e.running}
}

// Close has nothing to free.
func (e *game) Close() error {
	e.running = false
	return nil
}
