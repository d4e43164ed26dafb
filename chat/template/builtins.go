package template

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Names of the functions that rewritten templates call. Those of templates themselves
// never begin so.
const (
	funcStep       = "__step"    // size, value: the value, at the start of a loop's body
	funcEnter      = "__enter"   // size, none: at the start of a macro's body
	funcLeave      = "__leave"   // at its end
	funcTag        = "__tag"     // size of a tag, value: the value
	funcItems      = "__items"   // size, what a loop goes over
	funcPrint      = "__print"   // size, value: its text
	funcText       = "__text"    // text
	funcUse        = "__use"     // value: the value, that a test will look at
	funcList       = "__list"    // items
	funcDict       = "__dict"    // key, value, key, value
	funcAdd        = "__add"     // terms
	funcConcat     = "__concat"  // what ~ joins
	funcArithmetic = "__arith"   // operator, left, right
	funcCompare    = "__compare" // left, operator, right, operator, right
	funcAttribute  = "__attr"    // object, name
	funcItem       = "__item"    // object, key
	funcSlice      = "__slice"   // object, start, stop, step
	funcCall       = "__call"    // function, named arguments, arguments
	funcMethod     = "__method"  // object, name, named arguments, arguments
	funcFilter     = "__filter"  // name, named arguments, value, arguments
)

// ordered are the global functions that keep the order of their named arguments.
const ordered = "ordered: "

// builtins adds to the variables of one rendering what rewritten templates call, and
// global functions that are limited.
func builtins(data map[string]jinja.Value, g *guard) {
	define := func(name string, f func(a []jinja.Value) (jinja.Value, error)) {
		data[name] = jinja.NewCallable(name, func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return f(a) })
	}
	// The value of a tag of that size.
	sized := func(name string, f func(v jinja.Value) (jinja.Value, error)) {
		define(name, func(a []jinja.Value) (jinja.Value, error) {
			// Four bytes may be a name to look up, which no function of guard sees.
			size := 16 * int(a[0].AsInt())
			if name == funcStep && a[1].IsNone() {
				size = 0 // the loop has counted its tag
			}
			if err := g.spend(size); err != nil {
				return jinja.None(), err
			}
			return f(a[1])
		})
	}
	sized(funcTag, func(v jinja.Value) (jinja.Value, error) { return v, nil })
	sized(funcStep, func(v jinja.Value) (jinja.Value, error) { return v, g.step() })
	sized(funcEnter, func(v jinja.Value) (jinja.Value, error) { return v, g.enter() })
	sized(funcItems, func(v jinja.Value) (jinja.Value, error) {
		if v.IsList() { // the loop goes over what is in it now
			return v, g.look(v)
		}
		return g.toList(v)
	})
	sized(funcPrint, func(v jinja.Value) (jinja.Value, error) {
		text, err := g.text(v)
		if err != nil {
			return v, err
		}
		return jinja.NewString(text), g.take(len(text))
	})
	define(funcLeave, func([]jinja.Value) (jinja.Value, error) {
		g.depth--
		return jinja.None(), nil
	})
	define(funcText, func(a []jinja.Value) (jinja.Value, error) { return a[0], g.take(len(a[0].AsString())) })
	define(funcUse, func(a []jinja.Value) (jinja.Value, error) { return a[0], g.spend(8 * length(a[0])) })
	define(funcList, func(a []jinja.Value) (jinja.Value, error) { return g.list(a) })
	define(funcDict, g.dict)
	define(funcAdd, g.add)
	define(funcConcat, func(a []jinja.Value) (jinja.Value, error) {
		texts, err := g.texts(a)
		if err != nil {
			return jinja.None(), err
		}
		return g.join(texts, "")
	})
	define(funcArithmetic, func(a []jinja.Value) (jinja.Value, error) { return g.arithmetic(a[0].AsString(), a[1], a[2]) })
	define(funcCompare, func(a []jinja.Value) (jinja.Value, error) {
		for i := 0; i+2 < len(a); i += 2 {
			if holds, err := g.compare(a[i+1].AsString(), a[i], a[i+2]); !holds || err != nil {
				return jinja.NewBool(false), err
			}
		}
		return jinja.NewBool(true), nil
	})
	define(funcAttribute, func(a []jinja.Value) (jinja.Value, error) { return g.attribute(a[0], a[1].AsString()) })
	define(funcItem, func(a []jinja.Value) (jinja.Value, error) { return g.item(a[0], a[1]) })
	define(funcSlice, func(a []jinja.Value) (jinja.Value, error) { return g.slice(a[0], a[1:]) })
	define(funcFilter, func(a []jinja.Value) (jinja.Value, error) { return g.filter(a[0].AsString(), a[2:], named(a[1])) })
	// {% call %} gives the caller as a named argument, and prints what comes back.
	calls := func(name string, f func(a []jinja.Value, caller jinja.Value) (jinja.Value, error)) {
		data[name] = jinja.NewCallable(name, func(a []jinja.Value, block map[string]jinja.Value) (jinja.Value, error) {
			v, err := f(a, block["caller"])
			if err != nil || block == nil {
				return v, err
			}
			text, err := g.text(v)
			return jinja.NewString(text), first(err, g.take(len(text)))
		})
	}
	calls(funcCall, func(a []jinja.Value, caller jinja.Value) (jinja.Value, error) {
		return g.call(a[0], a[1], a[2:], caller)
	})
	calls(funcMethod, func(a []jinja.Value, caller jinja.Value) (jinja.Value, error) {
		return g.method(a[0], a[1].AsString(), a[2], a[3:], caller)
	})

	global := func(name string, f func(a []jinja.Value) (jinja.Value, error)) {
		define(name, func(a []jinja.Value) (jinja.Value, error) {
			if err := g.spend(0); err != nil {
				return jinja.None(), err
			}
			return f(a)
		})
	}
	global("range", func(a []jinja.Value) (jinja.Value, error) {
		v, err := numbers(a)
		if err != nil {
			return v, err
		}
		return v, g.take(itemSize * v.AsList().Len())
	})
	global("raise_exception", func(a []jinja.Value) (jinja.Value, error) {
		if len(a) != 1 {
			return jinja.None(), errors.New("raise_exception: want a message")
		}
		text, err := g.text(a[0])
		if err != nil {
			return jinja.None(), err
		}
		return jinja.None(), errors.New(oneLine(text))
	})
	global("strftime_now", func(a []jinja.Value) (jinja.Value, error) {
		if len(a) != 1 || !a[0].IsString() || len(a[0].AsString()) > 200 {
			return jinja.None(), errors.New("strftime_now: want a format of at most 200 bytes")
		}
		return strftimeNow(a)
	})
	global("joiner", func(a []jinja.Value) (jinja.Value, error) {
		separator := jinja.NewString(", ")
		if len(a) > 0 {
			separator = a[0]
		}
		begun := false
		return jinja.NewCallable("joiner", func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
			if !begun {
				begun = true
				return jinja.NewString(""), nil
			}
			return separator, nil
		}), g.take(entrySize)
	})
	global("cycler", func(a []jinja.Value) (jinja.Value, error) {
		if len(a) == 0 {
			return jinja.None(), errors.New("cycler: want items")
		}
		at := 0
		cycler := jinja.NewDict()
		move := func(name string, to func() int) {
			cycler.AsDict().Set(name, jinja.NewCallable(name, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
				v := a[at]
				at = to()
				cycler.AsDict().Set("current", a[at])
				return v, nil
			}))
		}
		cycler.AsDict().Set("current", a[0])
		move("next", func() int { return (at + 1) % len(a) })
		move("reset", func() int { return 0 })
		return cycler, g.take(8 * entrySize)
	})
	for _, name := range []string{"dict", "namespace"} {
		data[name] = jinja.NewCallable(ordered+name, nil)
	}
}

