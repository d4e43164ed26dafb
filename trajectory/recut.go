package trajectory

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Recut plays a conversation that is over again under a condenser: before each
// assistant message the window must fit, and the message stands for the sampled
// reply. reply is how many tokens are reserved for it, at least its own. extra is
// as in NewRecorder.
//
// An episode that the condenser ends early comes back with the status of StatusOf,
// and reason tells why; the error is any other failure.
func Recut(id, group string, messages []chat.Message, codec chat.Codec, condenser condense.Condenser, reply, extra int) (t *Trajectory, reason, err error) {
	r := NewRecorder(id, group, codec, condenser, extra)
	for _, m := range messages {
		if m.Role != chat.Assistant {
			if err := r.Observe(m); err != nil {
				return nil, nil, fmt.Errorf("trajectory %s: %w", id, err)
			}
			continue
		}
		sampled, err := sampledIDs(codec, m)
		if err != nil {
			return nil, nil, fmt.Errorf("trajectory %s, message %d: %w", id, r.t.Len(), err)
		}
		if _, err := r.Prompt(max(reply, len(sampled))); err != nil {
			status, ok := StatusOf(err)
			if !ok {
				return nil, nil, err
			}
			return r.Close(status), err, nil
		}
		if err := r.ReplyMessage(m, sampled); err != nil {
			return nil, nil, err
		}
	}
	return r.Close(Finished), nil, nil
}

// sampledIDs returns the part of an assistant message's ids that a policy would
// have sampled: without the generation prefix and suffix.
func sampledIDs(codec chat.Codec, m chat.Message) ([]int32, error) {
	ids, err := codec.Encode(m)
	if err != nil {
		return nil, err
	}
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
