package recorded

import (
	"github.com/infinirl/infinirl/chat"
)

// matchShareGPT accepts {"conversations": [{"from": ..., "value": ...}]}.
func matchShareGPT(d document) bool {
	return d.object.has("conversations") || d.first.has("from", "value")
}

func readShareGPT(d document) ([]Run, error) {
	var run Run
	items := d.items
	if items == nil {
		var err error
		if run, err = header(d.object); err != nil {
			return nil, err
		}
		if system, ok := d.object.get("system"); ok && system.kind() == '"' {
			text, _ := system.text()
			run.Messages = append(run.Messages, Message{Message: chat.Message{Role: chat.System, Content: text}, at: system})
		}
		list, err := d.object.need("conversations")
		if err != nil {
			return nil, err
		}
		if items, err = list.array(); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		m, err := shareGPTMessage(item)
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, m)
	}
	return []Run{run}, nil
}

func shareGPTMessage(v value) (Message, error) {
	o, err := v.object()
	if err != nil {
		return Message{}, err
	}
	from, err := o.needText("from")
	if err != nil {
		return Message{}, err
	}
	m := Message{at: v}
	if m.Content, err = o.needText("value"); err != nil {
		return m, err
	}
	switch from {
	case "function_call": // the value is the call
		var call struct {
			Name      string `json:"name"`
			Arguments rawText
		}
		if err := unmarshal(m.Content, &call); err != nil || call.Name == "" {
			value, _ := o.get("value")
			return m, value.errorf("want a call as JSON with name and arguments")
		}
		m.Message = chat.Message{Role: chat.Assistant, NoContent: true,
			ToolCalls: []chat.ToolCall{{Name: call.Name, Arguments: string(call.Arguments)}}}
		return m, nil
	case "chatgpt", "bard", "bing":
		m.Role = chat.Assistant
	case "function_response", "tool_response":
		m.Role = chat.ToolRole
	default:
		var ok bool
		if m.Role, ok = roles[from]; !ok {
			return m, v.errorf("unknown author %q", chat.Excerpt(from))
		}
	}
	return m, nil
}
