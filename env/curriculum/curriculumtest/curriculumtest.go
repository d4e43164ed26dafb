// Package curriculumtest checks what every synthetic world promises beside what all
// tasks do: that its words suffice, and that its agents and drills are well formed.
package curriculumtest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/envtest"
)

// Played is a played trajectory.
type Played struct {
	Log     []chat.Message
	Calls   int
	Return  float64
	Success bool
}

// Play plays a task with an actor that sees only what window leaves of the log.
func Play(world curriculum.World, task env.Task, actor curriculum.Actor, window func([]chat.Message) []chat.Message) (Played, error) {
	ctx := context.Background()
	e := world.Tasks.New(0)
	defer e.Close()
	o, err := e.Reset(ctx, task)
	if err != nil {
		return Played{}, err
	}
	played := Played{Log: slices.Clone(o.Messages)}
	for !o.Done {
		action, err := actor.Act(window(played.Log))
		if err != nil {
			return played, err
		}
		if o, err = e.Step(ctx, action); err != nil {
			return played, err
		}
		played.Log = append(append(played.Log, action), o.Messages...)
		played.Calls++
		played.Return += o.Reward
		played.Success = o.Success
	}
	return played, nil
}

// Uncut leaves the whole log.
func Uncut(log []chat.Message) []chat.Message { return log }

// LastRound leaves the least that a condensed window shows: what stands before the
// first assistant message, and the last assistant message with its results.
func LastRound(log []chat.Message) []chat.Message {
	isCall := func(m chat.Message) bool { return m.Role == chat.Assistant }
	head := slices.IndexFunc(log, isCall)
	if head < 0 {
		return log
	}
	last := len(log) - 1
	for !isCall(log[last]) {
		last--
	}
	return append(slices.Clone(log[:head]), log[last:]...)
}

// Tokens returns the number of ids of messages.
func Tokens(t *testing.T, renderer chat.Renderer, messages ...chat.Message) int {
	t.Helper()
	n := 0
	for _, m := range messages {
		ids, err := renderer.Extend(nil, []chat.Message{m})
		if err != nil {
			t.Fatalf("%s message %q: %v", m.Role, m.Content, err)
		}
		n += len(ids)
	}
	return n
}

// Returns are what a world pays for a task that is played in Tasks.New(0).
type Returns struct {
	Expert func(task env.Task) float64 // the expert
	Idle   func(task env.Task) float64 // who never makes a call
}

// OneReward is for worlds that pay 1 for success and nothing else.
func OneReward() Returns {
	return Returns{Expert: func(env.Task) float64 { return 1 }, Idle: func(env.Task) float64 { return 0 }}
}

