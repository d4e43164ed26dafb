package scripted

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/infinirl/infinirl/chat"
)

// Recall makes any renderer one that reads prompts back: it remembers what it has
// written, piece by piece, and who said it. A window is a concatenation of such pieces,
// whatever a condenser has dropped between them. It is safe for concurrent use.
type Recall struct {
	chat.Renderer

	mu      sync.Mutex
	pieces  map[string][]chat.Message
	lengths []int // of the pieces, the longest first
}

var _ Renderer = (*Recall)(nil)

// NewRecall returns a renderer that has written nothing yet.
func NewRecall(renderer chat.Renderer) *Recall {
	return &Recall{Renderer: renderer, pieces: map[string][]chat.Message{}}
}

// Start writes the opening.
func (r *Recall) Start(messages []chat.Message, tools []chat.Tool) ([]int32, error) {
	ids, err := r.Renderer.Start(messages, tools)
	if err == nil {
		r.remember(ids, messages)
	}
	return ids, err
}

// Extend appends messages.
func (r *Recall) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	before := len(seen)
	ids, err := r.Renderer.Extend(seen, messages)
	if err == nil {
		r.remember(ids[before:], messages)
	}
	return ids, err
}

func (r *Recall) remember(ids []int32, messages []chat.Message) {
	if len(ids) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces[key(ids)] = slices.Clone(messages)
	if at, found := slices.BinarySearchFunc(r.lengths, len(ids), func(a, b int) int { return b - a }); !found {
		r.lengths = slices.Insert(r.lengths, at, len(ids))
	}
}

// DecodeMessages reads a prompt back. Where one piece begins another, the longer one was
// written: no message is empty.
func (r *Recall) DecodeMessages(ids []int32) ([]chat.Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []chat.Message
	for at := 0; at < len(ids); {
		length := 0
		for _, n := range r.lengths {
			if n > len(ids)-at {
				continue
			}
			if messages, known := r.pieces[key(ids[at:at+n])]; known {
				out, length = append(out, messages...), n
				break
			}
		}
		if length == 0 {
			return nil, fmt.Errorf("token %d of the prompt begins nothing that was written", at)
		}
		at += length
	}
	return out, nil
}

func key(ids []int32) string {
	out := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		out = binary.LittleEndian.AppendUint32(out, uint32(id))
	}
	return string(out)
}
