package recorded

import (
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// matchAnthropic accepts messages of which some have tool_use, tool_result or
// thinking blocks as content, and messages with the system prompt beside them.
func matchAnthropic(d document) bool {
	list, ok := d.object.get("messages")
	items := d.items
	if ok && list.kind() == '[' {
		items, _ = list.array()
		if d.object.has("system") {
			return true
		}
	}
	return slices.ContainsFunc(items, func(v value) bool {
		if v.kind() != '{' {
			return false
		}
		o, _ := v.object()
		content, ok := o.get("content")
		if !o.has("role") || !ok || content.kind() != '[' {
			return false
		}
		blocks, _ := content.array()
		return slices.ContainsFunc(blocks, func(b value) bool {
			if b.kind() != '{' {
				return false
			}
			o, _ := b.object()
			kind, _ := o.text("type")
			return kind == "tool_use" || kind == "tool_result" || kind == "thinking"
		})
	})
}

func readAnthropic(d document) ([]Run, error) {
	var run Run
	items := d.items
	if items == nil {
		var err error
		if run, err = header(d.object); err != nil {
			return nil, err
		}
		if system, ok := d.object.get("system"); ok {
			text, err := system.parts()
			if err != nil {
				return nil, err
			}
			run.Messages = append(run.Messages, Message{Message: chat.Message{Role: chat.System, Content: text}, at: system})
		}
		list, err := d.object.need("messages")
		if err != nil {
			return nil, err
		}
		if items, err = list.array(); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		messages, err := anthropicMessage(item)
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, messages...)
	}
	return []Run{run}, nil
}

// anthropicMessage reads one message. Its tool_result blocks become messages of
// their own, in the order of the blocks.
func anthropicMessage(v value) ([]Message, error) {
	o, err := v.object()
	if err != nil {
		return nil, err
	}
	content, ok := o.get("content")
	if !ok || content.kind() != '[' {
		m, err := message(v)
		return []Message{m}, err
	}
	name, err := o.needText("role")
	if err != nil {
		return nil, err
	}
	role, ok := roles[name]
	if !ok {
		return nil, v.errorf("unknown role %q", chat.Excerpt(name))
	}
	blocks, err := content.array()
	if err != nil {
		return nil, err
	}
	var messages []Message
	own := Message{Message: chat.Message{Role: role}, at: v}
	var text []string
	flush := func() {
		if len(text) > 0 {
			own.Content = strings.Join(text, "\n")
			messages = append(messages, own)
			text = nil
		}
	}
	for _, block := range blocks {
		b, err := block.object()
		if err != nil {
			return nil, err
		}
		kind, err := b.needText("type")
		if err != nil {
			return nil, err
		}
		switch kind {
		case "text":
			s, err := b.needText("text")
			if err != nil {
				return nil, err
			}
			text = append(text, s)
		case "thinking":
			if own.Reasoning, err = b.text("thinking"); err != nil {
				return nil, err
			}
		case "redacted_thinking":
		case "tool_use":
			c, err := call(block)
			if err != nil {
				return nil, err
			}
			own.ToolCalls = append(own.ToolCalls, c)
		case "tool_result":
			flush()
			m := Message{Message: chat.Message{Role: chat.ToolRole}, at: block}
			if m.ToolCallID, err = b.text("tool_use_id"); err != nil {
				return nil, err
			}
			if result, ok := b.get("content"); ok {
				if m.Content, err = result.parts(); err != nil {
					return nil, err
				}
			} else {
				m.NoContent = true
			}
			messages = append(messages, m)
		default:
			text = append(text, "["+kind+"]")
		}
	}
	if role == chat.Assistant {
		own.Content, own.NoContent = strings.Join(text, "\n"), len(text) == 0
		return []Message{own}, nil
	}
	flush()
	if len(messages) == 0 {
		messages = append(messages, own)
	}
	return messages, nil
}
