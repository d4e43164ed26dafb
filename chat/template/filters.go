package template

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// filter is a filter: arguments[0] is what it is applied to.
type filter func(g *guard, arguments []jinja.Value, named map[string]jinja.Value) (jinja.Value, error)

// filters are all that templates may use: those that could spend without bounds written
// here, the others the engine's behind a count of what they look at.
var filters map[string]filter

func init() { // map refers to it
	filters = map[string]filter{
		"tojson": toJSON, "join": joinFilter, "replace": replaceFilter, "indent": indentFilter, "map": mapFilter,
		"sort": sortFilter, "unique": uniqueFilter, "items": itemsFilter, "dictsort": dictsortFilter,
		"select": chooser("", true), "reject": chooser("", false),
		"selectattr": chooser("attr", true), "rejectattr": chooser("attr", false),
		"string": textFilter(func(s string) string { return s }), "trim": trimFilter,
		"lower": textFilter(strings.ToLower), "upper": textFilter(strings.ToUpper),
		"title": textFilter(titleWords), "wordcount": wordcountFilter, "round": roundFilter, "capitalize": textFilter(capitalize),
		"list": func(g *guard, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return g.toList(a[0]) },
	}
	for _, name := range []string{"first", "last"} {
		filters[name] = func(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
			list, err := g.toList(a[0])
			if err != nil {
				return list, err
			}
			return engineFilters()[name]([]jinja.Value{list}, named)
		}
	}
	for name, keys := range map[string]string{"default": "boolean", "d": "boolean", "length": "", "count": "", "reverse": "", "int": "", "float": "",
		"safe": "", "abs": "", "max": "", "min": "", "sum": "", "batch": "", "escape": "", "e": "", "from_json": "", "fromjson": ""} {
		filters[name] = func(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
			for key := range named {
				if !strings.Contains(" "+keys+" ", " "+key+" ") {
					return a[0], fmt.Errorf("%s: the argument %.40q is not supported", name, key)
				}
			}
			a = slices.Clone(a)
			cost := length(a[0])
			switch name {
			case "escape", "e":
				text, err := g.text(a[0])
				if err != nil {
					return a[0], err
				}
				a[0], cost = jinja.NewString(text), 8*len(text)
			case "from_json", "fromjson":
				cost *= 16
			case "length", "count":
				if !a[0].IsString() && !a[0].IsList() && !a[0].IsDict() && !a[0].IsUndefined() {
					return a[0], fmt.Errorf("%s: %s has none", name, kindOf(a[0]))
				}
				cost *= 5
			case "reverse":
				cost *= 5
			case "batch":
				cost *= 16
			case "max", "min": // numbers are read from texts, one by one
				if a[0].IsList() {
					for _, item := range a[0].AsList().Items {
						cost += 64 + 8*length(item)
					}
				}
			}
			if err := g.take(cost); err != nil {
				return a[0], err
			}
			return engineFilters()[name](a, named)
		}
	}
}

// engineFilters are the engine's own.
var engineFilters = sync.OnceValue(func() map[string]func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	found := make(map[string]func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error))
	keep := func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(a) == 1 && a[0].IsCallable() {
			found[a[0].AsCallable().Name] = a[0].AsCallable().Fn
		}
		return jinja.None(), nil
	}
	for _, name := range []string{"default", "d", "first", "last", "length", "count", "reverse", "int", "float", "safe", "abs", "max", "min", "sum",
		"batch", "escape", "e", "from_json", "fromjson", "select"} {
		compiled, err := jinja.Compile("{{ keep(__filter_" + name + ") }}")
		if err == nil {
			_, err = compiled.RenderValues(map[string]jinja.Value{"keep": jinja.NewCallable("keep", keep)})
		}
		if err != nil || found[name] == nil {
			panic(fmt.Sprintf("the template engine has no filter %s: %v", name, err))
		}
	}
	return found
})

// filter applies a filter.
func (g *guard) filter(name string, arguments []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	f := filters[name]
	if f == nil {
		return jinja.None(), fmt.Errorf("unknown filter %.40q", name)
	}
	if err := g.look(arguments[0]); err != nil {
		return jinja.None(), err
	}
	return f(g, arguments, named)
}

func textFilter(f func(string) string) filter {
	return func(g *guard, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		text, err := g.text(a[0])
		if err != nil {
			return a[0], err
		}
		return mapped(f)(g, text, nil, nil)
	}
}

