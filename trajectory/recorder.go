package trajectory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Recorder writes a trajectory while it is played. One turn is
//
//	Start(messages, tools)  the opening, once; Observe(messages...) what comes later
//	Prompt(n)               the ids to sample from; condenses if n more would not fit
//	Reply(ids, ...)         what was sampled from them
//
// and Close ends it. A condenser may ask for a summary instead of a turn: if Asked
// says so after Prompt, the reply goes to Reply like any other, is no action for the
// environment, and the next Prompt is the turn.
// A Recorder is used by one goroutine at a time.
type Recorder struct {
	renderer  chat.Renderer
	condenser condense.Condenser
	t         *Trajectory
	log       logger
	window    []condense.Item // of the messages shown now
	tokens    []int32         // their ids, and behind them the prefix of a prompt given out
	size      int             // without that prefix
	prefix    []int32         // that opens the next reply
	awaiting  bool            // a prompt was given out and its reply has not come
	ask       *condense.Ask   // what the last prompt asks for in place of a turn
}

// NewRecorder starts a trajectory.
func NewRecorder(id, group string, renderer chat.Renderer, condenser condense.Condenser) *Recorder {
	return &Recorder{renderer: renderer, condenser: condenser, prefix: renderer.GenerationPrefix(), t: &Trajectory{ID: id, GroupID: group}}
}

// Start appends the opening of the conversation: what stands before the first reply,
// and the tools that may be called.
func (r *Recorder) Start(messages []chat.Message, tools []chat.Tool) error {
	if r.t.Len() > 0 {
		panic("trajectory: Start of a trajectory that has started")
	}
	pieces, err := chat.StartPieces(r.renderer, messages, tools)
	if err != nil {
		return err
	}
	r.t.Tools = tools
	r.observe(messages, pieces)
	return nil
}

// Observe appends messages that the policy did not sample. Those that come together,
// such as parallel results, are given together.
func (r *Recorder) Observe(messages ...chat.Message) error {
	pieces, err := chat.ExtendPieces(r.renderer, messages)
	if err != nil {
		return fmt.Errorf("message %d and on: %w", r.t.Len(), err)
	}
	r.observe(messages, pieces)
	return nil
}

func (r *Recorder) observe(messages []chat.Message, pieces [][]int32) {
	for i, m := range messages {
		r.append(Entry{Message: m, IDs: pieces[i]})
	}
}

// Prompt returns the ids that the policy continues with at most reply tokens,
// generation prefix included. If they would not fit, the window is condensed and
// a new segment opened. StatusOf tells how a trajectory ends that has no window.
// The ids must not be changed; they stay as they are.
func (r *Recorder) Prompt(reply int) ([]int32, error) {
	return r.prompt(reply, len(r.t.Segments))
}

// Beyond is Prompt for a trajectory that has used up its segments: the prompt that it would
// have gone on from with one more. Only Close may follow.
func (r *Recorder) Beyond(reply int) ([]int32, error) {
	return r.prompt(reply, 0)
}

// prompt is Prompt as if so many segments had been opened.
func (r *Recorder) prompt(reply, segments int) ([]int32, error) {
	if r.ask != nil && r.awaiting { // asked for again
		return r.tokens[:len(r.tokens):len(r.tokens)], nil
	}
	w := condense.Window{Items: r.window, Messages: r.t.Len(), Tokens: r.size,
		Reserve: len(r.prefix) + reply, Reply: reply, Segments: segments, Text: text{r.renderer, r.t}}
	unanswered := r.unanswered()
	if unanswered && segments > 0 { // asked for again
		w.Segments--
	}
	d, err := r.condenser.Condense(w)
	switch {
	case err != nil:
		return nil, fmt.Errorf("trajectory %s, message %d: %w", r.t.ID, r.t.Len(), err)
	case d.Changed:
		if err := d.Record.Validate(); err != nil { // now: nobody could put the prompts together again
			return nil, fmt.Errorf("trajectory %s, message %d: %w", r.t.ID, r.t.Len(), err)
		}
		if unanswered {
			r.t.Segments = r.t.Segments[:len(r.t.Segments)-1]
		}
		if err := r.show(d.Record); err != nil {
			return nil, err
		}
		if r.ask = d.Ask; r.ask != nil {
			if err := r.request(&d.Record); err != nil {
				return nil, err
			}
		}
		r.open(d.Record)
	case len(r.t.Segments) == 0:
		r.open(condense.KeepAll(r.t.Len(), r.size))
	}
	if len(r.tokens) == r.size {
		r.tokens = append(r.tokens, r.prefix...)
	}
	r.awaiting = true
	return r.tokens[:len(r.tokens):len(r.tokens)], nil
}

// Asked returns what the last prompt asks for in place of a turn, nil if nothing.
func (r *Recorder) Asked() *condense.Ask { return r.ask }

// Reply appends what the policy sampled from the last prompt and returns it as a
// message. logProbs has one entry an id, or is nil if they are not known; versions
// are the first and the last policy that sampled.
func (r *Recorder) Reply(ids []int32, logProbs []float32, versions Versions) (chat.Message, error) {
	if len(ids) == 0 {
		return chat.Message{}, fmt.Errorf("trajectory %s, message %d: an empty reply", r.t.ID, r.t.Len())
	}
	m := r.renderer.Parse(ids)
	return m, r.reply(m, ids, r.renderer.GenerationSuffix(ids), logProbs, versions)
}

// ReplyMessage appends a message as the reply to the last prompt; sampled are its ids
// without generation prefix and suffix.
func (r *Recorder) ReplyMessage(m chat.Message, sampled []int32) error {
	return r.reply(m, sampled, r.renderer.GenerationSuffix(sampled), nil, Versions{})
}

func (r *Recorder) reply(m chat.Message, ids, suffix []int32, logProbs []float32, versions Versions) error {
	if !r.awaiting {
		panic("trajectory: Reply without a Prompt before it")
	}
	if logProbs != nil && len(logProbs) != len(ids) {
		return fmt.Errorf("trajectory %s, message %d: %d log-probs for %d sampled tokens", r.t.ID, r.t.Len(), len(logProbs), len(ids))
	}
	r.awaiting = false
	e := Entry{Message: m, IDs: slices.Concat(r.prefix, ids, suffix), Start: len(r.prefix), End: len(r.prefix) + len(ids), LogProbs: logProbs, Versions: versions}
	if r.ask != nil {
		return r.note(e)
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

// Close ends the trajectory, numbers its segments and returns the trajectory. A
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

// StatusOf returns the status of a trajectory that an error of Prompt ends:
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
	// The first answer makes a message without calls a round; one with calls is a round
	// from the start.
	if round := r.t.Entries[i].Round; round >= 0 && round < i && len(r.t.Entries[round].Message.ToolCalls) == 0 && (i-1 == round || r.t.Entries[i-1].Round != round) {
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
	untrained := r.ask != nil && !r.ask.Trained
	r.t.Segments = append(r.t.Segments, Segment{Record: record, Start: r.t.Len(), Untrained: untrained})
}
