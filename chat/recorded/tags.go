package recorded

import (
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// readTags turns Hermes-style tags inside texts into calls and results: <tool_call>
// elements at the end of an assistant message, and the <tool_response> elements of
// the user or tool message that answers them, each of which becomes a message.
// Tags that do not fit stay text; results among them are marked as an observation.
func readTags(messages []Message) []Message {
	var out []Message
	open := 0 // calls without a result
	for _, m := range messages {
		if m.Role == chat.Assistant {
			if content, calls, ok := chat.ParseToolCalls(m.Content); ok && len(m.ToolCalls) == 0 {
				m.Content, m.ToolCalls = content, calls
			}
			open = len(m.ToolCalls)
		}
		results := toolResponses(m.Content)
		answers := len(results) > 0 && len(out) > 0 && (len(results) == 1 || m.IDs == nil)
		switch {
		case answers && (m.Role == chat.User && len(results) <= open || m.Role == chat.ToolRole && len(results) == 1):
			for _, result := range results {
				m.Role, m.Content = chat.ToolRole, result
				out = append(out, m)
			}
			open -= len(results)
			continue
		case answers && m.Role == chat.User:
			m.Observation = true
		case m.Role == chat.ToolRole:
			open--
		}
		out = append(out, m)
	}
	return out
}

// toolResponses returns what <tool_response> elements enclose, if a text consists
// of nothing else.
func toolResponses(text string) []string {
	const open, closing = "<tool_response>", "</tool_response>"
	var results []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		body, ok := strings.CutPrefix(text, open)
		if !ok {
			return nil
		}
		if body, text, ok = strings.Cut(body, closing); !ok {
			return nil
		}
		results = append(results, strings.TrimSuffix(strings.TrimPrefix(body, "\n"), "\n"))
	}
	return results
}
