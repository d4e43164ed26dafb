package recorded

import "slices"

// matchAnthropic accepts messages of which some have tool_use, tool_result or
// thinking blocks as content, and messages with the system prompt beside them.
func matchAnthropic(d document) bool {
	holder, list, ok := d.conversation()
	items := d.items
	if ok && list.kind() == '[' {
		items, _ = list.array()
		if holder.has("system") {
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
			thinking, _ := o.get("thinking") // an array where Magistral thinks
			return slices.Contains([]string{"tool_use", "tool_result", "redacted_thinking", "server_tool_use"}, kind) ||
				kind == "thinking" && (thinking.file == nil || thinking.kind() != '[')
		})
	})
}

// readAnthropic reads the Messages form: the texts of one message stand on lines of
// their own.
func readAnthropic(d document) ([]Run, error) { return readTurns(d, "\n") }
