package trajectory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Replayed is what Replay found.
type Replayed struct {
	Prompts  int // derived again
	Matching int // of them equal to what the row holds
	// Known are the prompt tokens that the log was known for and that were compared,
	// Tokens all prompt tokens. What the log is first seen in proves nothing.
	Known, Tokens int
	// Mismatches has the first differing token of each prompt that does not match.
	Mismatches []Mismatch
}

// Mismatch is the first token in which a prompt differs from log and record.
type Mismatch struct {
	TrajectoryID string
	InvIter      int
	Token        int // index into the prompt
	Message      int // of the log, -1 for the generation prefix
	Got, Want    int32
	// GotContext and WantContext are the tokens around it.
	GotContext, WantContext []int32
}

func (m Mismatch) String() string {
	return fmt.Sprintf("trajectory %s, inv_iter %d: prompt token %d, of message %d, is %d and derives as %d",
		chat.Excerpt(m.TrajectoryID), m.InvIter, m.Token, m.Message, m.Got, m.Want)
}

// Replay derives the prompt of every row of one trajectory from the log and the
// row's record, and compares. The log is gathered from the rows themselves as they
// go on: a message is known from the first row that shows it, so that a prompt is
// checked as far as it repeats what was shown before, and all else of it, such as
// the placeholders and the order, by the record. It needs records with lengths.
func Replay(rows []Sample) (Replayed, error) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b Sample) int { return cmp.Compare(b.InvIter, a.InvIter) })
	var out Replayed
	var log knownLog
	for k := range rows {
		row := &rows[k]
		record, err := condense.ParseRecord(row.Condense)
		if err != nil {
			return out, fmt.Errorf("trajectory %s, inv_iter %d: %w", chat.Excerpt(row.TrajectoryID), row.InvIter, err)
		}
		if err := log.grow(record); err != nil {
			return out, fmt.Errorf("trajectory %s, inv_iter %d: %w", chat.Excerpt(row.TrajectoryID), row.InvIter, err)
		}
		mismatch, err := log.compare(record, row, &out)
		if err != nil {
			return out, fmt.Errorf("trajectory %s, inv_iter %d: %w", chat.Excerpt(row.TrajectoryID), row.InvIter, err)
		}
		out.Prompts++
		if mismatch == nil {
			out.Matching++
		} else {
			out.Mismatches = append(out.Mismatches, *mismatch)
		}
		log.follow(slices.Concat(row.Prompt[min(record.TokensAfter, len(row.Prompt)):], row.Response))
	}
	return out, nil
}

// unknown is a token of a message that no row has shown so far.
const unknown = -1

// knownLog is a message log as far as rows have shown it.
type knownLog struct {
	messages [][]int32
	after    []int32 // what came after the messages, not yet divided into messages
}

// grow divides what came after the messages into those that a record adds.
func (l *knownLog) grow(r condense.Record) error {
	if want := r.Messages - len(l.messages); want != len(r.Lengths) {
		return fmt.Errorf("condense: lengths: %d of the %d messages since the record before", len(r.Lengths), want)
	}
	for _, length := range r.Lengths {
		ids := make([]int32, length)
		n := copy(ids, l.after)
		l.after = l.after[n:]
		for i := n; i < length; i++ {
			ids[i] = unknown
		}
		l.messages = append(l.messages, ids)
	}
	l.after = nil
	return nil
}

// follow takes what a row shows after its record's messages.
func (l *knownLog) follow(ids []int32) { l.after = ids }

// compare derives the prompt of a row. Unknown tokens are taken from it.
func (l *knownLog) compare(r condense.Record, row *Sample, out *Replayed) (*Mismatch, error) {
	replaced := r.Replacements()
	var first *Mismatch
	at := 0
	match := func(message int, want []int32, learn bool) {
		for i, id := range want {
			out.Tokens++
			switch {
			case at >= len(row.Prompt):
				if first == nil {
					first = &Mismatch{Token: at, Message: message, Got: unknown, Want: id, WantContext: want[i:min(i+8, len(want))]}
				}
			case id == unknown:
				if learn {
					want[i] = row.Prompt[at]
				}
			default:
				out.Known++
				if row.Prompt[at] != id && first == nil {
					first = &Mismatch{Token: at, Message: message, Got: row.Prompt[at], Want: id,
						GotContext: row.Prompt[max(0, at-8):min(at+8, len(row.Prompt))], WantContext: want[max(0, i-8):min(i+8, len(want))]}
				}
			}
			at++
		}
	}
	for _, keep := range r.Keep {
		for i := keep.Start; i < keep.End; i++ {
			ids, p := l.messages[i], replaced[i]
			switch {
			case p == nil:
				match(i, ids, true)
			case p.Kind == condense.Blank:
				match(i, p.IDs, false)
			default:
				if p.Head+p.Cut+p.Tail != len(ids) {
					return nil, fmt.Errorf("condense: replace: the cut of message %d speaks of %d tokens, it has %d", i, p.Head+p.Cut+p.Tail, len(ids))
				}
				match(i, ids[:p.Head], true)
				match(i, p.IDs, false)
				match(i, ids[len(ids)-p.Tail:], true)
			}
		}
	}
	if at != r.TokensAfter {
		return nil, fmt.Errorf("condense: tokens_after: %d, the messages kept have %d", r.TokensAfter, at)
	}
	out.Tokens += max(0, len(row.Prompt)-at) // the generation prefix
	if first != nil {
		first.TrajectoryID, first.InvIter = row.TrajectoryID, row.InvIter
	}
	return first, nil
}

// Replay compares the prompts of rows with those that log and records of the
// trajectory give. Every token is known.
func (t *Trajectory) Replay(rows []Sample) (Replayed, error) {
	var out Replayed
	own, err := t.Samples()
	if err != nil {
		return out, err
	}
	for i := range rows {
		row := &rows[i]
		k := slices.IndexFunc(own, func(o Sample) bool { return o.InvIter == row.InvIter })
		if k < 0 {
			return out, fmt.Errorf("trajectory %s: the log has no segment of inv_iter %d", t.ID, row.InvIter)
		}
		want := own[k].Prompt
		out.Prompts++
		out.Tokens += len(want)
		out.Known += len(want)
		at := 0
		for at < min(len(want), len(row.Prompt)) && want[at] == row.Prompt[at] {
			at++
		}
		if at == len(want) && at == len(row.Prompt) {
			out.Matching++
			continue
		}
		m := Mismatch{TrajectoryID: t.ID, InvIter: row.InvIter, Token: at, Message: t.messageAt(k, at), Got: unknown, Want: unknown}
		if at < len(row.Prompt) {
			m.Got = row.Prompt[at]
		}
		if at < len(want) {
			m.Want = want[at]
		}
		m.GotContext = row.Prompt[max(0, at-8):min(at+8, len(row.Prompt))]
		m.WantContext = want[max(0, at-8):min(at+8, len(want))]
		out.Mismatches = append(out.Mismatches, m)
	}
	return out, nil
}

// messageAt returns the message that token at of segment k's prompt is of, -1 for
// the generation prefix and beyond.
func (t *Trajectory) messageAt(k, at int) int {
	record := t.Segments[k].Record
	replaced := record.Replacements()
	for _, keep := range record.Keep {
		for i := keep.Start; i < keep.End; i++ {
			length := len(t.IDs(i))
			if p := replaced[i]; p != nil {
				length = p.Len(length)
			}
			if at < length {
				return i
			}
			at -= length
		}
	}
	return -1
}