// same tells whether two returns are the same but for the order of their sums.
func same(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Run checks a world: that every message of it encodes and every call decodes to
// itself, that what is no call is answered and earns what it should, that the expert
// succeeds from the last round alone and earns what it should, that the demonstrator completes its trajectories, and that drills are well formed.
func Run(t *testing.T, world curriculum.World, returns Returns) {
	t.Run("tasks", func(t *testing.T) { t.Parallel(); envtest.Run(t, world.Tasks) })
	t.Run("opening", func(t *testing.T) { t.Parallel(); opening(t, world) })
	t.Run("cancellation", func(t *testing.T) { t.Parallel(); cancellation(t, world) })
	t.Run("malformed actions", func(t *testing.T) { t.Parallel(); malformed(t, world, returns) })
	t.Run("expert", func(t *testing.T) { t.Parallel(); expert(t, world, returns) })
	t.Run("demonstrator", func(t *testing.T) { t.Parallel(); demonstrator(t, world) })
	t.Run("random calls", func(t *testing.T) { t.Parallel(); randomCalls(t, world) })
	t.Run("drills", func(t *testing.T) { t.Parallel(); drills(t, world) })
}

// opening checks what a reset shows.
func opening(t *testing.T, world curriculum.World) {
	e := world.Tasks.New(0)
	defer e.Close()
	o, err := e.Reset(context.Background(), world.Tasks.Task(env.Eval, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Messages) != 2 || o.Messages[0].Role != chat.System || o.Messages[1].Role != chat.User {
		t.Errorf("reset shows %+v, want a system and a user message", o.Messages)
	}
	if len(o.Tools) == 0 || o.Done || o.Reward != 0 {
		t.Errorf("reset observes %+v, want tools, no reward and no end", o)
	}
}

// cancellation checks that a trajectory goes on after a call that was cancelled.
func cancellation(t *testing.T, world curriculum.World) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	e := world.Tasks.New(0)
	defer e.Close()
	if _, err := e.Reset(cancelled, world.Tasks.Task(env.Train, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("reset under a cancelled context: %v", err)
	}
	o, err := e.Reset(context.Background(), world.Tasks.Task(env.Train, 0))
	if err != nil {
		t.Fatal(err)
	}
	action, err := world.Expert().Act(o.Messages)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(cancelled, action); !errors.Is(err, context.Canceled) {
		t.Errorf("step under a cancelled context: %v", err)
	}
	if _, err := e.Step(context.Background(), action); err != nil {
		t.Errorf("the step after a cancelled one: %v", err)
	}
}

// malformed gives what is no call: an answer each, the end after some, no success, and
// what the world pays for it.
func malformed(t *testing.T, world curriculum.World, returns Returns) {
	for name, action := range map[string]chat.Message{
		"text":           {Role: chat.Assistant, Content: "hello"},
		"nothing":        {Role: chat.Assistant},
		"unknown tool":   {Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "dance", Arguments: "{}"}}},
		"no arguments":   {Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "open", Arguments: ""}}},
		"no JSON":        {Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "open", Arguments: "{"}}},
		"wrong type":     {Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "open", Arguments: "[]"}}},
		"extra argument": {Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "open", Arguments: `{"x":1}`}}},
		"parallel calls": {Role: chat.Assistant, ToolCalls: []chat.ToolCall{
			{ID: "a", Name: "open", Arguments: "{}"}, {ID: "b", Name: "open", Arguments: "{}"}}},
	} {
		e := world.Tasks.New(0)
		defer e.Close()
		task := world.Tasks.Task(env.Train, 2)
		o, err := e.Reset(context.Background(), task)
		if err != nil {
			t.Fatal(err)
		}
		steps, total := 0, 0.0
		for ; !o.Done; steps++ {
			if o, err = e.Step(context.Background(), action); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(o.Messages) != max(1, len(action.ToolCalls)) {
				t.Fatalf("%s: %d messages answer %d calls", name, len(o.Messages), len(action.ToolCalls))
			}
			for i, m := range o.Messages {
				if m.Role != chat.ToolRole || m.Content == "" {
					t.Errorf("%s: answered by %+v, want a tool result", name, m)
				}
				if len(action.ToolCalls) > 0 && m.ToolCallID != action.ToolCalls[i].ID {
					t.Errorf("%s: result %d answers call %q, want %q", name, i, m.ToolCallID, action.ToolCalls[i].ID)
				}
			}
			total += o.Reward
			if o.Success {
				t.Errorf("%s: a success", name)
			}
			Tokens(t, world.Renderer, o.Messages...)
		}
		if steps < 2 {
			t.Errorf("%s: the trajectory ends at the first error", name)
		}
		if want := returns.Idle(task); !same(total, want) {
			t.Errorf("%s: return %v, want %v", name, total, want)
		}
	}
}

func expert(t *testing.T, world curriculum.World, returns Returns) {
	for _, window := range []func([]chat.Message) []chat.Message{LastRound, Uncut} {
		for i := range 200 {
			task := world.Tasks.Task(env.Eval, i)
			played, err := Play(world, task, world.Expert(), window)
			if err != nil {
				t.Fatalf("task %s: %v", task.ID, err)
			}
			if want := returns.Expert(task); !played.Success || !same(played.Return, want) {
				t.Fatalf("task %s: success %v, return %v, want %v", task.ID, played.Success, played.Return, want)
			}
			roundTrip(t, world, played.Log)
		}
	}
}

