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
	// Reserve is what must fit beside the items, the longest reply included: Reply
	// tokens of it.
	Reserve, Reply int
	// Segments is the number of segments opened so far.
	Segments int
	// Text renders replacements; rules that only drop never use it.
	Text Text
}

// Text gives the ids of what may stand in the window. i is a log index.
type Text interface {
	// Message returns the ids of a message that is not in the log yet.
	Message(chat.Message) ([]int32, error)
	// Blank returns the ids of message i with its content replaced by placeholder;
	// of an assistant message, with the arguments of its calls replaced by {}.
	Blank(i int, placeholder string) ([]int32, error)
	// Body bounds the ids of message i that may be cut: those between its delimiters.
	Body(i int) (start, end int, err error)
	// Marker returns the ids of text as it stands inside a message.
	Marker(text string) ([]int32, error)
}

// Decision is what a condenser does to a window; the zero Decision leaves it as it is.
type Decision struct {
	Changed bool
	// Record describes the new window, if Changed.
	Record Record
	// Ask, if not nil, says that the new window is one in which a summary is written.
	Ask *Ask
}

// Ask is the protocol by which a condenser has the policy write a summary. Whoever
// keeps the log appends Request as a user message, gets a reply of at most Tokens
// tokens, appends it and a user message of Note and what was written, marks all three
// as Summary, and has the window condensed again.
type Ask struct {
	Request string
	Tokens  int
	Note    string
	// Trained makes the tokens of the summary trainable.
	Trained bool
}

// Condenser decides what stays of a window. It is pure: equal windows get equal
// decisions, and the window is not changed. condensetest.Run is its conformance suite.
type Condenser interface {
	// Condense leaves a window that fits as it is. The error is an *OverflowError if no
	// permitted window fits, a *LimitError if the trajectory has had all its segments.
	Condense(w Window) (Decision, error)
}

// OverflowError says that nothing the rule may drop makes the window fit. It ends
// the trajectory: as truncated under rule none, else as context_overflow.
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

// none never drops anything.
type none struct{ Config }

var _ = Register(None, "the trajectory ends as truncated when the window is full", struct{}{}, func(c Config, _ struct{}) (Condenser, error) { return none{c}, nil })

func (n none) Condense(w Window) (Decision, error) {
	if w.Tokens+w.Reserve <= n.High {
		return Decision{}, nil
	}
	return Decision{}, n.overflow(w.Tokens, w.Reserve, len(w.Items))
}

// dropping is a condenser whose rule drops or blanks messages of a full window.
type dropping struct {
	Config
	rule func(*plan) error
}

func (d dropping) Condense(w Window) (Decision, error) {
	if w.Tokens+w.Reserve <= d.High {
		return Decision{}, nil
	}
	if d.MaxSegments > 0 && w.Segments >= d.MaxSegments {
		return Decision{}, &LimitError{d.MaxSegments}
	}
	p := d.plan(w, w.Reserve)
	if err := d.rule(p); err != nil {
		return Decision{}, err
	}
	return p.decision()
}