// titleWords begins every word with a capital, as the filter does: words are what white
// space, hyphens and opening brackets separate.
func titleWords(s string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		was := inside
		inside = !isSpace(r) && !strings.ContainsRune("-({[<", r)
		if was {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func wordcountFilter(g *guard, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	text, err := g.text(a[0])
	if err != nil {
		return a[0], err
	}
	n, word := int64(0), false
	for _, r := range text {
		is := r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
		if is && !word {
			n++
		}
		word = is
	}
	return jinja.NewInt(n), g.spend(4 * len(text))
}

// roundFilter rounds to the nearest, and halves to even, as Python does.
func roundFilter(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	precision, ok := named["precision"]
	if len(a) > 1 {
		precision, ok = a[1], true
	}
	switch {
	case !ok:
		precision = jinja.NewInt(0)
	case !precision.IsInt() || precision.AsInt() < 0 || precision.AsInt() > 100:
		return a[0], errors.New("round: precision: want 0 to 100")
	}
	if !a[0].IsNumber() || len(a) > 2 || named["method"].IsString() {
		return a[0], errors.New("round: want a number, and no method")
	}
	if a[0].IsInt() {
		return a[0], nil
	}
	f, err := strconv.ParseFloat(strconv.FormatFloat(a[0].AsFloat(), 'f', int(precision.AsInt()), 64), 64)
	return jinja.NewFloat(f), err
}

func trimFilter(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	text, err := g.text(a[0])
	if err != nil {
		return a[0], err
	}
	if chars, ok := named["chars"]; ok {
		a = append(a[:1:1], chars)
	}
	return stringMethods["strip"](g, text, a[1:], nil)
}

func joinFilter(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	list, err := g.toList(a[0])
	if err != nil {
		return list, err
	}
	items := list.AsList().Items
	separator := jinja.NewString("")
	if d, ok := named["d"]; ok {
		separator = d
	} else if len(a) > 1 {
		separator = a[1]
	}
	attribute, ok := named["attribute"]
	if len(a) > 2 {
		attribute, ok = a[2], true
	}
	if ok {
		for i, item := range items {
			if items[i], err = g.item(item, attribute); err != nil {
				return list, err
			}
		}
	}
	texts, err := g.texts(append(items, separator))
	if err != nil {
		return list, err
	}
	return g.join(texts[:len(items)], texts[len(items)])
}

func replaceFilter(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	count := -1
	limit, ok := named["count"]
	if len(a) == 4 {
		limit, ok = a[3], true
	}
	if ok && limit.IsInt() {
		count = int(limit.AsInt())
	}
	if len(a) < 3 || len(a) > 4 || ok && !limit.IsInt() && !limit.IsNone() {
		return a[0], errors.New("replace: want what to replace and by what")
	}
	texts, err := g.texts(a[:3])
	if err != nil {
		return a[0], err
	}
	return g.replace(texts[0], texts[1], texts[2], count)
}

func indentFilter(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	options := [3]jinja.Value{jinja.NewInt(4), jinja.NewBool(false), jinja.NewBool(false)}
	for i, name := range []string{"width", "first", "blank"} {
		if v, ok := named[name]; ok {
			options[i] = v
		} else if len(a) > i+1 {
			options[i] = a[i+1]
		}
	}
	text, err := g.text(a[0])
	if err != nil {
		return a[0], err
	}
	lines := strings.Count(text, "\n") + 1
	var pad string
	switch width := options[0]; {
	case width.IsString():
		pad = width.AsString()
	case width.IsInt() && width.AsInt() <= math.MaxInt32:
		if err := g.take(int(max(0, width.AsInt()))); err != nil {
			return a[0], err
		}
		pad = strings.Repeat(" ", int(max(0, width.AsInt())))
	default:
		return a[0], errors.New("indent: width: want an int of 32 bits or a str")
	}
	if len(pad) > math.MaxInt/64/lines {
		return a[0], errors.New("indent: width: too large")
	}
	if err := g.take(2*len(text) + lines*(len(pad)+16)); err != nil {
		return a[0], err
	}
	parts := strings.Split(text, "\n")
	for i := range parts {
		if i == 0 && options[1].IsTruthy() || i > 0 && (parts[i] != "" || options[2].IsTruthy()) {
			parts[i] = pad + parts[i]
		}
	}
	return jinja.NewString(strings.Join(parts, "\n")), nil
}

func mapFilter(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	list, err := g.toList(a[0])
	if err != nil {
		return list, err
	}
	items := list.AsList().Items
	attribute, ok := named["attribute"]
	if !ok && (len(a) < 2 || !a[1].IsString()) {
		return list, errors.New("map: want the name of a filter, or an attribute")
	}
	for i, item := range items {
		if ok {
			if items[i], err = g.item(item, attribute); err == nil && items[i].IsUndefined() && len(named) > 1 {
				items[i] = named["default"]
			}
		} else {
			items[i], err = g.filter(a[1].AsString(), append([]jinja.Value{item}, a[2:]...), named)
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

func sortFilter(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	list, err := g.toList(a[0])
	if err != nil {
		return list, err
	}
	items := list.AsList().Items
	keys := slices.Clone(items)
	reverse := len(a) > 1 && a[1].IsTruthy()
	folds := true
	for name, v := range named {
		switch name {
		case "reverse":
			reverse = v.IsTruthy()
		case "case_sensitive":
			folds = !v.IsTruthy()
		case "attribute":
			for i, item := range items {
				if keys[i], err = g.item(item, v); err != nil {
					return list, err
				}
			}
		default:
			return list, fmt.Errorf("sort: the argument %.40q is not supported", name)
		}
	}
	if err := g.take(itemSize * len(items)); err != nil {
		return list, err
	}
	for i, key := range keys {
		if key.IsString() && folds {
			if keys[i], err = mapped(strings.ToLower)(g, key.AsString(), nil, nil); err != nil {
				return list, err
			}
		}
	}
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	var failed error
	sort.SliceStable(order, func(i, j int) bool {
		if failed != nil {
			return false
		}
		x, y := keys[order[i]], keys[order[j]]
		if reverse {
			x, y = y, x
		}
		less, err := g.compare("<", x, y)
		failed = err
		return less
	})
	sorted := make([]jinja.Value, len(items))
	for i, from := range order {
		sorted[i] = items[from]
	}
	return jinja.NewList(sorted), failed
}

func uniqueFilter(g *guard, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	list, err := g.toList(a[0])
	if err != nil {
		return list, err
	}
	seen := make(map[string]bool)
	var kept []jinja.Value
	for _, item := range list.AsList().Items {
		key, err := g.text(item)
		if err != nil {
			return list, err
		}
		if err := g.take(len(key) + entrySize); err != nil {
			return list, err
		}
		if !seen[key] {
			seen[key] = true
			kept = append(kept, item)
		}
	}
	return jinja.NewList(kept), nil
}

func itemsFilter(g *guard, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	switch {
	case a[0].IsUndefined():
		return jinja.NewList(nil), nil
	case !a[0].IsDict():
		//lint:ignore ST1005 as jinja2 says it; templates count on it
		return a[0], errors.New("Can only get item pairs from a mapping.")
	}
	return g.pairs(a[0], a[0].AsDict().Keys)
}

func dictsortFilter(g *guard, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	if !a[0].IsDict() {
		return a[0], fmt.Errorf("dictsort: want a mapping, got %s", kindOf(a[0]))
	}
	options := map[string]jinja.Value{"by": jinja.NewString("key")}
	for i, name := range []string{"case_sensitive", "by", "reverse"} {
		if len(a) > i+1 {
			options[name] = a[i+1]
		}
		if v, ok := named[name]; ok {
			options[name] = v
		}
	}
	if by := options["by"]; !by.IsString() || by.AsString() != "key" {
		return a[0], errors.New("dictsort: by: only the key is supported")
	}
	keys := a[0].AsDict().OrderedKeys()
	for _, key := range keys {
		if err := g.take(16 * (len(key) + 64)); err != nil {
			return a[0], err
		}
	}
	fold := strings.ToLower
	if options["case_sensitive"].IsTruthy() {
		fold = strings.Clone
	}
	order := 1
	if options["reverse"].IsTruthy() {
		order = -1 // equal ones stay as they are, as Python has it
	}
	slices.SortStableFunc(keys, func(x, y string) int { return order * strings.Compare(fold(x), fold(y)) })
	return g.pairs(a[0], keys)
}

// chooser is select, reject, and both of an attribute.
func chooser(of string, keep bool) filter {
	return func(g *guard, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		list, err := g.toList(a[0])
		if err != nil {
			return list, err
		}
		rest := a[1:]
		var attribute jinja.Value
		if of != "" {
			if len(rest) == 0 {
				return list, errors.New("selectattr, rejectattr: want the name of an attribute")
			}
			attribute, rest = rest[0], rest[1:]
		}
		var kept []jinja.Value
		for _, item := range list.AsList().Items {
			v := item
			if of != "" {
				if v, err = g.item(item, attribute); err != nil {
					return list, err
				}
			}
			holds, err := g.test(v, rest)
			if err != nil {
				return list, err
			}
			if holds == keep {
				kept = append(kept, item)
			}
		}
		return jinja.NewList(kept), nil
	}
}

// test tells whether a value passes the test of that name with those arguments; without
// one, whether it is true.
func (g *guard) test(v jinja.Value, test []jinja.Value) (bool, error) {
	if len(test) == 0 {
		return v.IsTruthy(), g.spend(0)
	}
	if !test[0].IsString() {
		return false, errors.New("select, reject: want the name of a test")
	}
	if operator := equality[test[0].AsString()]; operator != "" {
		if len(test) != 2 {
			return false, fmt.Errorf("the test %.30q: want one argument", test[0].AsString())
		}
		return g.compare(operator, v, test[1])
	}
	if err := g.look(v); err != nil {
		return false, err
	}
	chosen, err := engineFilters()["select"](append([]jinja.Value{jinja.NewList([]jinja.Value{v})}, test...), nil)
	return err == nil && chosen.AsList().Len() == 1, err
}
