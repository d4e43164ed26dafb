// Package condense decides which messages of a conversation stay in the context
// window when it is full.
//
// A Condenser is a pure function of the window: token counts, roles and which
// result answers which call, never the text. Its decision is a Record over the
// append-only message log: the kept messages by index, and what stands in place
// of messages that are not shown whole. Log and record together give the token ids of the
// prompt again (Record.Prompt); nothing is ever decoded and encoded a second time.
//
// All sizes are tokens. The window is condensed when its tokens and the reserve
// (generation prefix, tool schemas, the longest reply) exceed High, down to at
// most Low, so that one condensing buys High-Low tokens of further conversation.
//
// Whatever the rule, these stay: the system messages, the task (what the user
// said before the first assistant message), a tool call that still waits for its
// results, and the user message that a reply is due to. A tool call and its
// results stay or go together.
package condense

import (
	"fmt"

	"github.com/infinirl/infinirl/chat"
)

// Item is what a condenser knows of one message of the window.
type Item struct {
	Index  int // in the message log
	Role   chat.Role
	Tokens int // of the message as it stands in the window
	// Task marks the user messages that state the task.
	Task bool
	// Round is the log index of the assistant message that opens the item's tool
	// round, for the call message and its results alike; -1 outside rounds.
	Round int
	// Calls is the number of tool calls an assistant message makes.
	Calls int
	// Tools names the tools that are called, or the one that answers.
	Tools []string
	// Summary marks what was written for or by rule Summary.
	Summary bool
	// Replaced tells how the message stands in the window if not whole.
	Replaced *Replacement
}

// result reports whether the item answers a tool call.
func (i *Item) result() bool { return i.Round >= 0 && i.Role != chat.Assistant }

// Window is a conversation at the moment a reply is due.
type Window struct {
	Items []Item // in log order
	// Messages is the length of the log, of which Items are what is still shown.
	Messages int
	// Tokens is the sum over Items.
	Tokens int
	// Reserve is what must fit beside the items: generation prefix, tool schemas
	// the server adds, and the longest reply.
	Reserve int
	// SummaryReserve is what must fit instead when a summary is to be written: the
	// request for it and the longest summary for the longest reply.
	SummaryReserve int
	// Segments is the number of segments opened so far.
	Segments int
	// Text renders replacements; rules that only drop never use it.
	Text Text
}

// Text gives the ids of what may stand in place of a message. i is a log index.
type Text interface {
	// Blank returns the ids of message i with its content replaced by placeholder;
	// of an assistant message, with the arguments of its calls replaced by {}.
	Blank(i int, placeholder string) ([]int32, error)
	// Body bounds the ids of message i that may be cut: those between its delimiters.
	Body(i int) (start, end int, err error)
	// Marker returns the ids of text as it stands inside a message.
	Marker(text string) ([]int32, error)
}

// Condenser decides what stays of a window. Equal windows get equal decisions.
type Condenser interface {
	// Condense reports changed false, and a zero record, for a window that fits.
	// The error is an *OverflowError if no permitted window fits, a *LimitError if
	// the episode has had all its segments.
	Condense(w Window) (record Record, changed bool, err error)
}

// Summarizing is implemented by condensers that ask for summaries. Condense then
// returns a record of kind KindSummary for the window in which the summary is
// written. The caller appends the request to the log, gets the summary, appends
// it and a user message that holds it, marks all three as Summary, and asks again.
type Summarizing interface {
	Condenser
	// SummaryConfig returns the configuration of rule Summary.
	SummaryConfig() Config
}

// OverflowError says that nothing the rule may drop makes the window fit. It ends
// the episode: as truncated under rule none, else as context_overflow.
type OverflowError struct {
	Rule string
	// Window is the size of what has to stay, Reserve what is needed beside it.
	Window, Reserve, High int
	// Messages is the number of messages that have to stay.
	Messages int
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("context overflow: %d messages of %d tokens that %s must keep and %d reserved tokens exceed high %d",
		e.Messages, e.Window, e.Rule, e.Reserve, e.High)
}

// LimitError says that one more condensing would exceed max_segments.
type LimitError struct{ MaxSegments int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("the window is full and max_segments %d are used up", e.MaxSegments)
}

// New returns the condenser of a valid configuration.
func New(c Config) (Condenser, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch c.Rule {
	case None:
		return none{c}, nil
	case Summary:
		return summary{c}, nil
	}
	return dropping{c, rules[c.Rule]}, nil
}

// none never drops anything.
type none struct{ Config }

func (n none) Condense(w Window) (Record, bool, error) {
	if w.Tokens+w.Reserve <= n.High {
		return Record{}, false, nil
	}
	return Record{}, false, n.overflow(w.Tokens, w.Reserve, len(w.Items))
}

// dropping is a condenser whose rule drops or blanks messages of a full window.
type dropping struct {
	Config
	rule func(*plan) error
}

// rules are those of dropping by name.
var rules = map[string]func(*plan) error{
	ToolFIFO:   dropRounds,
	ToolClear:  clearResults,
	Sliding:    dropMiddle,
	DiscardAll: discardAll,
}

func (d dropping) Condense(w Window) (Record, bool, error) {
	if w.Tokens+w.Reserve <= d.High {
		return Record{}, false, nil
	}
	if d.MaxSegments > 0 && w.Segments >= d.MaxSegments {
		return Record{}, false, &LimitError{d.MaxSegments}
	}
	p := d.plan(w, w.Reserve)
	if err := d.rule(p); err != nil {
		return Record{}, false, err
	}
	record, err := p.record()
	return record, err == nil, err
}
