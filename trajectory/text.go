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
	ids := x.t.IDs(i)
	start, tail, err := x.delimiters(i, ids)
	return start, len(ids) - tail, err
}

// Marker encodes a message of nothing but text and takes off the delimiters.
func (x text) Marker(i int, marker string) ([]int32, error) {
	m := x.t.Entries[i].Message
	m.Content = marker
	ids, err := x.codec.Encode(m)
	if err != nil {
		return nil, fmt.Errorf("marker in message %d: %w", i, err)
	}
	head, tail, err := x.delimiters(i, ids)
	if err != nil {
		return nil, err
	}
	return ids[head : len(ids)-tail], nil
}

// delimiters returns how many ids at both ends a message shares with message i
// emptied.
func (x text) delimiters(i int, ids []int32) (head, tail int, err error) {
	m := x.t.Entries[i].Message
	m.Content = ""
	empty, err := x.codec.Encode(m)
	if err != nil {
		return 0, 0, fmt.Errorf("message %d, emptied: %w", i, err)
	}
	for head < min(len(ids), len(empty)) && ids[head] == empty[head] {
		head++
	}
	for tail < min(len(ids), len(empty))-head && ids[len(ids)-1-tail] == empty[len(empty)-1-tail] {
		tail++
	}
	return head, tail, nil
}
