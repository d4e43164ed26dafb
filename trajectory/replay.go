package trajectory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Replayed is what Replay found.
type Replayed struct {
	Prompts  int // derived again
	Matching int // of the rows that hold them, those in which all that was compared is equal
	// Known are the prompt tokens that the log was known for and that were compared,
	// Tokens all prompt tokens. What the log is first seen in proves nothing.
	Known, Tokens int
	// Mismatches has the first difference of each field of a row that does not match.
	Mismatches []Mismatch
}

// Mismatch is the first place in which a field of a row differs from log and record.
type Mismatch struct {
	TrajectoryID string
	InvIter      int
	// Field is what differs, as batches call it: prompt_ids, response_ids, loss_mask,
	// rollout_log_probs, or a field of the record, such as condense.keep.
	Field string
	// Token is the index into the prompt or the response, -1 in records.
	Token   int
	Message int // of the log; -1 for the generation prefix, and outside prompts
	// Got and Want are token ids, -1 where there is none.
	Got, Want int32
	// GotContext and WantContext are the tokens around it.
	GotContext, WantContext []int32
	// GotText and WantText are what stands there in fields that are no token ids.
	GotText, WantText string
}

// The fields of a row that are compared.
const (
	fieldPrompt   = "prompt_ids"
	fieldResponse = "response_ids"
	fieldMask     = "loss_mask"
	fieldLogProbs = "rollout_log_probs"
	fieldRecord   = "condense"
)

func (m Mismatch) String() string {
	place, got, want := "", m.GotText, m.WantText
	switch m.Field {
	case fieldPrompt:
		place, got, want = fmt.Sprintf("prompt token %d, of message %d,", m.Token, m.Message), idText(m.Got), idText(m.Want)
	case fieldResponse:
		place, got, want = fmt.Sprintf("response token %d", m.Token), idText(m.Got), idText(m.Want)
	case fieldMask, fieldLogProbs:
		place = fmt.Sprintf("%s of response token %d", m.Field, m.Token)
	default:
		place = m.Field
	}
	return fmt.Sprintf("trajectory %s, inv_iter %d: %s is %s and derives as %s", chat.Excerpt(m.TrajectoryID), m.InvIter, place, got, want)
}

// idText is a token id, of which there may be none.
func idText(id int32) string {
	if id == unknown {
		return "missing"
	}
	return strconv.Itoa(int(id))
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
		first.TrajectoryID, first.InvIter, first.Field = row.TrajectoryID, row.InvIter, fieldPrompt
	}
	return first, nil
}

// Replay compares rows with those that log and records of the trajectory give: prompt,
// response, mask, record, and log-probs where both have them. Every token is known.
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
		want := &own[k]
		out.Prompts++
		out.Tokens += len(want.Prompt)
		out.Known += len(want.Prompt)
		found := compareRows(row, want)
		if len(found) == 0 {
			out.Matching++
		}
		for _, m := range found {
			m.TrajectoryID, m.InvIter, m.Message = t.ID, row.InvIter, -1
			if m.Field == fieldPrompt {
				m.Message = t.messageAt(k, m.Token)
			}
			out.Mismatches = append(out.Mismatches, m)
		}
	}
	return out, nil
}

// compareRows returns the first difference of each field.
func compareRows(row, want *Sample) []Mismatch {
	var found []Mismatch
	for _, ids := range []struct {
		field     string
		got, want []int32
	}{{fieldPrompt, row.Prompt, want.Prompt}, {fieldResponse, row.Response, want.Response}} {
		at := firstDifference(ids.got, ids.want, func(a, b int32) bool { return a == b })
		if at < 0 {
			continue
		}
		m := Mismatch{Field: ids.field, Token: at, Got: unknown, Want: unknown}
		if at < len(ids.got) {
			m.Got = ids.got[at]
		}
		if at < len(ids.want) {
			m.Want = ids.want[at]
		}
		m.GotContext = ids.got[max(0, at-8):min(at+8, len(ids.got))]
		m.WantContext = ids.want[max(0, at-8):min(at+8, len(ids.want))]
		found = append(found, m)
	}
	if at := firstDifference(row.Mask, want.Mask, func(a, b bool) bool { return a == b }); at >= 0 {
		found = append(found, Mismatch{Field: fieldMask, Token: at, GotText: maskText(row.Mask, at), WantText: maskText(want.Mask, at)})
	}
	if row.LogProbs != nil && want.LogProbs != nil {
		for at := range min(len(row.LogProbs), len(want.LogProbs), len(want.Mask)) {
			a, b := row.LogProbs[at], want.LogProbs[at]
			if want.Mask[at] && a != b && (a == a || b == b) { // elsewhere they mean nothing
				found = append(found, Mismatch{Field: fieldLogProbs, Token: at, GotText: fmt.Sprint(a), WantText: fmt.Sprint(b)})
				break
			}
		}
	}
	if name, got, derived := recordDifference(row.Condense, want.Condense); name != "" {
		found = append(found, Mismatch{Field: name, Token: -1, GotText: got, WantText: derived})
	}
	return found
}

// firstDifference is the first index at which two lists differ, -1 if there is none.
func firstDifference[T any](a, b []T, equal func(a, b T) bool) int {
	for at := range min(len(a), len(b)) {
		if !equal(a[at], b[at]) {
			return at
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

func maskText(mask []bool, at int) string {
	switch {
	case at >= len(mask):
		return "missing"
	case mask[at]:
		return "1"
	}
	return "0"
}

// recordDifference names the first field in which a record differs from another, and
// what stands there; "" if none does. The order of fields does not matter.
func recordDifference(got, want json.RawMessage) (name, is, derives string) {
	if record, err := condense.ParseRecord(got); err == nil {
		got = record.JSON() // fields that are left out as they are written
	}
	var fields, wanted map[string]any
	if numbered(got, &fields) != nil || numbered(want, &wanted) != nil {
		return fieldRecord, chat.Excerpt(string(got)), chat.Excerpt(string(want))
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(fields)), maps.Keys(wanted))
	slices.Sort(names)
	for _, name := range names {
		a, is := fields[name]
		b, derives := wanted[name]
		if is != derives || !reflect.DeepEqual(a, b) {
			return fieldRecord + "." + chat.Excerpt(name), valueText(a, is), valueText(b, derives)
		}
	}
	return "", "", ""
}

// numbered reads JSON whose numbers keep their digits.
func numbered(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func valueText(value any, there bool) string {
	if !there {
		return "missing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return chat.Excerpt(string(text))
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
