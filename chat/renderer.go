package chat

import (
	"fmt"
	"slices"
)

// Renderer turns conversations into the token ids that a model reads, and what it
// sampled back into a message. It belongs to the model, not to the task.
//
// A prompt is built once and only ever grows: Start renders the opening, Extend what
// comes after, and between them stand the model's own replies as it sampled them,
// between GenerationPrefix and GenerationSuffix. Nothing is rendered twice, so that
// the learner sees the tokens that the sampler saw.
//
// What Extend adds depends on the messages alone and not on what was seen, and what it
// adds for a conversation is what it adds for its parts, cut before and behind every
// reply. A window from which a condenser has dropped messages is therefore the
// concatenation of those that stay.
//
// A Renderer is safe for concurrent use. chattest.Run is its conformance suite.
type Renderer interface {
	// Start returns the ids of what stands before the first reply, with the schemas of
	// the tools that may be called.
	Start(messages []Message, tools []Tool) ([]int32, error)
	// Extend appends messages to seen as append does: it may write behind the length of
	// seen, and what seen holds stays as it is. Parallel results, or other messages that
	// come together, are given together.
	Extend(seen []int32, messages []Message) ([]int32, error)
	// EncodeText returns the ids of text as it stands inside a message.
	EncodeText(text string) ([]int32, error)
	// GenerationPrefix returns the ids that open a reply. They are part of the prompt,
	// never sampled.
	GenerationPrefix() []int32
	// GenerationSuffix returns the ids that complete a reply after its sampled ids: the
	// end token if sampling was cut short, template glue that follows the end token, or
	// nothing. They are never sampled.
	GenerationSuffix(sampled []int32) []int32
	// Parse reads sampled ids (without the generation prefix, with or without the end
	// token): text, reasoning, calls, and malformed calls as such.
	Parse(ids []int32) Message
	// Stop lists the id sequences that end a reply; they are sampled.
	Stop() [][]int32
}

// StartPieces is Start with the ids of each message apart: piece i belongs to
// messages[i], and the pieces together are what Start returns. What a template writes
// before the first message belongs to the first; a message that cannot be rendered
// without the next belongs to the next.
func StartPieces(r Renderer, messages []Message, tools []Tool) ([][]int32, error) {
	return pieces(len(messages), func(n int) ([]int32, error) { return r.Start(messages[:n], tools) })
}

// ExtendPieces is Extend with the ids of each message apart.
func ExtendPieces(r Renderer, messages []Message) ([][]int32, error) {
	if e, ok := r.(encoder); ok {
		out := make([][]int32, len(messages))
		for i, m := range messages {
			var err error
			if out[i], err = e.encode(m); err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
		}
		return out, nil
	}
	var out [][]int32
	for _, part := range parts(messages) {
		p, err := pieces(len(part), func(n int) ([]int32, error) { return r.Extend(nil, part[:n]) })
		if err != nil {
			return nil, fmt.Errorf("messages from %d on: %w", len(out), err)
		}
		out = append(out, p...)
	}
	return out, nil
}

// parts cuts messages before and behind every reply: a renderer extends by each alone.
func parts(messages []Message) [][]Message {
	var out [][]Message
	for at := 0; at < len(messages); {
		n := 1
		for messages[at].Role != Assistant && at+n < len(messages) && messages[at+n].Role != Assistant {
			n++
		}
		out = append(out, messages[at:at+n])
		at += n
	}
	return out
}

// pieces divides what render(n) gives for all n messages. The first k messages own
// what rendering k of them and rendering all have in common at the start: templates
// write neighbouring results into one turn, which ends only behind the last.
func pieces(n int, render func(n int) ([]int32, error)) ([][]int32, error) {
	if n == 0 {
		return nil, nil
	}
	all, err := render(n)
	if err != nil {
		return nil, err
	}
	out := make([][]int32, n)
	at := 0
	for k := range n {
		end := len(all)
		if k+1 < n {
			end = at
			if first, err := render(k + 1); err == nil {
				end = max(at, shared(first, all))
			}
		}
		out[k] = slices.Clone(all[at:end])
		at = end
	}
	return out, nil
}

// shared returns the length of the longest common start.
func shared(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Reply returns the ids of an assistant message as one that was sampled: those
// between its generation prefix and suffix.
func Reply(r Renderer, m Message) ([]int32, error) {
	ids, err := r.Extend(nil, []Message{m})
	if err != nil {
		return nil, err
	}
	prefix := r.GenerationPrefix()
	if len(ids) < len(prefix) || !slices.Equal(ids[:len(prefix)], prefix) {
		return nil, fmt.Errorf("the renderer writes an assistant message without its generation prefix")
	}
	ids = ids[len(prefix):]
	for end := len(ids); end > 0; end-- {
		if slices.Equal(r.GenerationSuffix(ids[:end]), ids[end:]) {
			return ids[:end], nil
		}
	}
	return nil, fmt.Errorf("the renderer writes an assistant message without its generation suffix")
}

// encoder is a renderer whose messages do not depend on their neighbours.
type encoder interface {
	encode(Message) ([]int32, error)
}

// extend appends messages that are encoded one by one.
func extend(e encoder, seen []int32, messages []Message) ([]int32, error) {
	for i, m := range messages {
		ids, err := e.encode(m)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		seen = append(seen, ids...)
	}
	return seen, nil
}
