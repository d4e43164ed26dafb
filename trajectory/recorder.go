package trajectory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Recorder writes a trajectory while the episode runs. One turn is
//
//	Observe(messages...)  what the environment shows, encoded once
//	Prompt(n)             the ids to sample from; condenses if n more would not fit
//	Reply(ids, ...)       what was sampled from them
//
// and Close ends the episode. Under rule summary, a Prompt may ask for a summary
// instead of a turn: if Summarizing says so, the reply goes to Reply like any
// other, is no action for the environment, and the next Prompt is the turn.
// A Recorder is used by one goroutine at a time.
type Recorder struct {
	codec     chat.Codec
	condenser condense.Condenser
	extra     int
	t         *Trajectory
	log       logger
	window    []condense.Item // of the messages shown now
	tokens    []int32         // their ids, and behind them the prefix of a prompt given out
	size      int             // without that prefix
	awaiting  bool            // a prompt was given out and its reply has not come
	summary   *summarizing    // under rule summary
}

// summarizing is the state of a recorder under rule summary.
type summarizing struct {
	config  condense.Config
	request []int32 // the message that asks for a summary
	now     bool    // the last prompt asked for one
}

// NewRecorder starts a trajectory. extra counts tokens that the server adds to
// every prompt, such as tool schemas, when the codec does not write them.
func NewRecorder(id, group string, codec chat.Codec, condenser condense.Condenser, extra int) *Recorder {
	r := &Recorder{codec: codec, condenser: condenser, extra: extra, t: &Trajectory{ID: id, GroupID: group}}
	if s, ok := condenser.(condense.Summarizing); ok {
		r.summary = &summarizing{config: s.SummaryConfig()}
	}
	return r
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
// The ids must not be changed; they stay as they are.
func (r *Recorder) Prompt(reply int) ([]int32, error) {
	if _, ok := r.Summarizing(); ok && r.awaiting { // asked for again
		return r.tokens[:len(r.tokens):len(r.tokens)], nil
	}
	prefix := r.codec.GenerationPrefix()
	w := condense.Window{Items: r.window, Messages: r.t.Len(), Tokens: r.size,
		Reserve: len(prefix) + r.extra + reply, Segments: len(r.t.Segments), Text: text{r.codec, r.t}}
	unanswered := r.unanswered()
	if unanswered { // asked for again
		w.Segments--
	}
	if r.summary != nil {
		if err := r.encodeRequest(); err != nil {
			return nil, err
		}
		w.SummaryReserve = len(r.summary.request) + len(prefix) + r.extra + r.summary.config.SummaryTokens
	}
	record, changed, err := r.condenser.Condense(w)
	switch {
	case err != nil:
		return nil, fmt.Errorf("trajectory %s, message %d: %w", r.t.ID, r.t.Len(), err)
	case changed:
		if unanswered {
			r.t.Segments = r.t.Segments[:len(r.t.Segments)-1]
		}
		if err := r.show(record); err != nil {
			return nil, err
		}
		if record.Kind == condense.KindSummary {
			record = r.requestSummary(record)
		}
		r.open(record)
	case len(r.t.Segments) == 0:
		r.open(condense.KeepAll(r.t.Len(), r.size))
	}
	if len(r.tokens) == r.size {
		r.tokens = append(r.tokens, prefix...)
	}
	r.awaiting = true
	return r.tokens[:len(r.tokens):len(r.tokens)], nil
}

// Summarizing reports whether the last prompt asks for a summary, and of how many
// tokens at most.
func (r *Recorder) Summarizing() (tokens int, ok bool) {
	if r.summary == nil || !r.summary.now {
		return 0, false
	}
	return r.summary.config.SummaryTokens, true
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
// prompt; sampled are its ids without generation prefix and suffix.
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
	e := Entry{Message: m, IDs: all, Start: len(prefix), End: len(prefix) + len(ids), LogProbs: logProbs, Version: version}
	if _, ok := r.Summarizing(); ok {
		return r.noteSummary(e)
	}
	r.append(e)
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
	if r.unanswered() {
		t.Segments = t.Segments[:len(t.Segments)-1]
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
	r.log.append(r.t, e)
	if round := r.t.Entries[i].Round; round >= 0 && round < i {
		for k := len(r.window) - 1; k >= 0 && r.window[k].Index >= round; k-- {
			if r.window[k].Index == round {
				r.window[k].Round = round
			}
		}
	}
	// A prompt that was given out shares the array of tokens: what it holds is never
	// written again.
	prefix := r.tokens[r.size:]
	if len(prefix) > len(e.IDs) || !slices.Equal(prefix, e.IDs[:len(prefix)]) {
		r.tokens, prefix = slices.Clone(r.tokens[:r.size]), nil
	}
	r.tokens = append(r.tokens, e.IDs[len(prefix):]...)
	r.size = len(r.tokens)
	r.window = append(r.window, r.item(i, nil))
}

// item describes message i as it stands in the window.
func (r *Recorder) item(i int, replaced *condense.Replacement) condense.Item {
	e := &r.t.Entries[i]
	item := condense.Item{Index: i, Role: e.Message.Role, Tokens: len(e.IDs), Task: e.Task, Round: e.Round,
		Calls: len(e.Message.ToolCalls), Tools: e.Tools, Summary: e.Summary, Replaced: replaced}
	if replaced != nil {
		item.Tokens = replaced.Len(len(e.IDs))
	}
	return item
}

// show replaces the window by what a record keeps.
func (r *Recorder) show(record condense.Record) error {
	// It will grow to about what it was, unless that was one huge message.
	room := min(cap(r.tokens), max(4*record.TokensAfter, 1<<16))
	tokens, err := record.Prompt(make([]int32, 0, room), r.t)
	if err != nil {
		return err
	}
	if len(tokens) != record.TokensAfter {
		return fmt.Errorf("trajectory %s, message %d: rule %s counts %d tokens, its record gives %d", r.t.ID, r.t.Len(), record.Rule, record.TokensAfter, len(tokens))
	}
	replaced := record.Replacements()
	window := make([]condense.Item, 0, cap(r.window))
	for _, k := range record.Keep {
		for i := k.Start; i < k.End; i++ {
			window = append(window, r.item(i, replaced[i]))
		}
	}
	r.window, r.tokens, r.size = window, tokens, len(tokens)
	return nil
}

// unanswered reports whether the last segment was opened but got no reply.
func (r *Recorder) unanswered() bool {
	n := len(r.t.Segments)
	return n > 0 && r.t.Segments[n-1].Start == r.t.Len()
}

// open starts a segment.
func (r *Recorder) open(record condense.Record) {
	first := 0
	if n := len(r.t.Segments); n > 0 {
		first = r.t.Segments[n-1].Record.Messages
	}
	for _, e := range r.t.Entries[first:] {
		record.Lengths = append(record.Lengths, len(e.IDs))
	}
	untrained := record.Kind == condense.KindSummary && !r.summary.config.TrainSummary
	r.t.Segments = append(r.t.Segments, Segment{Record: record, Start: r.t.Len(), Untrained: untrained})
}
