package condense

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// RecordVersion is the version of the form of Record.
const RecordVersion = 1

// Range is the half-open range [Start, End) of message indices, in JSON [start,end].
type Range struct{ Start, End int }

// MarshalJSON writes [start,end].
func (r Range) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{r.Start, r.End}) }

// UnmarshalJSON reads [start,end].
func (r *Range) UnmarshalJSON(data []byte) error {
	var pair []int
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("keep: range %s, want [start,end]", data)
	}
	r.Start, r.End = pair[0], pair[1]
	return nil
}

// Record is the decision of a condenser over the first Messages messages of a log.
type Record struct {
	Version     int    `json:"version"`
	Rule        string `json:"rule"`
	RuleVersion int    `json:"rule_version"`
	// Kind is KindSummary for the window in which a summary is written.
	Kind     string `json:"kind,omitempty"`
	Messages int    `json:"messages"`
	// Keep are the indices of the messages that stay: ascending ranges that do not
	// touch.
	Keep []Range `json:"keep"`
	// Replace tells which of the kept messages are not shown whole.
	Replace []Replacement `json:"replace,omitempty"`
	// TokensBefore and TokensAfter are the sizes of the window, without reserve.
	TokensBefore int `json:"tokens_before"`
	TokensAfter  int `json:"tokens_after"`
	// Lengths are the token counts of the messages that the log got since the record
	// before, the last of them message Messages-1. Who keeps the log fills them in:
	// with them the segments of a trajectory hold its log.
	Lengths []int `json:"lengths,omitempty"`
}

// KindSummary is the kind of the record of a window that asks for a summary.
const KindSummary = "summary"

// The kinds of replacement.
const (
	Blank = "blank" // the whole message is replaced
	Cut   = "cut"   // the middle of the message is replaced
)

// Replacement is what stands in place of messages, equal for all of them.
type Replacement struct {
	Kind    string `json:"kind"`
	Indices []int  `json:"indices"`
	// Text is the placeholder or the marker that IDs spell.
	Text string `json:"text"`
	// IDs replace the whole message (Blank), or the Cut ids between its first Head
	// and its last Tail (Cut).
	IDs  []int32 `json:"ids"`
	Head int     `json:"head,omitempty"`
	Cut  int     `json:"cut,omitempty"`
	Tail int     `json:"tail,omitempty"`
}

// Log is an append-only message log: the ids of message i, each encoded once.
type Log interface {
	Len() int
	IDs(i int) []int32
}

// KeepAll returns the record of a window that shows the first n messages of a log
// whole: nothing was condensed.
func KeepAll(n, tokens int) Record {
	r := Record{Version: RecordVersion, Rule: None, RuleVersion: 1, Messages: n, Keep: []Range{}, TokensBefore: tokens, TokensAfter: tokens}
	if n > 0 {
		r.Keep = append(r.Keep, Range{0, n})
	}
	return r
}

// Kept returns the number of messages that stay.
func (r Record) Kept() int {
	n := 0
	for _, k := range r.Keep {
		n += k.End - k.Start
	}
	return n
}

// Append extends the record by the next message of the log, of the given tokens.
func (r *Record) Append(tokens int) {
	r.keep(r.Messages)
	r.Messages++
	r.TokensAfter += tokens
}

// keep appends message i to the kept ones, after all that were kept before.
func (r *Record) keep(i int) {
	if n := len(r.Keep); n > 0 && r.Keep[n-1].End == i {
		r.Keep[n-1].End++
		return
	}
	r.Keep = append(r.Keep, Range{i, i + 1})
}

// replace adds message i to the messages that p stands for.
func (r *Record) replace(i int, p Replacement) {
	for k := range r.Replace {
		q := &r.Replace[k]
		if q.Kind == p.Kind && q.Text == p.Text && q.Head == p.Head && q.Cut == p.Cut && q.Tail == p.Tail && slices.Equal(q.IDs, p.IDs) {
			q.Indices = append(q.Indices, i)
			return
		}
	}
	p.Indices = []int{i}
	r.Replace = append(r.Replace, p)
}

// Replacements returns the replacement of each replaced message.
func (r Record) Replacements() map[int]*Replacement {
	if len(r.Replace) == 0 {
		return nil
	}
	replaced := make(map[int]*Replacement)
	for k := range r.Replace {
		for _, i := range r.Replace[k].Indices {
			replaced[i] = &r.Replace[k]
		}
	}
	return replaced
}

