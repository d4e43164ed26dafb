package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/trajectory"
)

// A LineDecoder builds a batch from JSON Lines, one segment a line:
//
//	{"trajectory_id":"t0","group_id":"g0","inv_iter":2,"prompt_ids":[1,2],"response_ids":[3,4],
//	 "loss_mask":[1,0],"values":[0.2,0],"score":1,"status":"finished"}
//
// trajectory_id, inv_iter, response_ids and loss_mask are required; all token
// columns run over response_ids. A row may leave out rewards (all 0 then; where
// no row of a trajectory has them, its score is the reward of its last trainable
// token), and other columns only if it has no trainable token; a column that no
// row has is absent from the batch.
//
// The zero value is ready for use.
type LineDecoder struct {
	batch Batch
	// unnamed are the columns that a row with trainable tokens left out, by
	// their place in floatColumns: the number of the first such line.
	unnamed [len(columns)]int
	given   []bool  // rows that named rewards
	lines   []int32 // number of the line of each row
	row     jsonRow
}

// jsonRow collects the fields of one line, which may come in any order.
type jsonRow struct {
	Row
	prompt, response []int32
	mask             []bool
	floats           [len(columns)][]float32
	seen             fieldSet
}

// fieldSet is a set of field numbers.
type fieldSet uint32

func (s *fieldSet) has(field int) bool { return *s>>field&1 == 1 }
func (s *fieldSet) add(field int)      { *s |= 1 << field }

// The fields that are no float columns, numbered behind those.
const (
	fieldTrajectoryID = len(columns) + iota
	fieldGroupID
	fieldInvIter
	fieldPromptIDs
	fieldResponseIDs
	fieldLossMask
	fieldScore
	fieldSuccess
	fieldStatus
	fieldError
	fieldBootstrap
	fieldNextIDs
	fieldPolicyVersion
	fieldOldestPolicyVersion
	fieldCondense
)

// fieldNumbers are the fields by name; float columns have their place in the table.
var fieldNumbers = func() map[string]int {
	numbers := map[string]int{
		"trajectory_id": fieldTrajectoryID, "group_id": fieldGroupID, "inv_iter": fieldInvIter, "prompt_ids": fieldPromptIDs,
		"response_ids": fieldResponseIDs, "loss_mask": fieldLossMask, "score": fieldScore, "success": fieldSuccess, "status": fieldStatus,
		"error": fieldError, "bootstrap_value": fieldBootstrap, "next_ids": fieldNextIDs, "policy_version": fieldPolicyVersion,
		"oldest_policy_version": fieldOldestPolicyVersion, "condense": fieldCondense,
	}
	for k, c := range columns {
		numbers[c.name] = k
	}
	return numbers
}()

// LineError is a fault in a line of JSON Lines, counted from 1.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Line adds the row in line, which is the number-th of the file. Blank lines
// are none. The error is a *LineError that names the field.
func (d *LineDecoder) Line(line []byte, number int) error {
	if number == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark, as some editors write
	}
	c := cursor{data: line}
	if c.peek() == 0 && c.pos == len(line) {
		return nil
	}
	r := &d.row
	r.reset()
	if err := r.parse(&c); err != nil {
		return &LineError{number, err}
	}
	if err := r.check(); err != nil {
		return &LineError{number, fmt.Errorf("trajectory %q: %w", chat.Excerpt(r.TrajectoryID), err)}
	}
	d.add(r, number)
	return nil
}

// reset forgets the last line but keeps its memory.
func (r *jsonRow) reset() {
	r.Row = Row{}
	r.prompt, r.response, r.mask = r.prompt[:0], r.response[:0], r.mask[:0]
	for k := range r.floats {
		r.floats[k] = r.floats[k][:0]
	}
	r.seen = 0
}

