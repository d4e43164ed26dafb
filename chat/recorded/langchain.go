package recorded

import "github.com/infinirl/infinirl/chat"

// matchLangChain accepts an array of serialised LangChain messages: objects with
// lc, id and kwargs.
func matchLangChain(d document) bool { return d.first.has("lc", "kwargs") }

func readLangChain(d document) ([]Run, error) {
	var run Run
	for _, item := range d.items {
		o, err := item.object()
		if err != nil {
			return nil, err
		}
		v, err := o.need("kwargs")
		if err != nil {
			return nil, err
		}
		m, err := langChainMessage(v)
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, m)
	}
	return []Run{run}, nil
}

func langChainMessage(v value) (Message, error) {
	o, err := v.object()
	if err != nil {
		return Message{}, err
	}
	kind, err := o.needText("type")
	if err != nil {
		return Message{}, err
	}
	m := Message{at: v}
	var ok bool
	if m.Role, ok = roles[kind]; !ok {
		return m, v.errorf("unknown type of message %q", chat.Excerpt(kind))
	}
	if content, ok := o.get("content"); ok && content.kind() == '[' {
		// Blocks as Anthropic has them; calls stand in tool_calls too.
		blocks, err := content.array()
		if err != nil {
			return m, err
		}
		for _, block := range blocks {
			if block.kind() == '"' {
				s, _ := block.text()
				m.Content += s
				continue
			}
			b, err := block.object()
			if err != nil {
				return m, err
			}
			s, err := b.text("text")
			if err != nil {
				return m, err
			}
			m.Content += s
		}
	} else if m.Content, err = o.text("content"); err != nil {
		return m, err
	}
	if calls, ok := o.get("tool_calls"); ok && m.Role == chat.Assistant {
		if m.ToolCalls, err = callList(calls); err != nil {
			return m, err
		}
	}
	if m.ToolCallID, err = o.text("tool_call_id"); err != nil {
		return m, err
	}
	m.Name, err = o.text("name")
	return m, err
}