// roundTrip encodes every message and decodes the assistant's.
func roundTrip(t *testing.T, world curriculum.World, log []chat.Message) {
	renderer := world.Renderer
	for _, m := range log {
		ids, err := renderer.Extend(nil, []chat.Message{m})
		if err != nil {
			t.Fatalf("%s message %q: %v", m.Role, m.Content, err)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= world.VocabularySize {
				t.Fatalf("id %d outside the vocabulary of %d", id, world.VocabularySize)
			}
		}
		if m.Role != chat.Assistant {
			continue
		}
		prefix := renderer.GenerationPrefix()
		if !slices.Equal(ids[:len(prefix)], prefix) {
			t.Fatalf("call %+v does not begin with the generation prefix", m.ToolCalls)
		}
		if back := renderer.Parse(ids[len(prefix):]); !reflect.DeepEqual(back.ToolCalls, m.ToolCalls) {
			t.Fatalf("call %+v decodes to %+v", m.ToolCalls, back.ToolCalls)
		}
	}
}

func demonstrator(t *testing.T, world curriculum.World) {
	for i := range uint64(100) {
		task := world.Tasks.Task(env.Clone, int(i))
		var played [2]Played
		for k := range played {
			var err error
			if played[k], err = Play(world, task, world.Demonstrator(i), LastRound); err != nil {
				t.Fatalf("task %s: %v", task.ID, err)
			}
		}
		if !reflect.DeepEqual(played[0], played[1]) {
			t.Fatalf("task %s: two demonstrations of one seed differ", task.ID)
		}
		uncut, err := Play(world, task, world.Demonstrator(i), Uncut)
		if err != nil {
			t.Fatalf("task %s: %v", task.ID, err)
		}
		if !reflect.DeepEqual(played[0], uncut) {
			t.Fatalf("task %s: the demonstration depends on more than the last round", task.ID)
		}
		roundTrip(t, world, played[0].Log)
	}
}

// randomCalls makes calls of random words, of what was shown or of the whole
// vocabulary: a trajectory must end, and never fail.
func randomCalls(t *testing.T, world curriculum.World) {
	renderer := world.Renderer
	parsed := 0
	for i := range 300 {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		e := world.Tasks.New(0)
		o, err := e.Reset(context.Background(), world.Tasks.Task(env.Train, i))
		if err != nil {
			t.Fatal(err)
		}
		tools := o.Tools
		var shown []int32
		for steps := 0; !o.Done; steps++ {
			if steps == 100 {
				t.Fatalf("task %d: no end after %d calls", i, steps)
			}
			for _, m := range o.Messages {
				ids, err := renderer.Extend(nil, []chat.Message{m})
				if err != nil {
					t.Fatalf("task %d: %v", i, err)
				}
				shown = append(shown, ids[1:len(ids)-1]...)
			}
			name, err := renderer.Extend(nil, []chat.Message{{Role: chat.User, Content: tools[rng.IntN(len(tools))].Name}})
			if err != nil {
				t.Fatal(err)
			}
			ids := name[1 : len(name)-1]
			for range rng.IntN(4) {
				if rng.IntN(4) > 0 {
					ids = append(ids, shown[rng.IntN(len(shown))])
				} else {
					ids = append(ids, rng.Int32N(int32(world.VocabularySize)))
				}
			}
			action := renderer.Parse(ids)
			parsed += len(action.ToolCalls)
			if o, err = e.Step(context.Background(), action); err != nil {
				t.Fatalf("task %d: action %+v: %v", i, action, err)
			}
		}
		e.Close()
	}
	if parsed == 0 {
		t.Error("none of the random words made a call")
	}
}

func drills(t *testing.T, world curriculum.World) {
	if world.Levels() < 1 {
		t.Fatal("no drills")
	}
	for level := range world.Levels() {
		for seed := range uint64(50) {
			ids, mask := world.Drill(level, seed)
			if len(ids) == 0 || len(ids) != len(mask) || mask[0] || !slices.Contains(mask, true) {
				t.Fatalf("level %d seed %d: %d ids, %d masks, first %v", level, seed, len(ids), len(mask), mask[:1])
			}
			for _, id := range ids {
				if id < 0 || int(id) >= world.VocabularySize {
					t.Fatalf("level %d seed %d: id %d outside the vocabulary of %d", level, seed, id, world.VocabularySize)
				}
			}
			again, maskAgain := world.Drill(level, seed)
			if !slices.Equal(ids, again) || !slices.Equal(mask, maskAgain) {
				t.Fatalf("level %d seed %d: not the same twice", level, seed)
			}
			if other, _ := world.Drill(level, seed+1); slices.Equal(ids, other) {
				t.Fatalf("level %d: seeds %d and %d give the same drill", level, seed, seed+1)
			}
		}
	}
}
