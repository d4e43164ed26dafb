package recorded

import (
	"slices"

	"github.com/infinirl/infinirl/chat"
)

// responseItems are the types of OpenAI Responses items that are no messages.
var responseItems = []string{"function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output"}

// matchResponses accepts {"input": ..., "output": [...]}, either alone, the same
// under responses_create_params, and an array of items.
func matchResponses(d document) bool {
	if d.object.has("responses_create_params") {
		return true
	}
	if d.items != nil {
		return slices.ContainsFunc(d.items, func(v value) bool {
			o, err := v.object()
			kind, _ := o.text("type")
			return err == nil && slices.Contains(responseItems, kind)
		})
	}
	for _, key := range []string{"input", "output"} {
		if v, ok := d.object.get(key); ok && v.kind() == '[' {
			items, err := v.array()
			if err != nil || len(items) == 0 || items[0].kind() != '{' {
				continue
			}
			first, _ := items[0].object()
			kind, _ := first.text("type")
			return first.has("role") || slices.Contains(responseItems, kind)
		}
	}
	return false
}

func readResponses(d document) ([]Run, error) {
	r := responses{}
	if d.items != nil {
		err := r.items(d.items)
		return []Run{{Messages: r.messages}}, err
	}
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	o := d.object
	if v, ok := o.get("responses_create_params"); ok {
		if o, err = v.object(); err != nil {
			return nil, err
		}
		inner, err := header(o)
		if err != nil {
			return nil, err
		}
		run.Tools = inner.Tools
	}
	if v, ok := o.get("instructions"); ok && v.kind() == '"' {
		text, _ := v.text()
		r.messages = append(r.messages, Message{Message: chat.Message{Role: chat.System, Content: text}, at: v})
	}
	for _, from := range []object{o, d.object} {
		for _, key := range []string{"input", "output"} {
			v, ok := from.get(key)
			if !ok || from.start == d.start && o.start != d.start && key == "input" {
				continue
			}
			if v.kind() == '"' {
				text, _ := v.text()
				r.messages = append(r.messages, Message{Message: chat.Message{Role: chat.User, Content: text}, at: v})
				continue
			}
			items, err := v.array()
			if err != nil {
				return nil, err
			}
			if err := r.items(items); err != nil {
				return nil, err
			}
		}
		if o.start == d.start {
			break
		}
	}
	run.Messages = r.messages
	return []Run{run}, nil
}

// responses gathers items into messages: reasoning, text and calls without results
// between them are one assistant message.
type responses struct {
	messages []Message
	open     bool // the last message is an assistant message that may go on
}

func (r *responses) items(items []value) error {
	for _, v := range items {
		if err := r.item(v); err != nil {
			return err
		}
	}
	return nil
}

// assistant returns the assistant message that goes on.
func (r *responses) assistant(v value) *Message {
	if !r.open {
		r.messages = append(r.messages, Message{Message: chat.Message{Role: chat.Assistant, NoContent: true}, at: v})
		r.open = true
	}
	return &r.messages[len(r.messages)-1]
}

func (r *responses) item(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	kind, err := o.text("type")
	if err != nil {
		return err
	}
	if kind == "" && o.has("role") {
		kind = "message"
	}
	switch kind {
	case "message":
		m, err := message(v)
		if err != nil {
			return err
		}
		if m.Role != chat.Assistant {
			r.open = false
			r.messages = append(r.messages, m)
			return nil
		}
		a := r.assistant(v)
		if a.Content != "" && m.Content != "" {
			a.Content += "\n"
		}
		a.Content += m.Content
		a.NoContent = a.NoContent && m.NoContent
	case "reasoning":
		a := r.assistant(v)
		for _, key := range []string{"content", "summary"} {
			if parts, ok := o.get(key); ok && a.Reasoning == "" {
				if a.Reasoning, err = parts.parts(); err != nil {
					return err
				}
			}
		}
	case "function_call", "custom_tool_call":
		c, err := call(v)
		if err != nil {
			return err
		}
		if c.ID, err = o.text("call_id"); err != nil {
			return err
		}
		a := r.assistant(v)
		a.ToolCalls = append(a.ToolCalls, c)
	case "function_call_output", "custom_tool_call_output":
		output, err := o.need("output")
		if err != nil {
			return err
		}
		m := Message{Message: chat.Message{Role: chat.ToolRole}, at: v}
		if m.Content, err = output.parts(); err != nil {
			return err
		}
		if m.ToolCallID, err = o.text("call_id"); err != nil {
			return err
		}
		r.open = false
		r.messages = append(r.messages, m)
	case "":
		return v.errorf("an item without type and role")
	default: // what the server's own tools did
		a := r.assistant(v)
		if a.Content != "" {
			a.Content += "\n"
		}
		a.Content += "[" + kind + "]"
		a.NoContent = false
	}
	return nil
}
