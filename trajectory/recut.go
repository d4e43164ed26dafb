package trajectory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Recording is a conversation that is over.
type Recording struct {
	ID, Group string
	// Tools are the schemas of the tools that could be called.
	Tools    []chat.Tool
	Messages []RecordedMessage
	// Reply is the number of tokens reserved for a reply, at least its own.
	Reply int
	// Summarize writes the summaries that the condenser asks for: it continues the ids
	// of a window that ends with the request for one.
	Summarize func(prompt []int32, maxTokens int) ([]int32, error)
}

// RecordedMessage is one message of a recording.
type RecordedMessage struct {
	chat.Message
	// IDs are the token ids that were recorded with the message; nil: it is rendered.
	// Where all messages have ids, they hold all delimiters. Where replies alone have
	// them, they are what was sampled, and the delimiters are rendered.
	IDs []int32
	// Start and End bound the recorded ids that the policy sampled; both 0: all ids of
	// an assistant message.
	Start, End int
	// LogProbs belong to the sampled ids, nil if they are not known.
	LogProbs []float32
	// NotSampled marks an assistant message that the policy did not write: it is shown
	// and never trained.
	NotSampled bool
	// Task marks a user message that states the task although assistant messages, of a
	// demonstration, come before it.
	Task bool
}

// reply tells whether the message is one that the policy sampled.
func (m *RecordedMessage) reply() bool {
	return m.Role == chat.Assistant && !m.NotSampled && (m.IDs == nil || len(m.IDs) > 0)
}

// lost tells whether the message says something of which its ids hold nothing.
func (m *RecordedMessage) lost() bool {
	says := m.Content != "" || m.Reasoning != "" || len(m.ToolCalls) > 0
	return m.Role == chat.Assistant && !m.NotSampled && m.IDs != nil && len(m.IDs) == 0 && says
}

// verbatim tells whether all messages were recorded with ids.
func (o *Recording) verbatim() bool {
	return !slices.ContainsFunc(o.Messages, func(m RecordedMessage) bool { return m.IDs == nil })
}

// Recut plays a recording again under a condenser: before each reply the window must
// fit, and the recorded message stands for what would be sampled.
//
// A trajectory that the condenser ends early comes back with the status of StatusOf,
// and reason tells why; a summary that no reply follows is taken back. err is any other
// failure.
func Recut(o Recording, renderer chat.Renderer, condenser condense.Condenser) (t *Trajectory, reason, err error) {
	r, verbatim := NewRecorder(o.ID, o.Group, renderer, condenser), o.verbatim()
	r.t.Tools = o.Tools
	for i := range o.Messages {
		if o.Messages[i].lost() {
			return nil, nil, fmt.Errorf("trajectory %s, message %d: no token id of an assistant message that says something: want its ids, or nil where none were recorded", chat.Excerpt(o.ID), i)
		}
	}
	for at := 0; at < len(o.Messages); {
		next := at + 1
		if o.Messages[at].reply() {
			err = r.retell(&o.Messages[at], &o, verbatim)
		} else {
			for next < len(o.Messages) && !o.Messages[next].reply() {
				next++
			}
			err = r.tell(o.Messages[at:next])
		}
		if status, ok := StatusOf(err); ok {
			r.takeBack()
			return r.Close(status), err, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("trajectory %s, message %d: %w", chat.Excerpt(o.ID), at, err)
		}
		at = next
	}
	return r.Close(Finished), nil, nil
}

// takeBack removes summaries from the end of the log: the reply that they made room
// for did not fit all the same. So the log alone is cut again as the recording was.
func (r *Recorder) takeBack() {
	t := r.t
	n := t.Len()
	for n > 0 && t.Entries[n-1].Summary {
		n--
	}
	if n == t.Len() {
		return
	}
	t.Entries = t.Entries[:n]
	t.Segments = slices.DeleteFunc(t.Segments, func(s Segment) bool { return s.Start > n })
}

// tell appends recorded messages that were not sampled, the tools' schemas with the
// first of a conversation. What was recorded with ids is taken as it is.
func (r *Recorder) tell(recorded []RecordedMessage) error {
	messages := make([]chat.Message, len(recorded))
	pieces := make([][]int32, len(recorded))
	rendered := false
	for i := range recorded {
		messages[i], pieces[i] = recorded[i].Message, recorded[i].IDs
		rendered = rendered || recorded[i].IDs == nil
	}
	if rendered {
		var own [][]int32
		var err error
		if r.t.Len() == 0 {
			own, err = chat.StartPieces(r.renderer, messages, r.t.Tools)
		} else {
			own, err = chat.ExtendPieces(r.renderer, messages)
		}
		if err != nil {
			return err
		}
		for i := range pieces {
			if pieces[i] == nil {
				pieces[i] = own[i]
			}
		}
	}
	for i, m := range messages {
		r.append(Entry{Message: m, IDs: pieces[i], Task: recorded[i].Task})
	}
	return nil
}

// retell appends one recorded reply.
func (r *Recorder) retell(m *RecordedMessage, o *Recording, verbatim bool) error {
	prefix, sampled, suffix := r.renderer.GenerationPrefix(), m.IDs, []int32(nil)
	switch {
	case m.IDs == nil:
		var err error
		if sampled, err = chat.Reply(r.renderer, m.Message); err != nil {
			return err
		}
		suffix = r.renderer.GenerationSuffix(sampled)
	case m.End > m.Start:
		prefix, sampled, suffix = m.IDs[:m.Start], m.IDs[m.Start:m.End], m.IDs[m.End:]
	case verbatim:
		prefix = nil // it belongs to the message before
	default:
		suffix = r.renderer.GenerationSuffix(sampled)
		if said := r.renderer.Parse(sampled); !strings.Contains(said.Reasoning+said.Content, strings.TrimSpace(m.Content)) {
			return fmt.Errorf("the recorded token ids spell %q, the message says %q: they are those of another tokenizer", chat.Excerpt(said.Content), chat.Excerpt(m.Content))
		}
	}
	for {
		r.prefix = prefix
		prompt, err := r.Prompt(max(o.Reply, len(sampled)))
		if err != nil {
			return err
		}
		ask := r.Asked()
		if ask == nil {
			return r.reply(m.Message, sampled, suffix, m.LogProbs, Versions{})
		}
		if o.Summarize == nil {
			return fmt.Errorf("the condenser asks for summaries, and nobody is there to write them")
		}
		written, err := o.Summarize(prompt, ask.Tokens)
		if err != nil {
			return fmt.Errorf("summary: %w", err)
		}
		if _, err := r.Reply(written[:min(len(written), ask.Tokens)], nil, Versions{}); err != nil {
			return err
		}
	}
}
