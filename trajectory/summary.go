package trajectory

import (
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// A summary takes three messages of the log, all marked as Summary: the request
// for it, what was written, and the user message that holds it from then on.

// encodeRequest encodes the message that asks for a summary, once.
func (r *Recorder) encodeRequest() error {
	s := r.summary
	if s.request != nil {
		return nil
	}
	ids, err := r.codec.Encode(chat.Message{Role: chat.User, Content: s.config.SummaryRequest})
	if err != nil {
		return fmt.Errorf("summary_request: %w", err)
	}
	s.request = ids
	return nil
}

// requestSummary appends the request to the log and to the window that a record
// shows, and returns the record of both.
func (r *Recorder) requestSummary(record condense.Record) condense.Record {
	s := r.summary
	s.now = true
	request := Entry{Message: chat.Message{Role: chat.User, Content: s.config.SummaryRequest}, IDs: s.request, Summary: true}
	record.Append(len(request.IDs))
	r.append(request)
	return record
}

// noteSummary appends a summary that was sampled, and the message that holds it. A
// summary that is no text (a call, control tokens) leaves the note empty: the policy
// wrote nothing that could be gone on from.
func (r *Recorder) noteSummary(e Entry) error {
	s := r.summary
	s.now = false
	note := chat.Message{Role: chat.User, Content: s.config.SummaryNote + e.Message.Content}
	ids, err := r.codec.Encode(note)
	if err != nil {
		note.Content = s.config.SummaryNote
		ids, err = r.codec.Encode(note)
	}
	if err != nil {
		return fmt.Errorf("trajectory %s, message %d: summary: %w", r.t.ID, r.t.Len(), err)
	}
	e.Summary = true
	r.append(e)
	r.append(Entry{Message: note, IDs: ids, Summary: true})
	return nil
}
