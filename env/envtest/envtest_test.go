package envtest_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/envtest"
	"github.com/infinirl/infinirl/env/keytodoor"
)

// mutant is a family of tasks that breaks a promise.
type mutant struct {
	env.Tasks
	task func(env.Tasks, env.Split, int) env.Task
	wrap func(env.Environment) env.Environment
}

func (m mutant) Task(split env.Split, i int) env.Task {
	if m.task == nil {
		return m.Tasks.Task(split, i)
	}
	return m.task(m.Tasks, split, i)
}

func (m mutant) New(seed uint64) env.Environment {
	if m.wrap == nil {
		return m.Tasks.New(seed)
	}
	return m.wrap(m.Tasks.New(seed))
}

// Each mutant breaks one promise, and the suite says which.
func TestMutantsFail(t *testing.T) {
	t.Parallel()
	tasks := keytodoor.World().Tasks
	if err := envtest.Check(tasks); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		name, want string
		mutant     mutant
	}{
		{"a task in two splits", "splits: ", mutant{task: func(t env.Tasks, _ env.Split, i int) env.Task { return t.Task(env.Train, i) }}},
		{"state of an earlier trajectory", "openings: ", mutant{wrap: func(e env.Environment) env.Environment { return &counting{Environment: e} }}},
		{"a context ignored", "cancellation: ", mutant{wrap: func(e env.Environment) env.Environment { return deaf{e} }}},
		{"steps after close", "misuse: a step after close", mutant{wrap: func(e env.Environment) env.Environment { return open{e} }}},
		{"failures for what the policy did", "actions: an unknown tool", mutant{wrap: func(e env.Environment) env.Environment { return strict{e} }}},
		{"a call without an answer", "is not answered", mutant{wrap: func(e env.Environment) env.Environment { return changed{e, first} }}},
		{"a reward that is no number", "want a finite number", mutant{wrap: func(e env.Environment) env.Environment { return changed{e, unpaid} }}},
		{"tools told again", "told at the reset only", mutant{wrap: func(e env.Environment) env.Environment { return changed{e, tools} }}},
	} {
		m.mutant.Tasks = tasks
		if err := envtest.Check(m.mutant); err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("%s: error %v, want %q", m.name, err, m.want)
		}
	}
}

// counting tells how often it was reset.
type counting struct {
	env.Environment
	n int
}

func (c *counting) Reset(ctx context.Context, task env.Task) (env.Observation, error) {
	o, err := c.Environment.Reset(ctx, task)
	if c.n++; c.n > 1 && err == nil {
		o.Messages = append(o.Messages, chat.Message{Role: chat.User, Content: "again"})
	}
	return o, err
}

type deaf struct{ env.Environment }

func (d deaf) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	return d.Environment.Step(context.WithoutCancel(ctx), action)
}

type open struct{ env.Environment }

func (open) Close() error { return nil }

// strict fails where it does not know a tool.
type strict struct{ env.Environment }

func (s strict) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	if len(action.ToolCalls) > 0 && action.ToolCalls[0].Name == "dance" {
		return env.Observation{}, errors.New("no tool dance")
	}
	return s.Environment.Step(ctx, action)
}

// changed observes something else after a step.
type changed struct {
	env.Environment
	change func(*env.Observation)
}

func (c changed) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	o, err := c.Environment.Step(ctx, action)
	c.change(&o)
	return o, err
}

func first(o *env.Observation)  { o.Messages = o.Messages[:min(1, len(o.Messages))] }
func unpaid(o *env.Observation) { o.Reward = math.NaN() }
func tools(o *env.Observation)  { o.Tools = []chat.Tool{{Name: "look"}} }
