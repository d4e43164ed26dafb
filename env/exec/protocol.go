package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/question"
	"github.com/infinirl/infinirl/env/taskfile"
	"github.com/infinirl/infinirl/env/tools"
)

// Version is that of the protocol, and stands in every request.
const Version = 1

// request is what an environment is asked, one JSON object. docs/environments.md has it
// from the side of who answers.
type request struct {
	Version    int    `json:"version"`
	Trajectory string `json:"trajectory"`
	ID         int64  `json:"id"`
	Type       string `json:"type"`
	// reset and grade
	Task     json.RawMessage `json:"task,omitempty"`
	Seed     *uint64         `json:"seed,omitempty"`
	Messages []chat.Message  `json:"messages,omitempty"`
	// step
	*action
}

type action struct {
	Content        *string  `json:"content"`
	Reasoning      string   `json:"reasoning"`
	ToolCalls      []call   `json:"tool_calls"`
	MalformedCalls []string `json:"malformed_calls"`
}

type call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func newAction(m chat.Message) *action {
	a := &action{Reasoning: m.Reasoning, ToolCalls: []call{}, MalformedCalls: append([]string{}, m.MalformedCalls...)}
	if !m.NoContent {
		a.Content = &m.Content
	}
	for _, c := range m.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, call(c))
	}
	return a
}

// answer is what comes back. What is absent is nil, so that no reward is made of nothing.
type answer struct {
	ID       *int64             `json:"id"`
	Error    *string            `json:"error"`
	Messages []chat.Message     `json:"messages"`
	Tools    []chat.Tool        `json:"tools"`
	Reward   *float64           `json:"reward"`
	Done     *bool              `json:"done"`
	Success  *bool              `json:"success"`
	Metrics  map[string]float64 `json:"metrics"`
}

// read reads the answer to a request. A field that the protocol does not have is an error:
// it would be lost.
func read(data []byte, to request) (answer, error) {
	var a answer
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&a)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = errors.New("text behind the JSON object")
		}
	}
	switch {
	case err != nil:
		return a, fmt.Errorf("the answer to %s is %q: want one JSON object and nothing else on stdout: %w", to.Type, chat.Excerpt(string(data)), err)
	case a.ID == nil || *a.ID != to.ID:
		return a, fmt.Errorf("the answer to %s is %q: want the id of the request, %d", to.Type, chat.Excerpt(string(data)), to.ID)
	case a.Error != nil:
		return a, fmt.Errorf("%s: it reports the error %q", to.Type, *a.Error)
	}
	for name, value := range a.Metrics {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return a, fmt.Errorf("%s: metrics: %s: %v: want a finite number", to.Type, name, value)
		}
	}
	return a, nil
}

// opening returns what a reset shows: the opening of the task where it shows no messages.
func (a answer) opening(task env.Task) (env.Observation, error) {
	o := env.Observation{Messages: a.Messages, Tools: a.Tools}
	if a.Reward != nil && *a.Reward != 0 || a.Done != nil && *a.Done || a.Success != nil && *a.Success {
		return o, errors.New("reset: reward, done or success: want none before the first step")
	}
	if len(o.Messages) == 0 {
		var err error
		if o.Messages, err = taskfile.Opening(task); err != nil {
			return o, err
		}
	}
	if len(o.Messages) == 0 {
		return o, errors.New("reset: no messages, and the task has no messages, prompt or question: want one of them")
	}
	for i, m := range o.Messages {
		if m.Role != chat.System && m.Role != chat.User {
			return o, fmt.Errorf("reset: messages[%d]: role %q: want system or user", i, chat.Excerpt(m.Role))
		}
	}
	named := map[string]bool{}
	for _, tool := range o.Tools {
		if err := tools.Check(tool); err != nil {
			return o, fmt.Errorf("reset: %w", err)
		}
		if named[tool.Name] {
			return o, fmt.Errorf("reset: tool %s: two have this name", tool.Name)
		}
		named[tool.Name] = true
	}
	return o, nil
}

// observation returns what a step shows: first a result for every call, in their order.
func (a answer) observation(calls []chat.ToolCall, budget tools.Budget) (env.Observation, error) {
	o := env.Observation{Messages: a.Messages, Metrics: a.Metrics, Done: a.Done != nil && *a.Done}
	if len(a.Tools) > 0 {
		return o, errors.New("step: tools: want them at the reset only")
	}
	if a.Reward != nil {
		o.Reward = *a.Reward
	}
	if o.Done {
		if a.Reward == nil || a.Success == nil {
			return o, errors.New("step: done without a reward and success: want both, for what is absent is not 0")
		}
		o.Success = *a.Success
		if len(o.Messages) == 0 {
			return o, nil
		}
	}
	if len(o.Messages) == 0 {
		return o, errors.New("step: no messages, and the trajectory goes on: want a message or done")
	}
	for i := range o.Messages {
		m := &o.Messages[i]
		if i < len(calls) {
			if m.Role != chat.ToolRole || m.ToolCallID != "" && m.ToolCallID != calls[i].ID {
				return o, fmt.Errorf("step: messages[%d]: role %q, tool_call_id %q: want the result of call %q of %s: a result for every call, in their order",
					i, chat.Excerpt(m.Role), chat.Excerpt(m.ToolCallID), calls[i].ID, chat.Excerpt(calls[i].Name))
			}
			m.ToolCallID, m.Name = calls[i].ID, calls[i].Name
		} else if m.Role != chat.User {
			return o, fmt.Errorf("step: messages[%d]: role %q: want user, for %d calls are answered", i, chat.Excerpt(m.Role), len(calls))
		}
		var err error
		if m.Content, err = budget.Cut(m.Content); err != nil {
			return o, err
		}
		m.NoContent = false
	}
	if len(o.Messages) < len(calls) {
		return o, fmt.Errorf("step: %d messages for %d calls: want a result for every call, in their order", len(o.Messages), len(calls))
	}
	return o, nil
}

// grade returns what an answer is worth.
func (a answer) grade() (question.Grade, error) {
	if a.Reward == nil || a.Success == nil {
		return question.Grade{}, errors.New("grade: no reward or no success: want both, for what is absent is not 0")
	}
	return question.Grade{Reward: *a.Reward, Success: *a.Success, Metrics: a.Metrics}, nil
}
