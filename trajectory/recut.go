package trajectory

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Recording is a conversation that is over.
type Recording struct {
	ID, Group string
	Messages  []chat.Message
	// IDs are the token ids of the messages that were recorded with them; nil, or nil
	// for a message: it is encoded. Recorded ids of an assistant message are what was
	// sampled, and generation prefixes belong to the messages before it.
	// LogProbs belong to the recorded ids of assistant messages.
	IDs      [][]int32
	LogProbs [][]float32
	// Reply is the number of tokens reserved for a reply, at least its own.
	Reply int
	// Extra is as in NewRecorder.
	Extra int
	// Summarize writes summaries under rule summary: it continues the ids of a window
	// that ends with the request for one.
	Summarize func(prompt []int32, maxTokens int) ([]int32, error)
}

// Recut plays a recording again under a condenser: before each assistant message
// the window must fit, and the message stands for the sampled reply.
//
// An episode that the condenser ends early comes back with the status of StatusOf,
// and reason tells why; err is any other failure.
func Recut(o Recording, codec chat.Codec, condenser condense.Condenser) (t *Trajectory, reason, err error) {
	if slices.ContainsFunc(o.IDs, func(ids []int32) bool { return ids != nil }) {
		codec = verbatim{codec}
	}
	r := NewRecorder(o.ID, o.Group, codec, condenser, o.Extra)
	for i, m := range o.Messages {
		var ids []int32
		var logProbs []float32
		if i < len(o.IDs) {
			ids = o.IDs[i]
		}
		if i < len(o.LogProbs) {
			logProbs = o.LogProbs[i]
		}
		if err := r.retell(m, ids, logProbs, o); err != nil {
			if status, ok := StatusOf(err); ok {
				return r.Close(status), err, nil
			}
			return nil, nil, fmt.Errorf("trajectory %s, message %d: %w", chat.Excerpt(o.ID), i, err)
		}
	}
	return r.Close(Finished), nil, nil
}

// retell appends one recorded message.
func (r *Recorder) retell(m chat.Message, ids []int32, logProbs []float32, o Recording) error {
	encoded := ids
	if encoded == nil {
		var err error
		if encoded, err = r.codec.Encode(m); err != nil {
			return err
		}
	}
	if m.Role != chat.Assistant || len(encoded) == 0 {
		r.append(Entry{Message: m, IDs: encoded})
		return nil
	}
	if ids == nil {
		var err error
		if encoded, err = sampledIDs(r.codec, encoded); err != nil {
			return err
		}
	}
	for {
		prompt, err := r.Prompt(max(o.Reply, len(encoded)))
		if err != nil {
			return err
		}
		tokens, summary := r.Summarizing()
		if !summary {
			return r.reply(m, encoded, logProbs, 0)
		}
		if o.Summarize == nil {
			return fmt.Errorf("rule summary needs somebody who writes summaries")
		}
		written, err := o.Summarize(prompt, tokens)
		if err != nil {
			return fmt.Errorf("summary: %w", err)
		}
		if _, err := r.Reply(written[:min(len(written), tokens)], nil, 0); err != nil {
			return err
		}
	}
}

// sampledIDs returns the part of an encoded assistant message that a policy would
// have sampled: without the generation prefix and suffix.
func sampledIDs(codec chat.Codec, ids []int32) ([]int32, error) {
	prefix := codec.GenerationPrefix()
	if len(ids) < len(prefix) || !slices.Equal(ids[:len(prefix)], prefix) {
		return nil, fmt.Errorf("the codec writes an assistant message without its generation prefix")
	}
	ids = ids[len(prefix):]
	for end := len(ids); end > 0; end-- {
		if slices.Equal(codec.GenerationSuffix(ids[:end]), ids[end:]) {
			return ids[:end], nil
		}
	}
	return nil, fmt.Errorf("the codec writes an assistant message without its generation suffix")
}

// verbatim is a codec for messages whose recorded ids hold all delimiters.
type verbatim struct{ chat.Codec }

func (verbatim) GenerationPrefix() []int32        { return nil }
func (verbatim) GenerationSuffix([]int32) []int32 { return nil }
