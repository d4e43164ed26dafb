package recorded

import (
	"fmt"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// matchMessages accepts {"messages": [...]} and an array of messages.
func matchMessages(d document) bool {
	return d.object.has("messages") || d.first.has("role")
}

func readMessages(d document) ([]Run, error) {
	var run Run
	list := d.value
	if d.object.has("messages") {
		var err error
		if list, err = d.object.need("messages"); err != nil {
			return nil, err
		}
		if run, err = header(d.object); err != nil {
			return nil, err
		}
	}
	messages, err := messageList(list)
	if err != nil {
		return nil, err
	}
	run.Messages = messages
	return []Run{run}, nil
}

// matchTauBench accepts the results of tau-bench: task_id, reward and traj.
func matchTauBench(d document) bool { return d.object.has("traj", "reward") }

func readTauBench(d document) ([]Run, error) {
	list, err := d.object.need("traj")
	if err != nil {
		return nil, err
	}
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	run.Messages, err = messageList(list)
	return []Run{run}, err
}

// messageList reads an array of OpenAI messages.
func messageList(v value) ([]Message, error) {
	items, err := v.array()
	if err != nil {
		return nil, err
	}
	messages := make([]Message, 0, len(items))
	for _, item := range items {
		m, err := message(item)
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// roles maps the names of roles to the four of package chat.
var roles = map[string]chat.Role{
	"system": chat.System, "developer": chat.System,
	"user": chat.User, "human": chat.User,
	"assistant": chat.Assistant, "ai": chat.Assistant, "gpt": chat.Assistant, "model": chat.Assistant,
	"tool": chat.ToolRole, "function": chat.ToolRole, "observation": chat.ToolRole,
}

// message reads one OpenAI message.
func message(v value) (Message, error) {
	o, err := v.object()
	if err != nil {
		return Message{}, err
	}
	m := Message{at: v}
	name, err := o.needText("role")
	if err != nil {
		return m, err
	}
	var ok bool
	if m.Role, ok = roles[name]; !ok {
		role, _ := o.get("role")
		return m, role.errorf("unknown role %q", chat.Excerpt(name))
	}
	if content, ok := o.get("content"); ok {
		if m.Content, err = content.parts(); err != nil {
			return m, err
		}
	} else {
		m.NoContent = true
	}
	for _, key := range []string{"reasoning_content", "reasoning"} {
		if r, ok := o.get(key); ok && r.kind() == '"' {
			m.Reasoning, _ = r.text()
		}
	}
	if m.Role == chat.Assistant {
		if calls, ok := o.get("tool_calls"); ok {
			if m.ToolCalls, err = callList(calls); err != nil {
				return m, err
			}
		} else if legacy, ok := o.get("function_call"); ok {
			call, err := call(legacy)
			if err != nil {
				return m, err
			}
			m.ToolCalls = []chat.ToolCall{call}
		}
	}
	if m.Name, err = o.text("name"); err != nil {
		return m, err
	}
	if m.ToolCallID, err = o.text("tool_call_id"); err != nil {
		return m, err
	}
	return m, nil
}

// parts returns the text of a content: a string, or parts of which those that are
// no text are named in brackets.
func (v value) parts() (string, error) {
	if v.kind() != '[' {
		return v.text()
	}
	items, err := v.array()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, item := range items {
		if item.kind() == '"' {
			s, _ := item.text()
			text.WriteString(s)
			continue
		}
		o, err := item.object()
		if err != nil {
			return "", err
		}
		if s, ok := o.get("text"); ok {
			t, err := s.text()
			if err != nil {
				return "", err
			}
			text.WriteString(t)
			continue
		}
		kind, err := o.needText("type")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "[%s]", kind)
	}
	return text.String(), nil
}

// callList reads tool calls.
func callList(v value) ([]chat.ToolCall, error) {
	items, err := v.array()
	if err != nil {
		return nil, err
	}
	var calls []chat.ToolCall
	for _, item := range items {
		c, err := call(item)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// call reads one tool call: {"id", "function": {"name", "arguments"}}, or name and
// arguments (args, input) without the wrapping.
func call(v value) (chat.ToolCall, error) {
	o, err := v.object()
	if err != nil {
		return chat.ToolCall{}, err
	}
	var c chat.ToolCall
	if c.ID, err = o.text("id"); err != nil {
		return c, err
	}
	if inner, ok := o.get("function"); ok && inner.kind() == '{' {
		if o, err = inner.object(); err != nil {
			return c, err
		}
	}
	if c.Name, err = o.needText("name"); err != nil {
		return c, err
	}
	c.Arguments = "{}"
	for _, key := range []string{"arguments", "args", "input"} {
		if arguments, ok := o.get(key); ok {
			c.Arguments = arguments.scalar()
			break
		}
	}
	return c, nil
}
