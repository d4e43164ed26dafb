package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
)

// With gives the environments of tasks further tools. Calls of these run here, beside the
// step of the environment with the other calls of the message; the environment hears
// nothing of them, and of a message that makes no other call nothing at all.
func With(tasks env.Tasks, cfg Config, sources ...Source) (env.Tasks, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &withTools{tasks, cfg, sources}, nil
}

type withTools struct {
	env.Tasks
	cfg     Config
	sources []Source
}

func (w *withTools) New(seed uint64) env.Environment {
	return &environment{inner: w.Tasks.New(seed), cfg: w.cfg, sources: w.sources}
}

type environment struct {
	inner   env.Environment
	cfg     Config
	sources []Source
	set     *Set // nil unless a trajectory is running
}

func (e *environment) Reset(ctx context.Context, task env.Task) (env.Observation, error) {
	if err := e.end(); err != nil {
		return env.Observation{}, err
	}
	o, err := e.inner.Reset(ctx, task)
	if err != nil {
		return env.Observation{}, err
	}
	set, err := Open(ctx, e.cfg, e.sources...)
	if err != nil {
		return env.Observation{}, err
	}
	for _, tool := range o.Tools {
		if set.Has(tool.Name) {
			return env.Observation{}, errors.Join(fmt.Errorf("tool %s: the environment has one of this name: want another", tool.Name), set.Close())
		}
	}
	e.set = set
	o.Tools = append(slices.Clone(o.Tools), set.Schemas()...)
	return o, nil
}

func (e *environment) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	if e.set == nil {
		return env.Observation{}, errors.New("step: no trajectory is running: reset first")
	}
	if err := ctx.Err(); err != nil {
		return env.Observation{}, err
	}
	var mine []chat.ToolCall
	inner := action
	inner.ToolCalls = nil
	for _, call := range action.ToolCalls {
		if e.set.Has(call.Name) {
			mine = append(mine, call)
		} else {
			inner.ToolCalls = append(inner.ToolCalls, call)
		}
	}
	var results []chat.Message
	var failed error
	var running sync.WaitGroup
	running.Go(func() { results, failed = e.set.Run(ctx, mine) })
	var o env.Observation
	var err error
	if len(inner.ToolCalls) > 0 || len(mine) == 0 {
		o, err = e.inner.Step(ctx, inner)
	}
	running.Wait()
	if err = errors.Join(err, failed); err == nil {
		o.Messages, err = e.merge(action.ToolCalls, results, o)
	}
	if err != nil || o.Done {
		err = errors.Join(err, e.end())
	}
	if err != nil {
		return env.Observation{}, err
	}
	return o, nil
}

// merge puts the results into the order of the calls; what else the environment shows
// comes behind.
func (e *environment) merge(calls []chat.ToolCall, mine []chat.Message, o env.Observation) ([]chat.Message, error) {
	if o.Done && len(o.Messages) == 0 {
		return nil, nil // nothing needs to be shown at the end
	}
	theirs, merged := o.Messages, []chat.Message(nil)
	for _, call := range calls {
		from := &theirs
		if e.set.Has(call.Name) {
			from = &mine
		} else if len(theirs) == 0 || theirs[0].Role != chat.ToolRole {
			return nil, fmt.Errorf("the environment has no result for the call of %s", chat.Excerpt(call.Name))
		}
		merged, *from = append(merged, (*from)[0]), (*from)[1:]
	}
	return append(merged, theirs...), nil
}

// end ends the tools of the trajectory that runs, if one does.
func (e *environment) end() error {
	if e.set == nil {
		return nil
	}
	set := e.set
	e.set = nil
	return set.Close()
}

func (e *environment) Close() error { return errors.Join(e.end(), e.inner.Close()) }