// Prompt appends the ids of the window that the record describes to dst.
func (r Record) Prompt(dst []int32, log Log) ([]int32, error) {
	if log.Len() < r.Messages {
		return nil, fmt.Errorf("condense record: it speaks of %d messages, the log has %d", r.Messages, log.Len())
	}
	dst = slices.Grow(dst, r.TokensAfter)
	replaced := r.Replacements()
	for _, k := range r.Keep {
		for i := k.Start; i < k.End; i++ {
			p := replaced[i]
			if p == nil {
				dst = append(dst, log.IDs(i)...)
				continue
			}
			if ids := log.IDs(i); p.Kind == Cut && p.Head+p.Cut+p.Tail != len(ids) {
				return nil, fmt.Errorf("condense record: message %d has %d tokens, its cut speaks of %d", i, len(ids), p.Head+p.Cut+p.Tail)
			}
			dst = p.Apply(dst, log.IDs(i))
		}
	}
	return dst, nil
}

// Apply appends what stands in place of a message of the given ids to dst.
func (p *Replacement) Apply(dst, ids []int32) []int32 {
	if p.Kind == Blank {
		return append(dst, p.IDs...)
	}
	dst = append(dst, ids[:p.Head]...)
	dst = append(dst, p.IDs...)
	return append(dst, ids[len(ids)-p.Tail:]...)
}

// JSON returns the canonical form: one line, fields in fixed order, no white space.
func (r Record) JSON() json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		panic(err) // integers, strings and lists of them always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Digest is the SHA-256 of the canonical JSON in hexadecimal.
func (r Record) Digest() string {
	sum := sha256.Sum256(r.JSON())
	return hex.EncodeToString(sum[:])
}

// ParseRecord reads what JSON wrote and validates it; unknown fields are errors.
func ParseRecord(data []byte) (Record, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var r Record
	if err := d.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("condense record: %w", err)
	}
	return r, r.Validate()
}

// Validate names the first field that contradicts the form.
func (r Record) Validate() error {
	if r.Version != RecordVersion {
		return fmt.Errorf("condense record: version: %d, want %d", r.Version, RecordVersion)
	}
	if r.Messages < 0 {
		return fmt.Errorf("condense record: messages: %d, want at least 0", r.Messages)
	}
	if len(r.Lengths) > r.Messages || slices.ContainsFunc(r.Lengths, func(n int) bool { return n < 0 }) {
		return fmt.Errorf("condense record: lengths: %d of %d messages, want at least 0 tokens each", len(r.Lengths), r.Messages)
	}
	end := -1
	for _, k := range r.Keep {
		if k.Start <= end || k.Start < 0 || k.End <= k.Start || k.End > r.Messages {
			return fmt.Errorf("condense record: keep: range [%d,%d], want ascending ranges that do not touch, within %d messages", k.Start, k.End, r.Messages)
		}
		end = k.End
	}
	seen := make(map[int]bool)
	for _, p := range r.Replace {
		if p.Kind != Blank && p.Kind != Cut {
			return fmt.Errorf("condense record: replace: kind %q, want %s or %s", p.Kind, Blank, Cut)
		}
		if min(p.Head, p.Cut, p.Tail) < 0 || (p.Kind == Blank) != (p.Head+p.Cut+p.Tail == 0) {
			return fmt.Errorf("condense record: replace: head %d, cut %d, tail %d of kind %s", p.Head, p.Cut, p.Tail, p.Kind)
		}
		for _, i := range p.Indices {
			if seen[i] || !r.keeps(i) {
				return fmt.Errorf("condense record: replace: message %d is not kept, or is replaced twice", i)
			}
			seen[i] = true
		}
	}
	return nil
}

func (r Record) keeps(i int) bool {
	return slices.ContainsFunc(r.Keep, func(k Range) bool { return k.Start <= i && i < k.End })
}

// Len returns the number of tokens of what stands in place of a message of n.
func (p *Replacement) Len(n int) int {
	if p.Kind == Blank {
		return len(p.IDs)
	}
	return p.Head + len(p.IDs) + p.Tail
}
