package trajectory

import (
	"errors"
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Recorder writes a trajectory while the episode runs. One turn is
//
//	Observe(messages...)  what the environment shows, encoded once
//	Prompt(n)             the ids to sample from; condenses if n more would not fit
//	Reply(ids, ...)       what was sampled from them
//
// and Close ends the episode. It is used by one goroutine at a time.
type Recorder struct {
	codec     chat.Codec
	condenser condense.Condenser
	extra     int
	t         *Trajectory
	pairing   condense.Pairing
	window    []condense.Item // of the messages shown now
	tokens    []int32         // their ids
	awaiting  bool            // a prompt was given out and its reply has not come
}

// NewRecorder starts a trajectory. extra counts tokens that the server adds to
// every prompt, such as tool schemas, when the codec does not write them.
func NewRecorder(id, group string, codec chat.Codec, condenser condense.Condenser, extra int) *Recorder {
	return &Recorder{codec: codec, condenser: condenser, extra: extra, t: &Trajectory{ID: id, GroupID: group}}
}

// Observe appends messages that the policy did not sample.
func (r *Recorder) Observe(messages ...chat.Message) error {
	for _, m := range messages {
		ids, err := r.codec.Encode(m)
		if err != nil {
			return fmt.Errorf("message %d: %w", r.t.Len(), err)
		}
		r.append(Entry{Message: m, IDs: ids})
	}
	return nil
}

// Prompt returns the ids that the policy continues with at most reply tokens,
// generation prefix included. If they would not fit, the window is condensed and
// a new segment opened. StatusOf tells how an episode ends that has no window.
func (r *Recorder) Prompt(reply int) ([]int32, error) {
	prefix := r.codec.GenerationPrefix()
	w := condense.Window{Items: r.window, Messages: r.t.Len(), Tokens: len(r.tokens),
		Reserve: len(prefix) + r.extra + reply, Segments: len(r.t.Segments), Text: text{r.codec, r.t}}
	record, changed, err := r.condenser.Condense(w)
	switch {
	case err != nil:
		return nil, fmt.Errorf("trajectory %s, message %d: %w", r.t.ID, r.t.Len(), err)
	case changed:
		if err := r.show(record); err != nil {
			return nil, err
		}
	case len(r.t.Segments) > 0:
		r.awaiting = true
		return append(r.tokens[:len(r.tokens):len(r.tokens)], prefix...), nil
	default:
		record = condense.KeepAll(r.t.Len(), len(r.tokens))
	}
	r.open(record)
	r.awaiting = true
	return append(r.tokens[:len(r.tokens):len(r.tokens)], prefix...), nil
}

// Reply appends what the policy sampled from the last prompt and returns it as a
// message. logProbs has one entry an id, or is nil if they are not known.
func (r *Recorder) Reply(ids []int32, logProbs []float32, version int64) (chat.Message, error) {
	if len(ids) == 0 {
		return chat.Message{}, fmt.Errorf("trajectory %s, message %d: an empty reply", r.t.ID, r.t.Len())
	}
	m := r.codec.DecodeAssistant(ids)
	return m, r.reply(m, ids, logProbs, version)
}

// ReplyMessage appends a recorded assistant message as the reply to the last
// prompt; ids are those the message has under the codec.
func (r *Recorder) ReplyMessage(m chat.Message, sampled []int32) error {
	return r.reply(m, sampled, nil, 0)
}

func (r *Recorder) reply(m chat.Message, ids []int32, logProbs []float32, version int64) error {
	if !r.awaiting {
		panic("trajectory: Reply without a Prompt before it")
	}
	if logProbs != nil && len(logProbs) != len(ids) {
		return fmt.Errorf("trajectory %s, message %d: %d log-probs for %d sampled tokens", r.t.ID, r.t.Len(), len(logProbs), len(ids))
	}
	r.awaiting = false
	prefix, suffix := r.codec.GenerationPrefix(), r.codec.GenerationSuffix(ids)
	all := make([]int32, 0, len(prefix)+len(ids)+len(suffix))
	all = append(append(append(all, prefix...), ids...), suffix...)
	r.append(Entry{Message: m, IDs: all, Start: len(prefix), End: len(prefix) + len(ids), LogProbs: logProbs, Version: version})
	return nil
}

// Reward adds a reward to the last reply; before any reply it is dropped, as it
// follows no action.
func (r *Recorder) Reward(reward float64) {
	for i := r.t.Len() - 1; i >= 0; i-- {
		if e := &r.t.Entries[i]; e.Sampled() {
			e.Reward += reward
			return
		}
	}
}

// Close ends the episode, numbers its segments and returns the trajectory. A
// segment that was opened but got no reply is dropped.
func (r *Recorder) Close(status Status) *Trajectory {
	t := r.t
	if n := len(t.Segments); n > 0 && t.Segments[n-1].Start == t.Len() {
		t.Segments = t.Segments[:n-1]
	}
	for k := range t.Segments {
		s := &t.Segments[k]
		s.InvIter = len(t.Segments) - 1 - k
		s.End = t.Len()
		if k+1 < len(t.Segments) {
			s.End = t.Segments[k+1].Start
		}
	}
	t.Status = status
	return t
}

// Trajectory returns what has been written so far.
func (r *Recorder) Trajectory() *Trajectory { return r.t }

// StatusOf returns the status of an episode that an error of Prompt ends:
// truncated for rule none and for max_segments, context_overflow if nothing that
// may go makes the window fit. ok is false for any other error.
func StatusOf(err error) (status Status, ok bool) {
	var overflow *condense.OverflowError
	if errors.As(err, &overflow) {
		if overflow.Rule == condense.None {
			return Truncated, true
		}
		return ContextOverflow, true
	}
	var limit *condense.LimitError
	return Truncated, errors.As(err, &limit)
}

// append adds an entry to the log and to the window.
func (r *Recorder) append(e Entry) {
	i := r.t.Len()
	e.Round = r.pairing.Append(e.Message)
	if e.Round >= 0 && e.Round < i {
		r.t.Entries[e.Round].Round = e.Round
		for k := len(r.window) - 1; k >= 0 && r.window[k].Index >= e.Round; k-- {
			if r.window[k].Index == e.Round {
				r.window[k].Round = e.Round
			}
		}
	}
	r.t.Entries = append(r.t.Entries, e)
	r.tokens = append(r.tokens, e.IDs...)
	r.window = append(r.window, r.item(i, nil))
}

// item describes message i as it stands in the window.
func (r *Recorder) item(i int, replaced *condense.Replacement) condense.Item {
	e := &r.t.Entries[i]
	item := condense.Item{Index: i, Role: e.Message.Role, Tokens: len(e.IDs), Round: e.Round,
		Calls: len(e.Message.ToolCalls), Summary: e.Summary, Replaced: replaced}
	if replaced != nil {
		item.Tokens = replaced.Len(len(e.IDs))
	}
	if item.Calls > 0 {
		item.Tool = e.Message.ToolCalls[0].Name
	} else if e.Message.Role == chat.ToolRole {
		item.Tool = e.Message.Name
	}
	return item
}

// show replaces the window by what a record keeps.
func (r *Recorder) show(record condense.Record) error {
	tokens, err := record.Prompt(nil, r.t)
	if err != nil {
		return err
	}
	if len(tokens) != record.TokensAfter {
		return fmt.Errorf("trajectory %s, message %d: rule %s counts %d tokens, its record gives %d", r.t.ID, r.t.Len(), record.Rule, record.TokensAfter, len(tokens))
	}
	replaced := record.Replacements()
	var window []condense.Item
	for _, k := range record.Keep {
		for i := k.Start; i < k.End; i++ {
			window = append(window, r.item(i, replaced[i]))
		}
	}
	r.window, r.tokens = window, tokens
	return nil
}

// open starts a segment. One that got no reply is replaced.
func (r *Recorder) open(record condense.Record) {
	segments := r.t.Segments
	if n := len(segments); n > 0 && segments[n-1].Start == r.t.Len() {
		segments = segments[:n-1]
	}
	r.t.Segments = append(segments, Segment{Record: record, Start: r.t.Len()})
}
