// Package envtest checks what every suite of tasks promises.
package envtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
)

// Episode is a played episode.
type Episode struct {
	Log     []chat.Message
	Calls   int
	Return  float64
	Success bool
}

// Play plays a task with an actor that sees only what window leaves of the log.
func Play(suite env.Suite, task env.Task, actor env.Actor, window func([]chat.Message) []chat.Message) (Episode, error) {
	ctx := context.Background()
	e := suite.New()
	defer e.Close()
	o, err := e.Reset(ctx, task)
	if err != nil {
		return Episode{}, err
	}
	played := Episode{Log: slices.Clone(o.Messages)}
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
func Tokens(t *testing.T, codec chat.Codec, messages ...chat.Message) int {
	t.Helper()
	n := 0
	for _, m := range messages {
		ids, err := codec.Encode(m)
		if err != nil {
			t.Fatalf("%s message %q: %v", m.Role, m.Content, err)
		}
		n += len(ids)
	}
	return n
}

// Run checks a suite: the contracts of Reset, Step and Close, determinism, disjoint
// splits, that every message encodes and every call decodes to itself, that the
// expert succeeds from the last round alone, that the demonstrator completes its
// episodes, and that drills are well formed.
func Run(t *testing.T, suite env.Suite) {
	t.Run("splits", func(t *testing.T) { t.Parallel(); splits(t, suite) })
	t.Run("reset", func(t *testing.T) { t.Parallel(); reset(t, suite) })
	t.Run("cancellation", func(t *testing.T) { t.Parallel(); cancellation(t, suite) })
	t.Run("misuse", func(t *testing.T) { t.Parallel(); misuse(t, suite) })
	t.Run("malformed actions", func(t *testing.T) { t.Parallel(); malformed(t, suite) })
	t.Run("expert", func(t *testing.T) { t.Parallel(); expert(t, suite) })
	t.Run("demonstrator", func(t *testing.T) { t.Parallel(); demonstrator(t, suite) })
	t.Run("random calls", func(t *testing.T) { t.Parallel(); randomCalls(t, suite) })
	t.Run("drills", func(t *testing.T) { t.Parallel(); drills(t, suite) })
}

func splits(t *testing.T, suite env.Suite) {
	seeds, ids := map[uint64]bool{}, map[string]bool{}
	for _, split := range []env.Split{env.Train, env.Eval, env.Clone} {
		for i := range 300 {
			task := suite.Task(split, i)
			if task != suite.Task(split, i) {
				t.Fatalf("task %d of %s is not the same twice", i, split)
			}
			if seeds[task.Seed] || ids[task.ID] {
				t.Fatalf("task %d of %s repeats a seed or an id: %+v", i, split, task)
			}
			seeds[task.Seed], ids[task.ID] = true, true
		}
	}
}

func reset(t *testing.T, suite env.Suite) {
	ctx := context.Background()
	e := suite.New()
	defer e.Close()
	first, err := e.Reset(ctx, suite.Task(env.Eval, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Messages) != 2 || first.Messages[0].Role != chat.System || first.Messages[1].Role != chat.User {
		t.Errorf("reset shows %+v, want a system and a user message", first.Messages)
	}
	if len(first.Tools) == 0 || first.Done || first.Reward != 0 {
		t.Errorf("reset observes %+v, want tools, no reward and no end", first)
	}
	if _, err := e.Reset(ctx, suite.Task(env.Eval, 1)); err != nil {
		t.Fatal(err)
	}
	again, err := e.Reset(ctx, suite.Task(env.Eval, 0))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, again) {
		t.Error("the same task does not begin the same after another one")
	}
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func cancellation(t *testing.T, suite env.Suite) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	e := suite.New()
	defer e.Close()
	if _, err := e.Reset(cancelled, suite.Task(env.Train, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("reset under a cancelled context: %v", err)
	}
	o, err := e.Reset(context.Background(), suite.Task(env.Train, 0))
	if err != nil {
		t.Fatal(err)
	}
	action, err := suite.Expert().Act(o.Messages)
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

func misuse(t *testing.T, suite env.Suite) {
	ctx := context.Background()
	action := chat.Message{Role: chat.Assistant, Content: "hello"}
	e := suite.New()
	if _, err := e.Step(ctx, action); err == nil {
		t.Error("a step before the first reset is no error")
	}
	if _, err := e.Reset(ctx, suite.Task(env.Train, 0)); err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		o, err := e.Step(ctx, action)
		if err != nil {
			t.Fatal(err)
		}
		done = o.Done
	}
	if _, err := e.Step(ctx, action); err == nil {
		t.Error("a step after the end is no error")
	}
	if _, err := e.Reset(ctx, suite.Task(env.Train, 1)); err != nil {
		t.Errorf("reset after the end: %v", err)
	}
	e.Close()
	if _, err := e.Step(ctx, action); err == nil {
		t.Error("a step after close is no error")
	}
}

// malformed gives what is no call: an error observation each, the end after some,
// no reward.
func malformed(t *testing.T, suite env.Suite) {
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
		e := suite.New()
		defer e.Close()
		o, err := e.Reset(context.Background(), suite.Task(env.Train, 2))
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
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
			if o.Reward != 0 || o.Success {
				t.Errorf("%s: rewarded with %v", name, o.Reward)
			}
			Tokens(t, suite.Codec(), o.Messages...)
		}
		if steps < 2 {
			t.Errorf("%s: the episode ends at the first error", name)
		}
	}
}