// named returns the named arguments of a call.
func named(v jinja.Value) map[string]jinja.Value {
	if v.IsNone() {
		return nil
	}
	return v.AsDict().Data
}

// call calls a function; caller is what the block of {% call %} renders, or undefined.
func (g *guard) call(function, arguments jinja.Value, a []jinja.Value, caller jinja.Value) (jinja.Value, error) {
	if err := g.spend(0); err != nil {
		return function, err
	}
	if !function.IsCallable() {
		return function, fmt.Errorf("it calls %s, which is not a function", kindOf(function))
	}
	f := function.AsCallable()
	if strings.HasPrefix(f.Name, ordered) {
		return g.mapping(a, arguments)
	}
	all := named(arguments)
	if caller.IsCallable() {
		all = maps.Clone(all)
		if all == nil {
			all = make(map[string]jinja.Value)
		}
		all["caller"] = caller
	}
	return f.Fn(a, all)
}

// mapping is dict(...) and namespace(...): a mapping or pairs, and named arguments.
func (g *guard) mapping(a []jinja.Value, named jinja.Value) (jinja.Value, error) {
	var entries []jinja.Value
	add := func(d *jinja.Dict) {
		for _, key := range d.Keys {
			entries = append(entries, jinja.NewString(key), d.Data[key])
		}
	}
	for _, v := range a {
		switch {
		case v.IsDict():
			add(v.AsDict())
		case v.IsList():
			for _, pair := range v.AsList().Items {
				if !pair.IsList() || pair.AsList().Len() != 2 {
					return v, errors.New("dict: want a mapping or pairs")
				}
				entries = append(entries, pair.AsList().Items...)
			}
		default:
			return v, errors.New("dict: want a mapping or pairs")
		}
		if err := g.look(v); err != nil {
			return v, err
		}
	}
	if named.IsDict() {
		add(named.AsDict())
	}
	return g.dict(entries)
}