// parse reads one object.
func (r *jsonRow) parse(c *cursor) error {
	if !c.accept('{') {
		return c.unexpected("an object")
	}
	for first := true; !c.accept('}'); first = false {
		if !first && !c.accept(',') {
			return c.unexpected("a comma or }")
		}
		key, _, err := c.rawString()
		if err != nil {
			return err
		}
		name := key[1 : len(key)-1]
		if !c.accept(':') {
			return fmt.Errorf("after %s: %w", chat.Excerpt(string(key)), c.unexpected("a colon"))
		}
		field, known := fieldNumbers[string(name)]
		if !known {
			return fmt.Errorf("unknown field %s", chat.Excerpt(string(key)))
		}
		if r.seen.has(field) {
			return fmt.Errorf("%s comes twice", name)
		}
		r.seen.add(field)
		if err := r.field(c, field); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if c.peek() != 0 || c.pos < len(c.data) {
		return c.unexpected("nothing after the object")
	}
	return nil
}

// field reads the value of one field.
func (r *jsonRow) field(c *cursor, field int) (err error) {
	switch field {
	case fieldTrajectoryID:
		r.TrajectoryID, err = c.string()
	case fieldGroupID:
		r.GroupID, err = c.string()
	case fieldStatus:
		var s string
		if s, err = c.string(); err == nil {
			r.Status = trajectory.Status(s)
			if err = r.Status.Validate(); err == nil {
				r.Status = intern(r.Status)
			}
		}
	case fieldInvIter:
		var v int64
		if v, err = c.integer(); err == nil && (v < 0 || v > math.MaxInt32) {
			err = fmt.Errorf("%d: want 0 or more", v)
		}
		r.InvIter = int(v)
	case fieldPromptIDs:
		r.prompt, err = c.ints(r.prompt)
	case fieldResponseIDs:
		r.response, err = c.ints(r.response)
	case fieldLossMask:
		r.mask, err = c.mask(r.mask)
	case fieldScore:
		r.Score, r.HasScore, err = c.optional()
	case fieldBootstrap:
		r.BootstrapValue, err = c.number(64) // null is NaN, as in the columns
	case fieldSuccess:
		r.Success, r.HasSuccess, err = c.truth()
	case fieldError:
		if !c.literal("null") {
			r.Error, err = c.string()
		}
	case fieldNextIDs:
		r.NextIDs, err = c.ints(nil)
	case fieldPolicyVersion:
		r.PolicyVersion, err = c.integer()
	case fieldOldestPolicyVersion:
		r.OldestPolicyVersion, err = c.integer()
	case fieldCondense:
		if !c.literal("null") {
			r.Condense, err = c.value()
		}
	default:
		r.floats[field], err = c.floats(r.floats[field])
	}
	return err
}

// optional takes a number or null.
func (c *cursor) optional() (v float64, given bool, err error) {
	if c.literal("null") {
		return 0, false, nil
	}
	v, err = c.number(64)
	return v, true, err
}

// truth takes true, false or null.
func (c *cursor) truth() (v, given bool, err error) {
	switch {
	case c.literal("true"):
		return true, true, nil
	case c.literal("false"):
		return false, true, nil
	case c.literal("null"):
		return false, false, nil
	}
	return false, false, c.unexpected("true or false")
}

// intern returns the constant in place of a copy of its text.
func intern(s trajectory.Status) trajectory.Status {
	for _, known := range [...]trajectory.Status{trajectory.Finished, trajectory.Truncated, trajectory.ContextOverflow, trajectory.Failed, trajectory.Aborted} {
		if s == known {
			return known
		}
	}
	return s
}

// check returns an error if a field is missing or columns disagree.
func (r *jsonRow) check() error {
	for _, f := range [...]struct {
		field int
		name  string
	}{{fieldTrajectoryID, "trajectory_id"}, {fieldInvIter, "inv_iter"}, {fieldResponseIDs, "response_ids"}, {fieldLossMask, "loss_mask"}} {
		if !r.seen.has(f.field) {
			return fmt.Errorf("%s is missing", f.name)
		}
	}
	if r.TrajectoryID == "" {
		return errors.New("trajectory_id is empty")
	}
	n := len(r.response)
	if len(r.mask) != n {
		return fmt.Errorf("loss_mask has %d entries for %d response_ids", len(r.mask), n)
	}
	for k, c := range (&Batch{}).Columns() {
		if r.seen.has(k) && len(r.floats[k]) != n {
			return fmt.Errorf("%s has %d entries for %d response_ids", c.Name, len(r.floats[k]), n)
		}
	}
	return nil
}

// add appends the row to the columns.
func (d *LineDecoder) add(r *jsonRow, number int) {
	b := &d.batch
	if len(b.Rows) == 0 {
		b.CuSeqLens = append(b.CuSeqLens[:0], 0)
	}
	before := len(b.TokenIDs)
	row := r.Row
	row.PromptLen = len(r.prompt)
	if !r.seen.has(fieldOldestPolicyVersion) {
		row.OldestPolicyVersion = row.PolicyVersion
	}
	if n := len(b.Rows); n > 0 { // rows of a trajectory mostly follow one another: share the text
		if last := &b.Rows[n-1]; last.TrajectoryID == row.TrajectoryID {
			row.TrajectoryID = last.TrajectoryID
		}
		if last := &b.Rows[n-1]; last.GroupID == row.GroupID {
			row.GroupID = last.GroupID
		}
	}
	b.Rows = append(b.Rows, row)
	d.given = append(d.given, r.seen.has(fieldNumbers[columnRewards]))
	d.lines = append(d.lines, int32(number))
	b.TokenIDs = append(append(b.TokenIDs, r.prompt...), r.response...)
	after := len(b.TokenIDs)
	b.CuSeqLens = append(b.CuSeqLens, int64(after))
	b.LossMask = append(append(b.LossMask, make([]bool, len(r.prompt))...), r.mask...)
	trainable := slices.Contains(r.mask, true)
	for k, c := range b.Columns() {
		switch {
		case r.seen.has(k):
			if *c.Data == nil {
				*c.Data = make([]float32, before, cap(b.TokenIDs))
			}
			*c.Data = append(append(*c.Data, make([]float32, len(r.prompt))...), r.floats[k]...)
			continue
		case trainable && c.Name != columnRewards && d.unnamed[k] == 0:
			d.unnamed[k] = number
		}
		if *c.Data != nil {
			*c.Data = append(*c.Data, make([]float32, after-before)...)
		}
	}
}

// Rows returns the number of rows so far.
func (d *LineDecoder) Rows() int { return len(d.batch.Rows) }

// Append moves the rows of other, whose lines come after those of d, to the
// end of d.
func (d *LineDecoder) Append(other *LineDecoder) {
	a, b := &d.batch, &other.batch
	if len(b.Rows) == 0 {
		return
	}
	mine, theirs := a.Columns(), b.Columns()
	for k := range mine { // a column of either is a column of both
		if *mine[k].Data == nil && *theirs[k].Data != nil {
			*mine[k].Data = make([]float32, len(a.TokenIDs))
		}
		if *mine[k].Data != nil && *theirs[k].Data == nil {
			*theirs[k].Data = make([]float32, len(b.TokenIDs))
		}
		if d.unnamed[k] == 0 {
			d.unnamed[k] = other.unnamed[k]
		}
	}
	d.given = append(d.given, other.given...)
	d.lines = append(d.lines, other.lines...)
	if err := a.Append(b); err != nil {
		panic(err) // the columns are the same by now
	}
}

// JoinLines moves the rows of all decoders, in their order, into one. It takes
// little more memory than the rows do.
func JoinLines(parts []*LineDecoder) *LineDecoder {
	all := &LineDecoder{}
	b := &all.batch
	rows, tokens := 0, 0
	var present [len(columns)]bool
	for _, d := range parts {
		rows += len(d.batch.Rows)
		tokens += len(d.batch.TokenIDs)
		for k, c := range d.batch.Columns() {
			present[k] = present[k] || *c.Data != nil
			if all.unnamed[k] == 0 {
				all.unnamed[k] = d.unnamed[k]
			}
		}
	}
	b.CuSeqLens = make([]int64, 1, rows+1)
	for _, d := range parts {
		base := b.CuSeqLens[len(b.CuSeqLens)-1]
		for i := range d.batch.Rows {
			b.CuSeqLens = append(b.CuSeqLens, base+d.batch.CuSeqLens[i+1])
		}
	}
	b.Rows = join(parts, rows, func(d *LineDecoder) *[]Row { return &d.batch.Rows })
	all.given = join(parts, rows, func(d *LineDecoder) *[]bool { return &d.given })
	all.lines = join(parts, rows, func(d *LineDecoder) *[]int32 { return &d.lines })
	for k, c := range b.Columns() {
		if present[k] {
			*c.Data = join(parts, tokens, func(d *LineDecoder) *[]float32 {
				column := d.batch.Columns()[k].Data
				if *column == nil {
					*column = make([]float32, len(d.batch.TokenIDs))
				}
				return column
			})
		}
	}
	b.LossMask = join(parts, tokens, func(d *LineDecoder) *[]bool { return &d.batch.LossMask })
	b.TokenIDs = join(parts, tokens, func(d *LineDecoder) *[]int32 { return &d.batch.TokenIDs })
	return all
}

// join concatenates a column of all parts and lets go of it there.
func join[T any](parts []*LineDecoder, n int, column func(*LineDecoder) *[]T) []T {
	out := make([]T, 0, n)
	for _, d := range parts {
		c := column(d)
		out = append(out, *c...)
		*c = nil
	}
	return out
}

// Cut takes the first n rows out of d. What d has seen of columns stays, for
// Missing.
func (d *LineDecoder) Cut(n int) *LineDecoder {
	rest := d.batch.Select(span(n, len(d.batch.Rows)))
	head := &LineDecoder{batch: *d.batch.Slice(0, n), given: d.given[:n:n], lines: d.lines[:n:n]}
	d.batch, d.given, d.lines = *rest, slices.Clone(d.given[n:]), slices.Clone(d.lines[n:])
	return head
}

// span lists the numbers [from, to).
func span(from, to int) []int {
	out := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// Row returns what row i says of itself.
func (d *LineDecoder) Row(i int) *Row { return &d.batch.Rows[i] }

// Batch returns the rows as a batch that has passed Validate. The decoder must
// not be used afterwards.
func (d *LineDecoder) Batch() (*Batch, error) {
	b := &d.batch
	if len(b.Rows) == 0 {
		return nil, errors.New("no rows")
	}
	if err := d.Missing(); err != nil {
		return nil, err
	}
	trajectories, err := b.Trajectories()
	if err != nil {
		return nil, d.atLine(err)
	}
	if b.Rewards != nil { // because some have them: the others have only scores
		if err := b.placeScores(trajectories, d.given); err != nil {
			return nil, d.atLine(err)
		}
	}
	return b, nil
}

// atLine tells the line of a *RowError.
func (d *LineDecoder) atLine(err error) error {
	if bad := (*RowError)(nil); errors.As(err, &bad) {
		return &LineError{int(d.lines[bad.Row]), bad.Err}
	}
	return err
}

// Missing returns a *LineError if some row has a column that a row with
// trainable tokens has not.
func (d *LineDecoder) Missing() error {
	for k, c := range d.batch.Columns() {
		if *c.Data != nil && d.unnamed[k] != 0 {
			return &LineError{d.unnamed[k], fmt.Errorf("%s is missing, and other rows have it", c.Name)}
		}
	}
	return nil
}

// ReadJSONLines reads a whole file of JSON Lines. The error of bad content is a
// *LineError.
func ReadJSONLines(r io.Reader) (*Batch, error) {
	var d LineDecoder
	lines := NewLineReader(r)
	for {
		line, number, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return d.Batch()
		}
		if err != nil {
			return nil, err
		}
		if err := d.Line(line, number); err != nil {
			return nil, err
		}
	}
}

// LineReader splits a stream into lines of any length.
type LineReader struct {
	r      *bufio.Reader
	long   []byte
	number int
}

// NewLineReader returns a reader of the lines of r.
func NewLineReader(r io.Reader) *LineReader { return &LineReader{r: bufio.NewReaderSize(r, 1<<16)} }

// Next returns the next line, without its newline, and its number, from 1, and
// io.EOF after the last.
// The line is valid until the next call.
func (l *LineReader) Next() (line []byte, number int, err error) {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case err == nil || errors.Is(err, io.EOF) && len(part)+len(l.long) > 0:
			l.number++
			if len(l.long) > 0 {
				l.long = append(l.long, part...)
				part = l.long
			}
			return bytes.TrimSuffix(part, []byte("\n")), l.number, nil
		case errors.Is(err, bufio.ErrBufferFull):
			l.long = append(l.long, part...)
		default:
			return nil, 0, err
		}
	}
}
