package trajectory

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// text writes what stands in place of messages, in the format of the codec.
type text struct {
	codec chat.Codec
	t     *Trajectory
}

var _ condense.Text = text{}

// Blank encodes message i with a placeholder for its content, or with no arguments.
func (x text) Blank(i int, placeholder string) ([]int32, error) {
	m := x.t.Entries[i].Message
	if m.Role == chat.Assistant {
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for k := range m.ToolCalls {
			m.ToolCalls[k].Arguments = "{}"
		}
	} else {
		m.Content = placeholder
	}
	ids, err := x.codec.Encode(m)
	if err != nil {
		return nil, fmt.Errorf("placeholder of message %d: %w", i, err)
	}
	return ids, nil
}

// Body finds the delimiters as what the message shares with an empty one.
func (x text) Body(i int) (start, end int, err error) {
	m := x.t.Entries[i].Message
	m.Content = ""
	empty, err := x.codec.Encode(m)
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

// Marker encodes text.
func (x text) Marker(marker string) ([]int32, error) { return x.codec.EncodeText(marker) }
