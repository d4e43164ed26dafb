package trajectory

import (
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// A summary takes three messages of the log, all marked as Summary: the request
// for it, what was written, and the user message that holds it from then on.

// request appends the message that asks for a summary to the log, to the window and to
// the record of both.
func (r *Recorder) request(record *condense.Record) error {
	m := chat.Message{Role: chat.User, Content: r.ask.Request}
	ids, err := r.renderer.Extend(nil, []chat.Message{m})
	if err != nil {
		return fmt.Errorf("summary_request: %w", err)
	}
	record.Append(len(ids))
	r.append(Entry{Message: m, IDs: ids, Summary: true})
	return nil
}

// note appends a summary that was sampled, and the message that holds it. A summary
// that is no text (a call, control tokens) leaves the note empty: the policy wrote
// nothing that could be gone on from.
func (r *Recorder) note(e Entry) error {
	held := chat.Message{Role: chat.User, Content: r.ask.Note + e.Message.Content}
	ids, err := r.renderer.Extend(nil, []chat.Message{held})
	if err != nil {
		held.Content = r.ask.Note
		ids, err = r.renderer.Extend(nil, []chat.Message{held})
	}
	if err != nil {
		return fmt.Errorf("trajectory %s, message %d: summary: %w", r.t.ID, r.t.Len(), err)
	}
	r.ask = nil
	e.Summary = true
	r.append(e)
	r.append(Entry{Message: held, IDs: ids, Summary: true})
	return nil
}
