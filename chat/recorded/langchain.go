package recorded

import (
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// matchLangChain accepts LangChain messages: serialised objects with lc, id and
// kwargs, {"type", "data"}, or the messages of a LangGraph state, whose type tells
// the role.
func matchLangChain(d document) bool {
	first := d.first
	if _, list, ok := d.conversation(); ok && list.kind() == '[' {
		inner, err := open(list)
		if err != nil {
			return false
		}
		first = inner.first
	}
	kind, _ := first.text("type")
	_, known := langChainRole(kind)
	return first.has("lc", "kwargs") || known && !first.has("role") && (first.has("content") || first.has("data"))
}

// langChainRole returns the role of a type of messages.
func langChainRole(kind string) (chat.Role, bool) {
	kind = strings.TrimSuffix(strings.TrimSuffix(kind, "Chunk"), "Message")
	role, ok := roles[strings.ToLower(kind)]
	return role, ok
}

func readLangChain(d document) ([]Run, error) {
	var run Run
	items := d.items
	if holder, list, ok := d.conversation(); ok {
		var err error
		if run, err = header(d.object); err != nil {
			return nil, err
		}
		if holder.start != d.start {
			inner, err := header(holder)
			if err != nil {
				return nil, err
			}
			run.complete(inner)
		}
		if items, err = list.array(); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		o, err := item.object()
		if err != nil {
			return nil, err
		}
		kind, err := o.text("type")
		if err != nil {
			return nil, err
		}
		if inner, ok := o.child("kwargs"); ok {
			o = inner
		} else if inner, ok := o.child("data"); ok {
			o = inner
		}
		messages, err := langChainMessage(o, kind)
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, messages...)
	}
	return run.reply(d.object, "")
}

// langChainMessage reads one message; kind is the type of what encloses it. Calls
// stand parsed under tool_calls and invalid_tool_calls, as the model wrote them under
// additional_kwargs, and in content blocks: each is taken once, as it was written if
// that is known.
func langChainMessage(o object, kind string) ([]Message, error) {
	if inner, err := o.text("type"); err != nil {
		return nil, err
	} else if inner != "" {
		kind = inner
	}
	role, ok := langChainRole(kind)
	if !ok {
		if name, _ := o.text("role"); name != "" {
			role, ok = roles[name]
		}
	}
	if !ok {
		return nil, o.errorf("unknown type of message %q", chat.Excerpt(kind))
	}
	m := Message{Message: chat.Message{Role: role, NoContent: true}, at: o.value}
	var err error
	if m.ToolCallID, err = o.label("tool_call_id"); err != nil {
		return nil, err
	}
	if m.Name, err = o.text("name"); err != nil {
		return nil, err
	}
	var parts []part
	if content, ok := o.get("content"); ok {
		if parts, err = m.contentParts(content); err != nil {
			return nil, err
		}
	}
	if role != chat.Assistant {
		return m.told(parts, "")
	}
	messages, err := m.spoken(o, parts, "")
	if err != nil {
		return nil, err
	}
	last := &messages[len(messages)-1]
	if invalid, ok := o.get("invalid_tool_calls"); ok {
		calls, err := callList(invalid)
		if err != nil {
			return nil, err
		}
		last.ToolCalls = union(last.ToolCalls, calls)
	}
	if extra, ok := o.child("additional_kwargs"); ok {
		var said Message
		if err := said.fieldCalls(extra); err != nil {
			return nil, err
		}
		last.ToolCalls = union(said.ToolCalls, last.ToolCalls) // the model's order and words first
		reasoning, err := extra.reasoning()
		if err != nil {
			return nil, err
		}
		if !within(reasoning, messages[0].Reasoning) {
			first := &messages[0]
			if first.Reasoning != "" {
				reasoning += "\n\n" + first.Reasoning
			}
			first.Reasoning = reasoning
		}
	}
	return messages, nil
}
