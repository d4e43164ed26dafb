package template

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Names of the functions that rewritten templates call.
const (
	funcStep     = "_guard_step"
	funcEnter    = "_guard_enter"
	funcLeave    = "_guard_leave"
	funcPrint    = "_print"
	filterToJSON = "_tojson"
)

const (
	maxSteps = 3_000_000 // loop bodies and macro calls of one rendering
	maxDepth = 500       // macro calls inside each other
	maxRange = 1_000_000 // numbers of one range
)

var (
	errSteps = errors.New("it loops without end: more than 3,000,000 steps")
	errDepth = errors.New("it recurses without end: more than 500 macro calls inside each other")
	errRange = errors.New("range: more than 1,000,000 numbers")
)

// builtins adds to the variables of one rendering what rewritten templates call,
// and a range that is limited.
func builtins(data map[string]jinja.Value) {
	define := func(name string, f func(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error)) {
		data[name] = jinja.NewCallable(name, f)
	}
	steps, depth := 0, 0
	step := func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if steps++; steps > maxSteps {
			return jinja.None(), errSteps
		}
		return jinja.None(), nil
	}
	define(funcStep, step)
	define(funcEnter, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if depth++; depth > maxDepth {
			return jinja.None(), errDepth
		}
		return step(nil, nil)
	})
	define(funcLeave, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		depth--
		return jinja.None(), nil
	})
	define("range", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return numbers(args) })
	define(funcPrint, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		switch {
		case len(args) == 0:
			return jinja.NewString(""), nil
		case args[0].IsNone():
			return jinja.NewString("None"), nil
		case args[0].IsFloat():
			return jinja.NewString(pythonFloat(args[0].AsFloat())), nil
		}
		return args[0], nil
	})
	define(filterToJSON, func(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
		j, err := newJSONWriter(named)
		if err != nil {
			return jinja.None(), err
		}
		if len(args) == 0 {
			return jinja.None(), errors.New("tojson: want a value")
		}
		if err := j.value(args[0], 0); err != nil {
			return jinja.None(), err
		}
		return jinja.NewString(j.out.String()), nil
	})
}

// numbers is Python's range.
func numbers(args []jinja.Value) (jinja.Value, error) {
	if len(args) < 1 || len(args) > 3 || slices.ContainsFunc(args, func(v jinja.Value) bool { return !v.IsInt() }) {
		return jinja.None(), errors.New("range: want one to three integers")
	}
	start, stop, by := int64(0), args[0].AsInt(), int64(1)
	if len(args) > 1 {
		start, stop = args[0].AsInt(), args[1].AsInt()
	}
	if len(args) > 2 {
		by = args[2].AsInt()
	}
	if by == 0 {
		return jinja.None(), errors.New("range: a step of 0")
	}
	var items []jinja.Value
	for n := start; by > 0 && n < stop || by < 0 && n > stop; n += by {
		if len(items) == maxRange {
			return jinja.None(), errRange
		}
		items = append(items, jinja.NewInt(n))
	}
	return jinja.NewList(items), nil
}

// jsonWriter is Python's json.dumps(value, ensure_ascii=False, ...).
type jsonWriter struct {
	out           strings.Builder
	items, fields string // separators
	indent        string // of one level
	lines         bool
	ascii, sorted bool
}

func newJSONWriter(named map[string]jinja.Value) (*jsonWriter, error) {
	j := &jsonWriter{items: ", ", fields: ": "}
	if v, ok := named["indent"]; ok && (v.IsInt() || v.IsString()) {
		j.lines, j.items = true, ","
		if v.IsString() {
			j.indent = v.AsString()
		} else {
			j.indent = strings.Repeat(" ", int(max(0, min(v.AsInt(), 64))))
		}
	}
	if v, ok := named["separators"]; ok && !v.IsNone() {
		if !v.IsList() || len(v.AsList().Items) != 2 || !v.AsList().Items[0].IsString() || !v.AsList().Items[1].IsString() {
			return nil, errors.New("tojson: separators: want two strings")
		}
		j.items, j.fields = v.AsList().Items[0].AsString(), v.AsList().Items[1].AsString()
	}
	if v, ok := named["ensure_ascii"]; ok {
		j.ascii = v.IsTruthy()
	}
	if v, ok := named["sort_keys"]; ok {
		j.sorted = v.IsTruthy()
	}
	return j, nil
}

func (j *jsonWriter) value(v jinja.Value, depth int) error {
	switch {
	case depth > maxDepth:
		return errDepth
	case v.IsNone():
		j.out.WriteString("null")
	case v.IsBool():
		j.out.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		j.out.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		j.out.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		j.text(v.AsString())
	case v.IsList():
		j.out.WriteByte('[')
		for i, item := range v.AsList().Items {
			j.begin(i, depth)
			if err := j.value(item, depth+1); err != nil {
				return err
			}
		}
		j.end(len(v.AsList().Items), depth)
		j.out.WriteByte(']')
	case v.IsDict():
		keys := v.AsDict().OrderedKeys()
		if j.sorted {
			keys = slices.Sorted(slices.Values(keys))
		}
		j.out.WriteByte('{')
		for i, key := range keys {
			j.begin(i, depth)
			j.text(key)
			j.out.WriteString(j.fields)
			item, _ := v.AsDict().Get(key)
			if err := j.value(item, depth+1); err != nil {
				return err
			}
		}
		j.end(len(keys), depth)
		j.out.WriteByte('}')
	default:
		return errors.New("tojson: a value that is undefined or no data")
	}
	return nil
}

// begin writes what stands before an item, end what stands after the last of n.
func (j *jsonWriter) begin(i, depth int) {
	if i > 0 {
		j.out.WriteString(j.items)
	}
	if j.lines {
		j.out.WriteString("\n" + strings.Repeat(j.indent, depth+1))
	}
}

func (j *jsonWriter) end(n, depth int) {
	if j.lines && n > 0 {
		j.out.WriteString("\n" + strings.Repeat(j.indent, depth))
	}
}

func (j *jsonWriter) text(s string) {
	j.out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			j.out.WriteByte('\\')
			j.out.WriteRune(r)
		case r == '\n':
			j.out.WriteString(`\n`)
		case r == '\r':
			j.out.WriteString(`\r`)
		case r == '\t':
			j.out.WriteString(`\t`)
		case r == '\b':
			j.out.WriteString(`\b`)
		case r == '\f':
			j.out.WriteString(`\f`)
		case r < 0x20 || j.ascii && r > 0x7e && r < 0x10000:
			fmt.Fprintf(&j.out, `\u%04x`, r)
		case j.ascii && r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(&j.out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			j.out.WriteRune(r)
		}
	}
	j.out.WriteByte('"')
}

// pythonFloat writes a float as Python's repr does.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
