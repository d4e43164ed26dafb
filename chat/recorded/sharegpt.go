package recorded

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/infinirl/infinirl/chat"
)

// matchShareGPT accepts {"conversations": [{"from": ..., "value": ...}]}, under
// conversation too, and with role and content.
func matchShareGPT(d document) bool {
	return d.holds("conversations") || d.holds("conversation") || d.first.has("from", "value")
}

func readShareGPT(d document) ([]Run, error) {
	if d.items != nil {
		messages, err := shareGPTMessages(d.items)
		return []Run{{Messages: messages}}, err
	}
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	if system, ok := d.object.first("system"); ok {
		text, err := system.parts()
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, Message{Message: chat.Message{Role: chat.System, Content: text}, at: system})
	}
	list, ok := d.object.first("conversations", "conversation")
	if ok && !d.object.filled("conversations") && d.object.filled("conversation") {
		list, ok = d.object.get("conversation")
	}
	if !ok {
		if list, err = d.object.need("conversations"); err != nil {
			return nil, err
		}
	}
	items, err := list.array()
	if err != nil {
		return nil, err
	}
	messages, err := shareGPTMessages(items)
	if err != nil {
		return nil, err
	}
	run.Messages = append(run.Messages, messages...)
	return []Run{run}, nil
}

func shareGPTMessages(items []value) ([]Message, error) {
	var all []Message
	for _, item := range items {
		messages, err := shareGPTMessage(item)
		if err != nil {
			return nil, err
		}
		all = append(all, messages...)
	}
	return all, nil
}

func shareGPTMessage(v value) ([]Message, error) {
	o, err := v.object()
	if err != nil {
		return nil, err
	}
	if o.has("role") && !o.has("from") {
		return turn(v, "")
	}
	from, err := o.needText("from")
	if err != nil {
		return nil, err
	}
	content, err := o.need("value")
	if err != nil {
		return nil, err
	}
	m := Message{Message: chat.Message{NoContent: true}, at: v}
	switch from {
	case "function_call", "tool_call": // the value holds the calls
		m.Role = chat.Assistant
		if m.NotSampled, err = o.notSampled(); err != nil {
			return nil, err
		}
		if m.Reasoning, m.ToolCalls, err = writtenCalls(content); err != nil {
			return nil, err
		}
		return []Message{m}, m.recordedIDs(o)
	case "chatgpt", "bard", "bing":
		m.Role = chat.Assistant
	case "function_response", "tool_response":
		m.Role = chat.ToolRole
	default:
		var ok bool
		if m.Role, ok = roles[from]; !ok {
			return nil, v.errorf("unknown author %q", chat.Excerpt(from))
		}
	}
	parts, err := m.contentParts(content)
	if err != nil {
		return nil, err
	}
	if m.Role == chat.Assistant {
		return m.spoken(o, parts, "")
	}
	return m.told(parts, "")
}

// writtenCalls reads calls that a model wrote as JSON, one after the other or in an
// array, perhaps after its thinking. Their arguments stay as they were written.
func writtenCalls(v value) (reasoning string, calls []chat.ToolCall, err error) {
	text, err := v.text()
	if err != nil {
		return "", nil, err
	}
	bad := v.errorf("want a call as JSON with name and arguments, or several")
	if rest, ok := strings.CutPrefix(strings.TrimSpace(text), "<think>"); ok {
		if reasoning, text, ok = strings.Cut(rest, "</think>"); !ok {
			return "", nil, bad
		}
		reasoning = strings.Trim(reasoning, "\n")
	}
	for {
		for _, tag := range []string{"<tool_call>", "</tool_call>"} {
			text = strings.TrimPrefix(strings.TrimSpace(text), tag)
		}
		if text = strings.TrimSpace(text); text == "" && len(calls) > 0 {
			return reasoning, calls, nil
		}
		d := decoder([]byte(text))
		raw, err := d.ReadValue()
		if err != nil {
			return "", nil, bad
		}
		text = text[d.InputOffset():]
		items := []jsontext.Value{raw}
		if raw.Kind() == '[' {
			items = nil
			if err := unmarshal(string(raw), &items); err != nil {
				return "", nil, bad
			}
		}
		for _, item := range items {
			var call struct {
				Name       string `json:"name"`
				Arguments  rawText
				Parameters rawText
			}
			if err := unmarshal(string(item), &call); err != nil || call.Name == "" {
				return "", nil, bad
			}
			for _, arguments := range []rawText{call.Arguments, call.Parameters, "{}"} {
				if arguments != "" && arguments != "null" {
					calls = append(calls, chat.ToolCall{Name: call.Name, Arguments: string(arguments)})
					break
				}
			}
		}
	}
}
