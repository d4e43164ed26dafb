package condense

import "github.com/infinirl/infinirl/chat"

// summary asks for a summary of a full window and then restarts from it. The
// window in which the summary is written has a budget of its own; what does not
// fit into it is dropped from the oldest on.
type summary struct{ Config }

var _ Summarizing = summary{}

func (s summary) SummaryConfig() Config { return s.Config }

func (s summary) Condense(w Window) (Record, bool, error) {
	if n := len(w.Items); n > 0 && w.Items[n-1].Summary && w.Items[n-1].Role == chat.User {
		return s.restart(w)
	}
	if w.Tokens+w.Reserve <= s.High {
		return Record{}, false, nil
	}
	if s.MaxSegments > 0 && w.Segments+2 > s.MaxSegments {
		return Record{}, false, &LimitError{s.MaxSegments}
	}
	p := s.plan(w, w.SummaryReserve)
	p.target = s.High
	p.dropOldest(p.target)
	record, err := p.record()
	record.Kind = KindSummary
	return record, err == nil, err
}

// restart keeps what DiscardAll keeps, and the newest message of the window: the
// one that holds the summary.
func (s summary) restart(w Window) (Record, bool, error) {
	p := s.plan(w, w.Reserve)
	if err := discardAll(p); err != nil {
		return Record{}, false, err
	}
	p.restore(len(w.Items) - 1)
	record, err := p.record()
	return record, err == nil, err
}
