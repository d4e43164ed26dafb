// Package envtest is the conformance suite of env.Tasks and their environments.
package envtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
)

// laws are what every family of tasks promises, by name.
var laws = []struct {
	name string
	hold func(env.Tasks) error
}{
	{"splits", splits},
	{"openings", openings},
	{"cancellation", cancellation},
	{"misuse", misuse},
	{"actions", actions},
	{"concurrency", concurrency},
}

// Run checks tasks law by law.
func Run(t *testing.T, tasks env.Tasks) {
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			if err := law.hold(tasks); err != nil {
				t.Error(err)
			}
		})
	}
}

// Check returns what Run would report, joined.
func Check(tasks env.Tasks) error {
	var failed []error
	for _, law := range laws {
		if err := law.hold(tasks); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", law.name, err))
		}
	}
	return errors.Join(failed...)
}

// most is how many tasks of a split are looked at.
const most = 300

func splits(tasks env.Tasks) error {
	if tasks.Name() == "" || tasks.Len(env.Train) < 1 {
		return fmt.Errorf("name %q, %d tasks to train on: want a name and at least one", tasks.Name(), tasks.Len(env.Train))
	}
	of := map[string]env.Split{}
	for _, split := range []env.Split{env.Train, env.Eval, env.Clone} {
		for i := range min(most, tasks.Len(split)) {
			task := tasks.Task(split, i)
			if !reflect.DeepEqual(task, tasks.Task(split, i)) {
				return fmt.Errorf("task %d of %s is not the same twice", i, split)
			}
			if first, seen := of[task.ID]; seen || task.ID == "" {
				return fmt.Errorf("task %d of %s has id %q, as one of %s has", i, split, task.ID, first)
			}
			of[task.ID] = split
		}
	}
	return nil
}

// openings checks that a reset shows what the task is, the same every time, also in
// an environment that has played another task.
func openings(tasks env.Tasks) error {
	ctx := context.Background()
	e := tasks.New(7)
	defer e.Close()
	task := tasks.Task(env.Train, 0)
	first, err := e.Reset(ctx, task)
	if err != nil {
		return err
	}
	if len(first.Messages) == 0 || first.Done || first.Reward != 0 || first.Success {
		return fmt.Errorf("reset observes %+v: want messages, no reward and no end", first)
	}
	for _, m := range first.Messages {
		if m.Role != chat.System && m.Role != chat.User {
			return fmt.Errorf("reset shows a message of role %q: want system and user", m.Role)
		}
	}
	if n := tasks.Len(env.Train); n > 1 {
		if _, err := e.Reset(ctx, tasks.Task(env.Train, 1)); err != nil {
			return err
		}
	}
	for _, again := range []env.Environment{e, tasks.New(7)} {
		second, err := again.Reset(ctx, task)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(first, second) {
			return fmt.Errorf("task %s begins with %+v and then with %+v", task.ID, first, second)
		}
		for range 2 {
			if err := again.Close(); err != nil {
				return fmt.Errorf("close: %w", err)
			}
		}
	}
	return nil
}

func cancellation(tasks env.Tasks) error {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	e := tasks.New(0)
	defer e.Close()
	if _, err := e.Reset(cancelled, tasks.Task(env.Train, 0)); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("reset under a cancelled context: error %v", err)
	}
	if _, err := e.Reset(context.Background(), tasks.Task(env.Train, 0)); err != nil {
		return fmt.Errorf("reset after a cancelled one: %w", err)
	}
	if _, err := e.Step(cancelled, text("hello")); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("step under a cancelled context: error %v", err)
	}
	return nil
}

func misuse(tasks env.Tasks) error {
	ctx := context.Background()
	e := tasks.New(0)
	defer e.Close()
	if _, err := e.Step(ctx, text("hello")); err == nil {
		return errors.New("a step before the first reset is no error")
	}
	done, err := play(e, tasks.Task(env.Train, 0), text("hello"))
	if err != nil {
		return err
	}
	if done {
		if _, err := e.Step(ctx, text("hello")); err == nil {
			return errors.New("a step after the end is no error")
		}
		if _, err := e.Reset(ctx, tasks.Task(env.Train, 0)); err != nil {
			return fmt.Errorf("reset after the end: %w", err)
		}
	}
	if err := e.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if _, err := e.Step(ctx, text("hello")); err == nil {
		return errors.New("a step after close is no error")
	}
	return nil
}

// actions checks that whatever a policy says is answered and no failure.
func actions(tasks env.Tasks) error {
	call := func(name, arguments string) chat.Message {
		return chat.Message{Role: chat.Assistant, NoContent: true, ToolCalls: []chat.ToolCall{{ID: "a", Name: name, Arguments: arguments}}}
	}
	parallel := call("dance", "{}")
	parallel.ToolCalls = append(parallel.ToolCalls, chat.ToolCall{ID: "b", Name: "sing", Arguments: "{}"})
	for name, action := range map[string]chat.Message{
		"text": text("hello"), "nothing": {Role: chat.Assistant}, "an unknown tool": call("dance", "{}"),
		"arguments that are no JSON": call("dance", "{"), "parallel calls": parallel,
		"a malformed call": {Role: chat.Assistant, Content: "<tool_call>{", MalformedCalls: []string{"{"}},
	} {
		e := tasks.New(0)
		_, err := play(e, tasks.Task(env.Train, 0), action)
		if err := errors.Join(err, e.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// play repeats one action until the trajectory ends, or long enough.
func play(e env.Environment, task env.Task, action chat.Message) (done bool, err error) {
	const steps = 64
	o, err := e.Reset(context.Background(), task)
	if err != nil {
		return false, err
	}
	for step := 0; step < steps && !o.Done; step++ {
		if o, err = e.Step(context.Background(), action); err != nil {
			return false, fmt.Errorf("step %d: %w", step, err)
		}
		if math.IsNaN(o.Reward) || math.IsInf(o.Reward, 0) {
			return false, fmt.Errorf("step %d: reward %v: want a finite number", step, o.Reward)
		}
		for name, value := range o.Metrics {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				return false, fmt.Errorf("step %d: metric %s: %v: want a finite number", step, name, value)
			}
		}
		if len(o.Tools) > 0 {
			return false, fmt.Errorf("step %d: tools: they are told at the reset only", step)
		}
		if len(o.Messages) == 0 && !o.Done {
			return false, fmt.Errorf("step %d: nothing is shown, and the trajectory goes on", step)
		}
		if err := answers(action, o); err != nil {
			return false, fmt.Errorf("step %d: %w", step, err)
		}
	}
	return o.Done, nil
}

// answers checks that every call has its result: a template writes no call without one.
func answers(action chat.Message, o env.Observation) error {
	if o.Done && len(o.Messages) == 0 {
		return nil
	}
	for i, call := range action.ToolCalls {
		if i >= len(o.Messages) || o.Messages[i].Role != chat.ToolRole || o.Messages[i].ToolCallID != call.ID {
			return fmt.Errorf("call %d, id %q, is not answered by message %d of %+v", i, call.ID, i, o.Messages)
		}
	}
	return nil
}

// concurrency plays several trajectories at once: with the race detector it finds state
// that they share.
func concurrency(tasks env.Tasks) error {
	var all sync.WaitGroup
	failed := make([]error, 4)
	for k := range failed {
		all.Go(func() {
			e := tasks.New(uint64(k))
			_, err := play(e, tasks.Task(env.Train, k%tasks.Len(env.Train)), text("hello"))
			failed[k] = errors.Join(err, e.Close())
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

func text(s string) chat.Message { return chat.Message{Role: chat.Assistant, Content: s} }
