package recorded

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// ErrNoRuns is wrapped by the error of a file that holds no recorded run.
var ErrNoRuns = errors.New("no recorded run")

// ErrRefused is wrapped by the error of a run that cannot be told in tokens, such
// as one in which the model answers with an image. A Reader goes on after it.
var ErrRefused = errors.New("a run that cannot be told in tokens")

// MaxBytes bounds the size of one recorded run, or of one list of messages.
const MaxBytes = 1 << 30

// Options name fields of a run, where the usual names do not tell them. Paths are
// dotted: meta.task.
type Options struct {
	GroupBy string // names the group of a run
	Score   string // holds its score
}

// Reader reads recorded runs one by one. It holds one run at a time: of JSON Lines
// a line, of an array an element. What is one list of messages, or an object with
// lists of runs in it, is held whole.
type Reader struct {
	Options // to be set before the first Next
	in      *source
	started bool
	place   place
	pending int     // bytes of the window that the values of stack point into
	element int     // of the array
	stack   []value // values to read, the last one first
	listed  bool    // they stand in a list with runs in it
	runs    []Run   // that are read and not yet given out
	count   int
	seen    map[uint64]int
	err     error
}

// place is what the reader expects next.
type place int

const (
	inValues place = iota // JSON values, one after the other
	inLines               // JSON Lines
	inArray               // an array of runs
)

// Open returns a reader of the runs of a file; name is for errors. The file may be
// compressed by gzip or zstd.
func Open(name string, r io.Reader) *Reader {
	return &Reader{in: decompressed(name, r), seen: make(map[uint64]int)}
}