func expert(t *testing.T, suite env.Suite) {
	for _, window := range []func([]chat.Message) []chat.Message{LastRound, Uncut} {
		for i := range 200 {
			task := suite.Task(env.Eval, i)
			played, err := Play(suite, task, suite.Expert(), window)
			if err != nil {
				t.Fatalf("task %s: %v", task.ID, err)
			}
			if !played.Success || played.Return != 1 {
				t.Fatalf("task %s: success %v, return %v", task.ID, played.Success, played.Return)
			}
			roundTrip(t, suite, played.Log)
		}
	}
}

// roundTrip encodes every message and decodes the assistant's.
func roundTrip(t *testing.T, suite env.Suite, log []chat.Message) {
	codec := suite.Codec()
	for _, m := range log {
		ids, err := codec.Encode(m)
		if err != nil {
			t.Fatalf("%s message %q: %v", m.Role, m.Content, err)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= suite.VocabularySize() {
				t.Fatalf("id %d outside the vocabulary of %d", id, suite.VocabularySize())
			}
		}
		if m.Role != chat.Assistant {
			continue
		}
		prefix := codec.GenerationPrefix()
		if !slices.Equal(ids[:len(prefix)], prefix) {
			t.Fatalf("call %+v does not begin with the generation prefix", m.ToolCalls)
		}
		if back := codec.DecodeAssistant(ids[len(prefix):]); !reflect.DeepEqual(back.ToolCalls, m.ToolCalls) {
			t.Fatalf("call %+v decodes to %+v", m.ToolCalls, back.ToolCalls)
		}
	}
}

func demonstrator(t *testing.T, suite env.Suite) {
	for i := range uint64(100) {
		task := suite.Task(env.Clone, int(i))
		var played [2]Episode
		for k := range played {
			var err error
			if played[k], err = Play(suite, task, suite.Demonstrator(i), LastRound); err != nil {
				t.Fatalf("task %s: %v", task.ID, err)
			}
		}
		if !reflect.DeepEqual(played[0], played[1]) {
			t.Fatalf("task %s: two demonstrations of one seed differ", task.ID)
		}
		uncut, err := Play(suite, task, suite.Demonstrator(i), Uncut)
		if err != nil {
			t.Fatalf("task %s: %v", task.ID, err)
		}
		if !reflect.DeepEqual(played[0], uncut) {
			t.Fatalf("task %s: the demonstration depends on more than the last round", task.ID)
		}
		roundTrip(t, suite, played[0].Log)
	}
}

// randomCalls makes calls of random words, of what was shown or of the whole
// vocabulary: an episode must end, and never fail.
func randomCalls(t *testing.T, suite env.Suite) {
	codec := suite.Codec()
	parsed := 0
	for i := range 300 {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		e := suite.New()
		o, err := e.Reset(context.Background(), suite.Task(env.Train, i))
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
				ids, err := codec.Encode(m)
				if err != nil {
					t.Fatalf("task %d: %v", i, err)
				}
				shown = append(shown, ids[1:len(ids)-1]...)
			}
			name, err := codec.Encode(chat.Message{Role: chat.User, Content: tools[rng.IntN(len(tools))].Name})
			if err != nil {
				t.Fatal(err)
			}
			ids := name[1 : len(name)-1]
			for range rng.IntN(4) {
				if rng.IntN(4) > 0 {
					ids = append(ids, shown[rng.IntN(len(shown))])
				} else {
					ids = append(ids, rng.Int32N(int32(suite.VocabularySize())))
				}
			}
			action := codec.DecodeAssistant(ids)
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

func drills(t *testing.T, suite env.Suite) {
	if suite.Levels() < 1 {
		t.Fatal("no drills")
	}
	for level := range suite.Levels() {
		for seed := range uint64(50) {
			ids, mask := suite.Drill(level, seed)
			if len(ids) == 0 || len(ids) != len(mask) || mask[0] || !slices.Contains(mask, true) {
				t.Fatalf("level %d seed %d: %d ids, %d masks, first %v", level, seed, len(ids), len(mask), mask[:1])
			}
			for _, id := range ids {
				if id < 0 || int(id) >= suite.VocabularySize() {
					t.Fatalf("level %d seed %d: id %d outside the vocabulary of %d", level, seed, id, suite.VocabularySize())
				}
			}
			again, maskAgain := suite.Drill(level, seed)
			if !slices.Equal(ids, again) || !slices.Equal(mask, maskAgain) {
				t.Fatalf("level %d seed %d: not the same twice", level, seed)
			}
			if other, _ := suite.Drill(level, seed+1); slices.Equal(ids, other) {
				t.Fatalf("level %d: seeds %d and %d give the same drill", level, seed, seed+1)
			}
		}
	}
}