// dict makes a mapping of keys and values in turn.
func (g *guard) dict(entries []jinja.Value) (jinja.Value, error) {
	if err := g.take(entrySize * (1 + len(entries)/2)); err != nil {
		return jinja.None(), err
	}
	v := jinja.NewDict()
	for i := 0; i+1 < len(entries); i += 2 {
		key, err := g.text(entries[i])
		if err != nil {
			return v, err
		}
		v.AsDict().Set(key, entries[i+1])
	}
	return v, nil
}

// oneLine is a message of a template as an error shows it.
func oneLine(text string) string {
	const most = 1000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

// strftimeNow is the engine's.
func strftimeNow(a []jinja.Value) (jinja.Value, error) {
	var function jinja.Value
	compiled, err := jinja.Compile("{{ keep(strftime_now) }}")
	if err != nil {
		return function, err
	}
	_, err = compiled.RenderValues(map[string]jinja.Value{"keep": jinja.NewCallable("keep", func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		function = a[0]
		return jinja.None(), nil
	})})
	if err != nil {
		return function, err
	}
	return function.AsCallable().Fn(a, nil)
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
	last := uint64(0) // the index of the last number, counted before any is made
	switch {
	case by > 0 && start < stop:
		last = (uint64(stop) - uint64(start) - 1) / uint64(by)
	case by < 0 && start > stop:
		last = (uint64(start) - uint64(stop) - 1) / -uint64(by)
	}
	if last >= maxRange {
		return jinja.None(), errRange
	}
	var items []jinja.Value
	for n := start; by > 0 && n < stop || by < 0 && n > stop; n += by {
		items = append(items, jinja.NewInt(n))
		if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
			break
		}
	}
	return jinja.NewList(items), nil
}

// jsonWriter is Python's json.dumps(value, ensure_ascii=False, ...).
type jsonWriter struct {
	guard         *guard
	out           strings.Builder
	counted       int    // bytes of out
	items, fields string // separators
	indent        string // of one level
	lines         bool
	ascii, sorted bool
}

// toJSON is the filter tojson.
func toJSON(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	j, err := newJSONWriter(named)
	if err != nil {
		return jinja.None(), err
	}
	j.guard = g
	err = first(j.value(a[0], 0), j.count())
	return jinja.NewString(j.out.String()), err
}

// count counts what was written since it was called last.
func (j *jsonWriter) count() error {
	n := j.out.Len() - j.counted
	j.counted += n
	return j.guard.take(n)
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
	if err := j.count(); err != nil {
		return err
	}
	switch {
	case depth > maxNested:
		return errNested
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
			if err := j.begin(i, depth); err != nil {
				return err
			}
			if err := j.value(item, depth+1); err != nil {
				return err
			}
		}
		if err := j.end(len(v.AsList().Items), depth); err != nil {
			return err
		}
		j.out.WriteByte(']')
	case v.IsDict():
		keys := v.AsDict().OrderedKeys()
		if j.sorted {
			keys = slices.Sorted(slices.Values(keys))
		}
		j.out.WriteByte('{')
		for i, key := range keys {
			if err := j.begin(i, depth); err != nil {
				return err
			}
			j.text(key)
			j.out.WriteString(j.fields)
			item, _ := v.AsDict().Get(key)
			if err := j.value(item, depth+1); err != nil {
				return err
			}
		}
		if err := j.end(len(keys), depth); err != nil {
			return err
		}
		j.out.WriteByte('}')
	default:
		return errors.New("tojson: a value that is undefined or no data")
	}
	return nil
}

// begin writes what stands before an item, end what stands after the last of n.
func (j *jsonWriter) begin(i, depth int) error {
	if i > 0 {
		j.out.WriteString(j.items)
	}
	if j.lines {
		return j.line(depth + 1)
	}
	return nil
}

func (j *jsonWriter) end(n, depth int) error {
	if j.lines && n > 0 {
		return j.line(depth)
	}
	return nil
}

// line begins a line of that depth.
func (j *jsonWriter) line(depth int) error {
	j.out.WriteByte('\n')
	if err := first(j.count(), j.guard.take(len(j.indent)*depth)); err != nil {
		return err
	}
	j.out.WriteString(strings.Repeat(j.indent, depth))
	j.counted = j.out.Len()
	return nil
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
