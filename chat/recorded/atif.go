package recorded

import (
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// matchATIF accepts the Agent Trajectory Interchange Format of Harbor.
func matchATIF(d document) bool {
	version, _ := d.object.text("schema_version")
	return strings.HasPrefix(version, "ATIF") || d.object.has("steps", "agent")
}

func readATIF(d document) ([]Run, error) {
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	if v, ok := d.object.get("agent"); ok && v.kind() == '{' {
		agent, _ := v.object()
		if tools, ok := agent.get("tool_definitions"); ok {
			if run.Tools, err = toolList(tools); err != nil {
				return nil, err
			}
		}
	}
	list, err := d.object.need("steps")
	if err != nil {
		return nil, err
	}
	steps, err := list.array()
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		messages, err := atifStep(step)
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, messages...)
	}
	return []Run{run}, nil
}

// atifStep reads one step: a message, and the observation that followed it.
func atifStep(v value) ([]Message, error) {
	o, err := v.object()
	if err != nil {
		return nil, err
	}
	source, err := o.needText("source")
	if err != nil {
		return nil, err
	}
	m := Message{at: v}
	switch source {
	case "system":
		m.Role = chat.System
	case "user":
		m.Role = chat.User
	case "agent":
		m.Role = chat.Assistant
	default:
		return nil, v.errorf("unknown source %q, want system, user or agent", chat.Excerpt(source))
	}
	if text, ok := o.get("message"); ok {
		if m.Content, err = text.parts(); err != nil {
			return nil, err
		}
	} else {
		m.NoContent = true
	}
	if m.Reasoning, err = o.text("reasoning_content"); err != nil {
		return nil, err
	}
	if calls, ok := o.get("tool_calls"); ok && m.Role == chat.Assistant {
		items, err := calls.array()
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			c, err := item.object()
			if err != nil {
				return nil, err
			}
			var made chat.ToolCall
			if made.Name, err = c.needText("function_name"); err != nil {
				return nil, err
			}
			if made.ID, err = c.text("tool_call_id"); err != nil {
				return nil, err
			}
			made.Arguments = "{}"
			if arguments, ok := c.get("arguments"); ok {
				made.Arguments = arguments.scalar()
			}
			m.ToolCalls = append(m.ToolCalls, made)
		}
	}
	messages := []Message{m}
	observation, ok := o.get("observation")
	if !ok {
		return messages, nil
	}
	results, err := observation.object()
	if err != nil {
		return nil, err
	}
	list, err := results.need("results")
	if err != nil {
		return nil, err
	}
	items, err := list.array()
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		r, err := item.object()
		if err != nil {
			return nil, err
		}
		// More results than calls are what the environment said by itself.
		result := Message{Message: chat.Message{Role: chat.ToolRole}, at: item}
		if i >= len(m.ToolCalls) {
			result.Role, result.Observation = chat.User, true
		}
		if result.ToolCallID, err = r.text("source_call_id"); err != nil {
			return nil, err
		}
		if content, ok := r.get("content"); ok {
			if result.Content, err = content.parts(); err != nil {
				return nil, err
			}
		} else {
			result.NoContent = true
		}
		messages = append(messages, result)
	}
	return messages, nil
}
