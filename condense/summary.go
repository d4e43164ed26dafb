package condense

import (
	"fmt"

	"github.com/infinirl/infinirl/chat"
)

// SummaryOptions are those of rule Summary.
type SummaryOptions struct {
	// Request is the user message that asks for a summary, Note what precedes the
	// summary in the user message that holds it afterwards.
	Request string `json:"summary_request"`
	Note    string `json:"summary_note"`
	// Tokens is the longest summary; 0 is an eighth of High.
	Tokens int `json:"summary_tokens"`
	// Train makes its tokens trainable.
	Train bool `json:"train_summary"`
}

var _ = Register(Summary, "restart from system messages, task and a summary that the policy writes", SummaryOptions{
	Request: "The context window is full. Write down everything from this conversation that is needed to go on: what is known, what was done, what remains.",
	Note:    "Summary of the conversation so far:\n",
}, newSummary, Afresh)

// summary asks for a summary of a full window and then restarts from it. The
// window in which the summary is written has a budget of its own; what does not
// fit into it is dropped from the oldest on.
type summary struct {
	Config
	ask Ask
}

func newSummary(c Config, o SummaryOptions) (Condenser, error) {
	if o.Tokens == 0 {
		o.Tokens = max(1, c.High/8)
	}
	switch {
	case o.Request == "":
		return nil, fmt.Errorf("condense: summary_request: empty, want the message that asks for a summary")
	case o.Tokens < 1 || o.Tokens > c.High:
		return nil, fmt.Errorf("condense: summary_tokens: %d, want 1 to high (%d)", o.Tokens, c.High)
	}
	return summary{c, Ask{Request: o.Request, Tokens: o.Tokens, Note: o.Note, Trained: o.Train}}, nil
}

func (s summary) Condense(w Window) (Decision, error) {
	if n := len(w.Items); n > 0 && w.Items[n-1].Summary && w.Items[n-1].Role == chat.User {
		return s.restart(w)
	}
	if w.Tokens+w.Reserve <= s.High {
		return Decision{}, nil
	}
	if s.MaxSegments > 0 && w.Segments+2 > s.MaxSegments {
		return Decision{}, &LimitError{s.MaxSegments}
	}
	request, err := w.Text.Message(chat.Message{Role: chat.User, Content: s.ask.Request})
	if err != nil {
		return Decision{}, fmt.Errorf("summary_request: %w", err)
	}
	p := s.plan(w, w.Reserve-w.Reply+len(request)+s.ask.Tokens)
	p.target = s.High
	p.dropOldest(p.target)
	d, err := p.decision()
	if err != nil {
		return Decision{}, err
	}
	d.Record.Kind = KindSummary
	ask := s.ask
	d.Ask = &ask
	return d, nil
}

// restart keeps what DiscardAll keeps, and the newest message of the window: the
// one that holds the summary.
func (s summary) restart(w Window) (Decision, error) {
	p := s.plan(w, w.Reserve)
	if err := discardAll(p); err != nil {
		return Decision{}, err
	}
	p.restore(len(w.Items) - 1)
	return p.decision()
}
