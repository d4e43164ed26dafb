package recorded

import (
	"github.com/infinirl/infinirl/chat"
)

// The trajectories of SWE-agent, versions 0.x and 1.x (sweagent/types.py at 05ff843f,
// HistoryItem):
// the history is what the model saw. What it said is sampled.
//
// A demonstration (is_demo) is shown where it stood and is not sampled. As one user
// message it is part of the opening. Message by message it comes before the task, as
// if it were a part of the run: its user messages are marked as observations, so
// that a condenser may drop the demonstration whole, and never keeps a solved task
// without its solution; the task after it is marked as such, and stays.

// matchSWEAgent accepts .traj files of SWE-agent: trajectory and history.
func matchSWEAgent(d document) bool { return d.object.has("trajectory") && d.holds("history") }

func readSWEAgent(d document) ([]Run, error) {
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	if err := run.outcome(d.object, "", "info"); err != nil {
		return nil, err
	}
	list, err := d.object.need("history")
	if err != nil {
		return nil, err
	}
	items, err := list.array()
	if err != nil {
		return nil, err
	}
	demonstrated, answered := false, false // an assistant message of a demonstration, of the run
	acted := false                         // some step of a demonstration stands before others
	for i, item := range items {
		m, demo, err := run.sweMessage(item)
		if err != nil {
			return nil, err
		}
		switch {
		case m.Role == chat.Assistant && demo:
			m.NotSampled, demonstrated = true, true
		case m.Role == chat.Assistant:
			answered = true
		case m.Role == chat.User && demo:
			acted = acted || demoSteps(items[i:])
			m.Observation = acted
		case m.Role == chat.User:
			m.Observation = answered
			m.Task = demonstrated && !answered
		}
		run.Messages = append(run.Messages, m)
	}
	return []Run{run}, nil
}

// demoSteps reports whether the demonstration at the start of a history goes on with
// a message of the assistant: it is told message by message.
func demoSteps(items []value) bool {
	for _, item := range items {
		o, err := item.object()
		if err != nil || !isDemo(o) {
			return false
		}
		if role, _ := o.text("role"); role == "assistant" {
			return true
		}
	}
	return false
}

func isDemo(o object) bool {
	v, ok := o.get("is_demo")
	return ok && v.kind() == 't'
}

// sweMessage reads an item of the history.
func (r *Run) sweMessage(v value) (m Message, demo bool, err error) {
	if m, err = message(v); err != nil {
		return m, false, err
	}
	o, err := v.object()
	if err != nil {
		return m, false, err
	}
	if m.Role == chat.Assistant && m.Reasoning == "" {
		if m.Reasoning, err = thinking(o); err != nil {
			return m, false, err
		}
	}
	if ids, ok := o.get("tool_call_ids"); ok && m.Role == chat.ToolRole && m.ToolCallID == "" {
		list, err := ids.array()
		if err != nil {
			return m, false, err
		}
		if len(list) > 0 {
			m.ToolCallID = list[0].scalar()
		}
	}
	return m, isDemo(o), nil
}