// Read reads all runs of a file; name is for errors.
func Read(name string, r io.Reader) ([]Run, error) {
	in := Open(name, r)
	var runs []Run
	for {
		run, err := in.Next()
		if err == io.EOF {
			return runs, nil
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
}

// Next returns the next run, and io.EOF after the last one. Every error but one
// that wraps ErrRefused ends the reading.
func (r *Reader) Next() (Run, error) {
	for len(r.runs) == 0 {
		if r.err != nil {
			return Run{}, r.err
		}
		err := r.more()
		if errors.Is(err, ErrRefused) {
			return Run{}, err
		}
		if r.err = err; err != nil {
			r.in.done()
		}
	}
	run := r.runs[0]
	r.runs = r.runs[1:]
	r.name(&run)
	return run, nil
}

// more reads the runs of the next value, or takes it apart.
func (r *Reader) more() error {
	if len(r.stack) == 0 {
		v, err := r.document()
		if err != nil {
			return err
		}
		r.stack, r.listed = append(r.stack, v), false
	}
	v := r.stack[len(r.stack)-1]
	r.stack = r.stack[:len(r.stack)-1]
	d, err := open(v)
	if err != nil {
		return err
	}
	if form := d.form(); form != nil {
		r.runs, err = d.read(form)
		return err
	}
	inner := d.inner()
	if len(inner) == 0 {
		err := d.unknown()
		if r.listed {
			err = errors.New(err.Error()) // the file holds runs
		}
		return err
	}
	r.listed = r.listed || slices.ContainsFunc(inner, isRun)
	for i := len(inner) - 1; i >= 0; i-- {
		r.stack = append(r.stack, inner[i])
	}
	return nil
}

// readDocument reads the runs of a document that has a form.
func readDocument(d document) ([]Run, error) {
	if form := d.form(); form != nil {
		return d.read(form)
	}
	return nil, d.unknown()
}

// unknown is the error of a document without a form.
func (d document) unknown() error {
	return noRuns{d.errorf("no known form of a recorded run: want an object with messages, traj, history, steps, conversations, prompt, input or output, or an array of messages")}
}

// named gives every run an id of its own, and a group.
func named(runs []Run) []Run {
	r := Reader{seen: make(map[uint64]int)}
	for i := range runs {
		r.name(&runs[i])
	}
	return runs
}

// name makes the id of the next run unique.
func (r *Reader) name(run *Run) {
	if run.ID == "" {
		run.ID = fmt.Sprintf("run-%d", r.count)
	}
	id := run.ID
	for r.seen[hash(run.ID)] > 0 {
		r.seen[hash(id)]++
		run.ID = fmt.Sprintf("%s#%d", id, r.seen[hash(id)])
	}
	r.seen[hash(run.ID)]++
	r.count++
	if run.Group == "" {
		run.Group = run.ID
	}
}

// hash stands for an id: a set of ids would grow with the file.
func hash(id string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, id)
	return h.Sum64()
}

// document returns the next value of the file that may be read by itself.
func (r *Reader) document() (value, error) {
	r.in.drop(r.pending)
	r.pending = 0
	next, ok := r.in.skipSpace()
	first := !r.started
	r.started = true
	switch {
	case !ok && r.in.err != io.EOF:
		return value{}, r.in.err
	case !ok && first:
		return value{}, noRuns{fmt.Errorf("%s:1: the file is empty", r.in.name)}
	case !ok && r.place == inArray:
		return value{}, r.cutOff()
	case !ok:
		return value{}, io.EOF
	case r.place == inLines:
		return r.take(0, r.in.lineEnd())
	case r.place == inArray:
		return r.elementAfter(next)
	case next == '[':
		return r.array()
	}
	n := r.in.valueEnd(0)
	v, err := r.take(0, n)
	if err != nil || !first || v.kind() != '{' || v.file.line(v.end) != v.file.first {
		return v, err
	}
	if r.lineFollows(n) {
		r.place = inLines
	}
	if v, err = r.take(0, n); err != nil || r.alone(v) { // again, as more has been read
		return v, err
	}
	return r.gather(v)
}

func (r *Reader) cutOff() error {
	return fmt.Errorf("%s:%d: the JSON text ends early: the file is cut off", r.in.name, r.in.line)
}

// take parses window[start:end], which stays until the next document.
func (r *Reader) take(start, end int) (value, error) {
	if r.in.err != nil && r.in.err != io.EOF && end == len(r.in.window()) {
		return value{}, r.in.err
	}
	end = max(end, min(start+1, len(r.in.window())))
	r.pending = end
	f := r.in.text(end)
	f.reading = &reading{Options: r.Options}
	return parse(f, start, end)
}

// lineFollows reports whether nothing but a line end comes after the first n bytes.
func (r *Reader) lineFollows(n int) bool {
	for ; r.in.has(n); n++ {
		switch r.in.window()[n] {
		case ' ', '\t', '\r':
		default:
			return r.in.window()[n] == '\n'
		}
	}
	return false
}

// alone reports whether a value is a run, or holds some, by itself.
func (r *Reader) alone(v value) bool {
	d, err := open(v)
	return err == nil && (d.form() != nil || v.kind() == '{' && len(d.inner()) > 0)
}

// array reads an array that the window starts with: element by element if the first
// one is a run by itself, else whole.
func (r *Reader) array() (value, error) {
	start := 1
	for r.in.has(start) && (r.in.window()[start] == ' ' || r.in.window()[start] == '\n' || r.in.window()[start] == '\t' || r.in.window()[start] == '\r') {
		start++
	}
	if r.in.has(start) && r.in.window()[start] != ']' {
		v, err := r.take(start, r.in.valueEnd(start))
		if err != nil {
			return v, err
		}
		list := document{value: v, items: []value{v}}
		if v.kind() == '{' {
			if list.first, err = v.object(); err != nil {
				return v, err
			}
		}
		if list.form() == nil && r.alone(v) {
			r.place, r.element = inArray, 0
			v.path = "[0]"
			return v, nil
		}
	}
	return r.take(0, r.in.valueEnd(0))
}

// elementAfter returns the next element of an array, of which the last one has been dropped;
// after it comes the byte next.
func (r *Reader) elementAfter(next byte) (value, error) {
	switch next {
	case ']':
		r.in.drop(1)
		r.place = inValues
		return r.document()
	case ',':
		r.in.drop(1)
		if _, ok := r.in.skipSpace(); !ok {
			return value{}, r.cutOff()
		}
		v, err := r.take(0, r.in.valueEnd(0))
		r.element++
		v.path = fmt.Sprintf("[%d]", r.element)
		return v, err
	}
	return value{}, fmt.Errorf("%s:%d: invalid character %q after an element of an array, want , or ]", r.in.name, r.in.line, next)
}

// gather makes one list of all lines of a file whose first is no run by itself: one
// message or event a line.
func (r *Reader) gather(first value) (value, error) {
	data := append([]byte{'['}, first.bytes()...)
	line, firstEnd := r.in.line, first.end-first.start
	r.in.drop(r.pending)
	r.pending = 0
	for r.in.has(0) {
		n := r.in.lineEnd()
		if f := r.in.text(n); len(bytes.TrimSpace(f.data)) > 0 {
			f.reading = first.file.reading
			if _, err := parse(f, 0, n); err != nil {
				return value{}, err
			}
			data = append(append(data, ','), f.data...)
		}
		r.in.drop(n)
		if r.in.has(0) {
			data = append(data, '\n')
			r.in.drop(1)
		}
		if len(data) > MaxBytes {
			return value{}, fmt.Errorf("%s:%d: lines that are no runs by themselves, more than %d MiB of them", r.in.name, line, MaxBytes>>20)
		}
	}
	if r.in.err != io.EOF {
		return value{}, r.in.err
	}
	data = append(data, ']')
	f := &file{name: r.in.name, data: data, first: line, lines: true, reading: first.file.reading}
	list := value{file: f, end: len(data)}
	if d, err := open(list); err != nil || d.form() == nil {
		return value{file: f, start: 1, end: 1 + firstEnd}, err // which is no run, and says so
	}
	return list, nil
}
