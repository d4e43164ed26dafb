// Package question is the environment of tasks that end with an answer: an opening, tools
// that may be called any number of times, and a reply without a call, which is the answer
// and is graded.
package question

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/taskfile"
	"github.com/infinirl/infinirl/env/tools"
)

// Grade is what an answer is worth.
type Grade struct {
	Reward  float64
	Success bool
	// Metrics are figures that are reported and not trained on, by name.
	Metrics map[string]float64
}

// Grader grades the conversation of a task, whose last message is the answer. An error
// ends the trajectory as failed: it is never a reward of 0. It is safe for concurrent use.
type Grader interface {
	Grade(ctx context.Context, task env.Task, conversation []chat.Message) (Grade, error)
}

// Config is what the tasks are made of.
type Config struct {
	Name  string
	Tasks *taskfile.File
	// System is a system message before the opening of every task, none if empty.
	System  string
	Sources []tools.Source
	Tools   tools.Config
	Grader  Grader
}

// Tasks are questions.
type Tasks struct{ cfg Config }

var _ env.Tasks = (*Tasks)(nil)

// New returns the tasks. Each of them has an opening.
func New(cfg Config) (*Tasks, error) {
	switch {
	case cfg.Name == "":
		return nil, errors.New("question: name: want one")
	case cfg.Tasks == nil || cfg.Grader == nil:
		return nil, errors.New("question: want tasks and a grader")
	}
	if err := cfg.Tools.Validate(); err != nil {
		return nil, err
	}
	for _, split := range []env.Split{env.Train, env.Eval, env.Clone} {
		for i := range cfg.Tasks.Len(split) {
			task := cfg.Tasks.Task(split, i)
			if opening, err := taskfile.Opening(task); err != nil || len(opening) == 0 {
				return nil, fmt.Errorf("task %q: want messages, a prompt or a question", chat.Excerpt(task.ID))
			}
		}
	}
	return &Tasks{cfg}, nil
}

// Name returns the name of the configuration.
func (t *Tasks) Name() string { return t.cfg.Name }

// Len returns the number of tasks of a split.
func (t *Tasks) Len(split env.Split) int { return t.cfg.Tasks.Len(split) }

// Task returns a task.
func (t *Tasks) Task(split env.Split, i int) env.Task { return t.cfg.Tasks.Task(split, i) }

// New returns a fresh environment. Nothing is left to chance in it: the seed has no use.
func (t *Tasks) New(uint64) env.Environment { return &environment{cfg: &t.cfg} }

type environment struct {
	cfg          *Config
	task         env.Task
	set          *tools.Set // nil unless a trajectory is running
	conversation []chat.Message
}

// Reset shows the opening and the tools.
func (e *environment) Reset(ctx context.Context, task env.Task) (env.Observation, error) {
	if err := errors.Join(ctx.Err(), e.Close()); err != nil {
		return env.Observation{}, err
	}
	opening, err := taskfile.Opening(task)
	if err != nil {
		return env.Observation{}, fmt.Errorf("task %s: %w", task.ID, err)
	}
	if e.cfg.System != "" {
		opening = append([]chat.Message{{Role: chat.System, Content: e.cfg.System}}, opening...)
	}
	if e.set, err = tools.Open(ctx, e.cfg.Tools, e.cfg.Sources...); err != nil {
		return env.Observation{}, err
	}
	e.task, e.conversation = task, slices.Clone(opening)
	return env.Observation{Messages: opening, Tools: e.set.Schemas()}, nil
}

// Step runs the calls of an action; an action without any is the answer.
func (e *environment) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	switch {
	case e.set == nil:
		return env.Observation{}, errors.New("step: no trajectory is running: reset first")
	case ctx.Err() != nil:
		return env.Observation{}, ctx.Err()
	}
	e.conversation = append(e.conversation, action)
	if len(action.ToolCalls) == 0 && len(action.MalformedCalls) == 0 {
		grade, err := e.cfg.Grader.Grade(ctx, e.task, slices.Clone(e.conversation))
		if err == nil {
			err = grade.check()
		}
		if err != nil {
			err = fmt.Errorf("grade the answer to task %s: %w", e.task.ID, err)
		}
		if err = errors.Join(err, e.Close()); err != nil {
			return env.Observation{}, err
		}
		return env.Observation{Reward: grade.Reward, Done: true, Success: grade.Success, Metrics: grade.Metrics}, nil
	}
	results, err := e.set.Run(ctx, action.ToolCalls)
	if err != nil {
		return env.Observation{}, errors.Join(err, e.Close())
	}
	for _, text := range action.MalformedCalls {
		results = append(results, chat.Message{Role: chat.User, Observation: true, Content: fmt.Sprintf("error: no tool call, but looks like one: %s", chat.Excerpt(text))})
	}
	e.conversation = append(e.conversation, results...)
	return env.Observation{Messages: results}, nil
}

// check tells whether it can be trained on.
func (g Grade) check() error {
	if math.IsNaN(g.Reward) || math.IsInf(g.Reward, 0) {
		return fmt.Errorf("reward: %v: want a finite number", g.Reward)
	}
	for name, value := range g.Metrics {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("metrics: %s: %v: want a finite number", name, value)
		}
	}
	return nil
}

// Close ends the tools.
func (e *environment) Close() error {
	if e.set == nil {
		return nil
	}
	set := e.set
	e.set, e.conversation = nil, nil
	return set.Close()
}

// Answer returns what a reply answers: what stands between the last <answer> and
// </answer>, all of it if there are none.
func Answer(reply chat.Message) string {
	text := reply.Content
	if start := strings.LastIndex(text, "<answer>"); start >= 0 {
		if inner, _, closed := strings.Cut(text[start+len("<answer>"):], "</answer>"); closed {
			text = inner
		}
	}
	return strings.TrimSpace(text)
}
