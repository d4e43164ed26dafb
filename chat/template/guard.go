package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// The bounds of one rendering. A template has no business near any of them; those of
// memory grow with the conversation.
const (
	maxSteps  = 3_000_000  // loop bodies and macro calls
	maxWork   = 10_000_000 // operations, and 64 bytes or items that one looks at
	maxDepth  = 500        // macro calls inside each other
	maxNested = 500        // lists and mappings inside each other
	maxRange  = 1_000_000  // numbers of one range
	maxMemory = 128 << 20  // bytes of text and lists that operations make
	perInput  = 16         // and more of them for each byte of the conversation
)

var (
	errSteps  = errors.New("it loops without end: more than 3,000,000 steps")
	errWork   = errors.New("it works without end: too many operations")
	errDepth  = errors.New("it recurses without end: more than 500 macro calls inside each other")
	errNested = errors.New("a list or mapping contains itself, or is nested more than 500 deep")
	errRange  = errors.New("range: more than 1,000,000 numbers")
)

// guard counts what one rendering spends. Whatever takes time or makes something new
// asks it first, so that the bounds hold without reaching for the memory.
type guard struct {
	work, maxWork     int64
	memory, maxMemory int64
	steps, depth      int
	spent             bool // a bound of work, steps or memory was met
}

// newGuard returns the guard of a rendering with these variables.
func newGuard(data map[string]jinja.Value) (*guard, error) {
	size := int64(0)
	for _, v := range data {
		n, err := sizeOf(v, 0)
		if err != nil {
			return nil, err
		}
		size += n
	}
	return &guard{maxWork: maxWork + perInput*size, maxMemory: maxMemory + perInput*size}, nil
}

// sizeOf is about how many bytes a variable takes.
func sizeOf(v jinja.Value, depth int) (int64, error) {
	size := int64(64)
	switch {
	case depth > maxNested:
		return 0, errNested
	case v.IsString():
		size += int64(len(v.AsString()))
	case v.IsList():
		for _, item := range v.AsList().Items {
			n, err := sizeOf(item, depth+1)
			if err != nil {
				return 0, err
			}
			size += n
		}
	case v.IsDict():
		for _, key := range v.AsDict().Keys {
			n, err := sizeOf(v.AsDict().Data[key], depth+1)
			if err != nil {
				return 0, err
			}
			size += n + int64(len(key))
		}
	}
	return size, nil
}

// spend counts one operation that looks at n bytes or items.
func (g *guard) spend(n int) error {
	// Names are looked up through the scopes of all macros that are running.
	if g.work += 1 + int64(n)/64 + int64(g.depth)/16; g.work > g.maxWork {
		g.spent = true
		return errWork
	}
	return nil
}

// take counts n bytes of memory before they are taken.
func (g *guard) take(n int) error {
	if n < 0 || int64(n) > g.maxMemory-g.memory {
		g.spent = true
		return fmt.Errorf("it makes more than %d MB of text and lists", g.maxMemory>>20)
	}
	g.memory += int64(n)
	return g.spend(n)
}

// The bytes that an item of a list and an entry of a mapping take.
const (
	itemSize  = 40
	entrySize = 120
)

func (g *guard) list(items []jinja.Value) (jinja.Value, error) {
	return jinja.NewList(items), g.take(itemSize * len(items))
}

func (g *guard) step() error {
	if g.steps++; g.steps > maxSteps {
		g.spent = true
		return errSteps
	}
	return g.spend(0)
}

func (g *guard) enter() error {
	if g.depth++; g.depth > maxDepth {
		return errDepth
	}
	return g.step()
}

// look counts looking at what v itself holds, not at what is inside that.
func (g *guard) look(v jinja.Value) error { return g.spend(length(v)) }

func length(v jinja.Value) int {
	switch {
	case v.IsString():
		return len(v.AsString())
	case v.IsList():
		return 8 * v.AsList().Len()
	case v.IsDict():
		return 8 * v.AsDict().Len()
	}
	return 0
}

// text returns str(v), with Undefined as nothing.
func (g *guard) text(v jinja.Value) (string, error) {
	switch {
	case v.IsString():
		return v.AsString(), nil
	case v.IsList() || v.IsDict():
		w := textWriter{guard: g}
		err := w.repr(v, 0)
		return w.out.String(), err
	}
	return scalar(v), g.spend(0)
}

