package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/toolcall"
)

const (
	// maxErrors is the error observation that ends the trajectory.
	maxErrors = 3
	// spareCalls is how many calls a trajectory may make beyond one a hop. An
	// undisturbed one makes two more, the search and the choice of the bearer, and
	// opens every page a second time if its window is summarised at each.
	spareCalls = 12
)

// scale bounds the length of tasks and pages.
type scale struct {
	minHops, maxHops int
	minPage, maxPage int // words
}

var (
	full  = scale{minHops: minHops, maxHops: maxHops, minPage: 60, maxPage: 84}
	short = scale{minHops: 1, maxHops: 3, minPage: 20, maxPage: 32} // for drills
)

// environment plays one trajectory.
type environment struct {
	scale  scale
	world  *world // nil before the first reset
	calls  int
	errors int
	done   bool
}

// Reset starts the trajectory of a task.
func (e *environment) Reset(ctx context.Context, task env.Task) (env.Observation, error) {
	if err := ctx.Err(); err != nil {
		return env.Observation{}, fmt.Errorf("search: reset to task %s: %w", task.ID, err)
	}
	*e = environment{scale: e.scale, world: newWorld(task.Seed, e.scale.minHops, e.scale.maxHops)}
	return env.Observation{
		Messages: []chat.Message{
			{Role: chat.System, Content: systemText},
			{Role: chat.User, Content: e.world.question.taskText()},
		},
		Tools: tools(),
	}, nil
}

// Step answers one action. Whatever is no valid call is answered by an error
// observation.
func (e *environment) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	if err := ctx.Err(); err != nil {
		return env.Observation{}, fmt.Errorf("search: step: %w", err)
	}
	if e.world == nil || e.done {
		return env.Observation{}, errors.New("search: step: no trajectory is running: reset first")
	}
	e.calls++
	var o env.Observation
	if len(action.ToolCalls) == 1 {
		o = e.call(action.ToolCalls[0])
	} else {
		e.errors++
		o.Messages = toolcall.Refuse(action, "error call one tool .")
	}
	if e.errors == maxErrors || e.calls == len(e.world.question.hops)+spareCalls {
		o.Done = true
	}
	e.done = o.Done
	return o, nil
}

// Close ends the trajectory. Nothing is held that had to be freed.
func (e *environment) Close() error {
	e.done = true
	return nil
}

// call runs one tool.
func (e *environment) call(call chat.ToolCall) env.Observation {
	show := func(text string) env.Observation {
		return env.Observation{Messages: []chat.Message{toolcall.Result(call, text)}}
	}
	fail := func(text string) env.Observation {
		e.errors++
		return show(text)
	}
	switch call.Name {
	case "search":
		var arguments searchArguments
		if err := toolcall.Arguments(call, &arguments); err != nil {
			return fail("error arguments .")
		}
		listing, found := e.world.listingText(arguments.Name)
		if !found {
			return fail("error unknown name .")
		}
		return show(listing)
	case "open", "answer":
		var arguments stepArguments
		if err := toolcall.Arguments(call, &arguments); err != nil {
			return fail("error arguments .")
		}
		id, found := e.world.byHandle[arguments.Entity]
		if !found {
			return fail("error unknown entity .")
		}
		if call.Name == "open" {
			return show(e.world.pageText(id, e.scale.minPage, e.scale.maxPage))
		}
		o := show("wrong .")
		if id == e.world.question.answer {
			o = show("right .")
			o.Reward, o.Success = 1, true
		}
		o.Done = true
		return o
	}
	return fail("error unknown tool .")
}
