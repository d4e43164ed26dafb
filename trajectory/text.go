package trajectory

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// text writes what stands in place of messages, in the format of the renderer.
type text struct {
	renderer chat.Renderer
	t        *Trajectory
}

var _ condense.Text = text{}

// Blank renders message i with a placeholder for its content, or with no arguments.
func (x text) Blank(i int, placeholder string) ([]int32, error) {
	ids, err := x.instead(i, func(m *chat.Message) {
		if m.Role != chat.Assistant {
			m.Content = placeholder
			return
		}
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for k := range m.ToolCalls {
			m.ToolCalls[k].Arguments = "{}"
		}
	})
	if err != nil {
		return nil, fmt.Errorf("placeholder of message %d: %w", i, err)
	}
	return ids, nil
}

// Body finds the delimiters as what the message shares with an empty one.
func (x text) Body(i int) (start, end int, err error) {
	empty, err := x.instead(i, func(m *chat.Message) { m.Content = "" })
	if err != nil {
		return 0, 0, fmt.Errorf("message %d, emptied: %w", i, err)
	}
	ids := x.t.IDs(i)
	shared := min(len(ids), len(empty))
	for start < shared && ids[start] == empty[start] {
		start++
	}
	tail := 0
	for tail < shared-start && ids[len(ids)-1-tail] == empty[len(empty)-1-tail] {
		tail++
	}
	return start, len(ids) - tail, nil
}

// instead renders message i as changed, among the results that came with it: a
// template may write them into one turn.
func (x text) instead(i int, change func(*chat.Message)) ([]int32, error) {
	result := func(k int) bool { return x.t.Entries[k].Message.Role == chat.ToolRole }
	from, to := i, i+1
	for result(i) && from > 0 && result(from-1) {
		from--
	}
	for result(i) && to < x.t.Len() && result(to) {
		to++
	}
	messages := make([]chat.Message, to-from)
	for k := range messages {
		messages[k] = x.t.Entries[from+k].Message
	}
	change(&messages[i-from])
	pieces, err := chat.ExtendPieces(x.renderer, messages)
	if err != nil {
		return nil, err
	}
	return pieces[i-from], nil
}

// Message renders a message that is not in the log yet.
func (x text) Message(m chat.Message) ([]int32, error) {
	return x.renderer.Extend(nil, []chat.Message{m})
}

// Marker encodes text.
func (x text) Marker(marker string) ([]int32, error) { return x.renderer.EncodeText(marker) }