// texts is text of several.
func (g *guard) texts(values []jinja.Value) ([]string, error) {
	texts := make([]string, len(values))
	for i, v := range values {
		var err error
		if texts[i], err = g.text(v); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// scalar writes what is no string, list or mapping.
func scalar(v jinja.Value) string {
	switch {
	case v.IsNone():
		return "None"
	case v.IsBool():
		if v.AsBool() {
			return "True"
		}
		return "False"
	case v.IsInt():
		return strconv.FormatInt(v.AsInt(), 10)
	case v.IsFloat():
		return pythonFloat(v.AsFloat())
	}
	return ""
}

// textWriter writes text that is counted.
type textWriter struct {
	guard *guard
	out   strings.Builder
}

func (w *textWriter) write(text string) error {
	if err := w.guard.take(len(text)); err != nil {
		return err
	}
	w.out.WriteString(text)
	return nil
}

// repr writes a value as Python's repr does.
func (w *textWriter) repr(v jinja.Value, depth int) error {
	switch {
	case depth > maxNested:
		return errNested
	case v.IsString():
		return w.write(reprString(v.AsString()))
	case v.IsList():
		return w.sequence("[", "]", v.AsList().Len(), func(i int) error { return w.repr(v.AsList().Items[i], depth+1) })
	case v.IsDict():
		return w.sequence("{", "}", v.AsDict().Len(), func(i int) error {
			key := v.AsDict().Keys[i]
			if err := w.write(reprString(key) + ": "); err != nil {
				return err
			}
			return w.repr(v.AsDict().Data[key], depth+1)
		})
	case v.IsUndefined():
		return w.write("Undefined")
	}
	return w.write(scalar(v))
}

func (w *textWriter) sequence(open, closing string, n int, item func(i int) error) error {
	if err := w.write(open); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if err := w.write(", "); err != nil {
				return err
			}
		}
		if err := item(i); err != nil {
			return err
		}
	}
	return w.write(closing)
}

// reprString is Python's repr of a string.
func reprString(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var out strings.Builder
	out.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	out.WriteRune(quote)
	return out.String()
}

// equal compares values as the engine does, and counts what is compared: a list that
// holds another one many times over takes time, not memory.
func (g *guard) equal(a, b jinja.Value, depth int) (bool, error) {
	switch {
	case depth > maxNested:
		return false, errNested
	case a.IsList() && b.IsList():
		if a.AsList().Len() != b.AsList().Len() {
			return false, g.spend(0)
		}
		for i, item := range a.AsList().Items {
			if same, err := g.equal(item, b.AsList().Items[i], depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, g.spend(0)
	case a.IsDict() && b.IsDict():
		if a.AsDict().Len() != b.AsDict().Len() {
			return false, g.spend(0)
		}
		for _, key := range a.AsDict().Keys {
			other, ok := b.AsDict().Get(key)
			if !ok {
				return false, g.spend(0)
			}
			if same, err := g.equal(a.AsDict().Data[key], other, depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, g.spend(0)
	case a.IsNumber() && b.IsNumber():
		return number(a) == number(b), g.spend(0)
	case a.IsString() && b.IsString():
		return a.AsString() == b.AsString(), g.spend(min(len(a.AsString()), len(b.AsString())))
	}
	return !a.IsList() && !a.IsDict() && a.Equals(b), g.spend(0)
}

func number(v jinja.Value) float64 {
	if v.IsInt() {
		return float64(v.AsInt())
	}
	return v.AsFloat()
}

// in tells whether an item is in a list, a key in a mapping or a text in a text.
func (g *guard) in(item, container jinja.Value) (bool, error) {
	switch {
	case container.IsList():
		for _, other := range container.AsList().Items {
			if same, err := g.equal(item, other, 0); same || err != nil {
				return same, err
			}
		}
	case container.IsDict() && item.IsString():
		return container.AsDict().Has(item.AsString()), g.spend(0)
	case container.IsString() && !item.IsString():
		return false, fmt.Errorf("in: want a str in a str, got %s", kindOf(item))
	case !container.IsString() && !container.IsDict() && !container.IsUndefined():
		return false, fmt.Errorf("in: %s holds nothing", kindOf(container))
	case container.IsString():
		return strings.Contains(container.AsString(), item.AsString()), g.look(container)
	}
	return false, g.spend(0)
}
