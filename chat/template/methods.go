package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// method is a method of a text, list or mapping.
type method func(g *guard, object jinja.Value, arguments []jinja.Value, named map[string]jinja.Value) (jinja.Value, error)

// methodOf returns a method, nil if there is none of that name.
func methodOf(object jinja.Value, name string) method {
	switch {
	case object.IsString():
		if f := stringMethods[name]; f != nil {
			return func(g *guard, object jinja.Value, arguments []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
				if err := g.spend(len(object.AsString())); err != nil {
					return object, err
				}
				v, err := f(g, object.AsString(), arguments, named)
				if err != nil {
					err = fmt.Errorf("str.%s: %w", name, err)
				}
				return v, err
			}
		}
	case object.IsList():
		return listMethods[name]
	case object.IsDict():
		return dictMethods[name]
	}
	return nil
}

var errArguments = errors.New("wrong arguments")

type stringMethod = func(g *guard, s string, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error)

var stringMethods = map[string]stringMethod{
	"strip":  trimmer(strings.Trim, strings.TrimFunc),
	"lstrip": trimmer(strings.TrimLeft, strings.TrimLeftFunc),
	"rstrip": trimmer(strings.TrimRight, strings.TrimRightFunc),
	"split":  split,
	"splitlines": func(g *guard, s string, _ []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if s == "" {
			return jinja.NewList(nil), nil
		}
		return split(g, strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), []jinja.Value{jinja.NewString("\n")}, nil)
	},
	"startswith": affix(strings.HasPrefix),
	"endswith":   affix(strings.HasSuffix),
	"removeprefix": func(_ *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if !areStrings(a, 1, 1) {
			return jinja.None(), errArguments
		}
		return jinja.NewString(strings.TrimPrefix(s, a[0].AsString())), nil
	},
	"removesuffix": func(_ *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if !areStrings(a, 1, 1) {
			return jinja.None(), errArguments
		}
		return jinja.NewString(strings.TrimSuffix(s, a[0].AsString())), nil
	},
	"replace": func(g *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		count := -1
		if len(a) == 3 && a[2].IsInt() {
			count, a = int(a[2].AsInt()), a[:2]
		}
		if !areStrings(a, 2, 2) {
			return jinja.None(), errArguments
		}
		return g.replace(s, a[0].AsString(), a[1].AsString(), count)
	},
	"upper": mapped(strings.ToUpper), "lower": mapped(strings.ToLower),
	"title": mapped(title), "capitalize": mapped(capitalize),
	"count": func(_ *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if !areStrings(a, 1, 1) {
			return jinja.None(), errArguments
		}
		return jinja.NewInt(int64(strings.Count(s, a[0].AsString()))), nil
	},
	"find": func(_ *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return find(s, a, strings.Index)
	},
	"rfind": func(_ *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return find(s, a, strings.LastIndex)
	},
	"isdigit": func(_ *guard, s string, _ []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return jinja.NewBool(s != "" && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsDigit(r) }) < 0), nil
	},
	"join": func(g *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(a) != 1 || !a[0].IsList() || !areStrings(a[0].AsList().Items, 0, a[0].AsList().Len()) {
			return jinja.None(), errors.New("want a list of strings")
		}
		texts, err := g.texts(a[0].AsList().Items)
		if err != nil {
			return jinja.None(), err
		}
		return g.join(texts, s)
	},
	"format": format,
}

func areStrings(a []jinja.Value, least, most int) bool {
	return len(a) >= least && len(a) <= most && !slices.ContainsFunc(a, func(v jinja.Value) bool { return !v.IsString() })
}

func trimmer(cutset func(s, cutset string) string, function func(string, func(rune) bool) string) stringMethod {
	return func(_ *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		switch {
		case len(a) == 0 || len(a) == 1 && a[0].IsNone():
			return jinja.NewString(function(s, isSpace)), nil
		case !areStrings(a, 1, 1) || len(a[0].AsString()) > 1000: // the time is that of both lengths
			return jinja.None(), errArguments
		}
		return jinja.NewString(cutset(s, a[0].AsString())), nil
	}
}

// isSpace is Python's str.isspace.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func affix(has func(s, affix string) bool) stringMethod {
	return func(_ *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(a) == 1 && a[0].IsList() {
			a = a[0].AsList().Items
			if !areStrings(a, 0, 1000) {
				return jinja.None(), errArguments
			}
			return jinja.NewBool(slices.ContainsFunc(a, func(v jinja.Value) bool { return has(s, v.AsString()) })), nil
		}
		if !areStrings(a, 1, 1) {
			return jinja.None(), errArguments
		}
		return jinja.NewBool(has(s, a[0].AsString())), nil
	}
}

func mapped(f func(string) string) stringMethod {
	return func(g *guard, s string, _ []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if err := g.take(8 * len(s)); err != nil { // as runes, and a letter may grow
			return jinja.None(), err
		}
		return jinja.NewString(f(s)), nil
	}
}

// title begins every word with a capital.
func title(s string) string {
	word := false
	return strings.Map(func(r rune) rune {
		defer func() { word = unicode.IsLetter(r) }()
		if word {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func capitalize(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return strings.ToTitle(s[:size]) + strings.ToLower(s[size:])
}

func find(s string, a []jinja.Value, index func(s, part string) int) (jinja.Value, error) {
	if !areStrings(a, 1, 1) {
		return jinja.None(), errArguments
	}
	at := index(s, a[0].AsString())
	if at > 0 {
		at = utf8.RuneCountInString(s[:at])
	}
	return jinja.NewInt(int64(at)), nil
}

func split(g *guard, s string, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	most := -1
	limit, given := named["maxsplit"]
	if len(a) > 1 {
		limit, given = a[1], true
	}
	if given {
		if !limit.IsInt() {
			return jinja.None(), errArguments
		}
		most = int(max(-1, min(limit.AsInt(), 1<<30)))
	}
	var parts []string
	switch {
	case len(a) == 0 || a[0].IsNone():
		if most >= 0 {
			return jinja.None(), errors.New("a limit without a separator is not supported")
		}
		if err := g.take(itemSize * (len(s)/2 + 1)); err != nil {
			return jinja.None(), err
		}
		parts = strings.FieldsFunc(s, isSpace)
	case len(a) > 2 || !a[0].IsString():
		return jinja.None(), errArguments
	case a[0].AsString() == "":
		return jinja.None(), errors.New("empty separator")
	default:
		n := strings.Count(s, a[0].AsString()) + 1
		if most >= 0 {
			n = min(n, most+1)
		}
		if err := g.take(itemSize * n); err != nil {
			return jinja.None(), err
		}
		parts = strings.SplitN(s, a[0].AsString(), n)
	}
	items := make([]jinja.Value, len(parts))
	for i, part := range parts {
		items[i] = jinja.NewString(part)
	}
	return jinja.NewList(items), nil
}

// replace replaces up to count occurrences, all of them if it is negative.
func (g *guard) replace(s, old, new string, count int) (jinja.Value, error) {
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	grow := max(0, len(new)-len(old))
	if grow > 0 && n > (1<<50)/grow {
		n = (1 << 50) / grow
	}
	if err := g.take(len(s) + n*grow); err != nil {
		return jinja.None(), err
	}
	return jinja.NewString(strings.Replace(s, old, new, count)), nil
}

// format is str.format with {} and {0}.
func format(g *guard, s string, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	texts, err := g.texts(a)
	if err != nil {
		return jinja.None(), err
	}
	w := textWriter{guard: g}
	for next := 0; s != ""; {
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			at = len(s)
		}
		if err := w.write(s[:at]); err != nil {
			return jinja.None(), err
		}
		if s = s[at:]; s == "" {
			break
		}
		if strings.HasPrefix(s, "{{") || strings.HasPrefix(s, "}}") {
			if err := w.write(s[:1]); err != nil {
				return jinja.None(), err
			}
			s = s[2:]
			continue
		}
		field, rest, ok := strings.Cut(s[1:], "}")
		i := next
		if field != "" {
			if _, err := fmt.Sscanf(field, "%d", &i); err != nil || fmt.Sprint(i) != field {
				ok = false
			}
		}
		if s[0] == '}' || !ok || i < 0 || i >= len(texts) {
			return jinja.None(), fmt.Errorf("%.20q: want {} or the number of an argument in braces", s)
		}
		if err := w.write(texts[i]); err != nil {
			return jinja.None(), err
		}
		s, next = rest, next+1
	}
	return jinja.NewString(w.out.String()), nil
}

var listMethods = map[string]method{
	"append": func(g *guard, object jinja.Value, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(a) != 1 {
			return object, errors.New("list.append: want one value")
		}
		if err := g.take(3 * itemSize); err != nil { // as the list doubles
			return object, err
		}
		object.AsList().Append(a[0])
		return jinja.None(), nil
	},
	"insert": func(g *guard, object jinja.Value, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(a) != 2 || !a[0].IsInt() {
			return object, errors.New("list.insert: want an index and a value")
		}
		if err := first(g.look(object), g.take(3*itemSize)); err != nil {
			return object, err
		}
		list := object.AsList()
		at := a[0].AsInt()
		if at < 0 {
			at = max(at+int64(list.Len()), 0)
		}
		list.Items = slices.Insert(list.Items, int(min(at, int64(list.Len()))), a[1])
		return jinja.None(), nil
	},
	"pop": func(g *guard, object jinja.Value, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		list := object.AsList()
		at := list.Len() - 1
		if len(a) == 1 && a[0].IsInt() {
			at = index(a[0].AsInt(), list.Len())
		}
		if at < 0 || len(a) > 1 {
			return object, errors.New("list.pop: the list has no such item")
		}
		v := list.Items[at]
		list.Items = slices.Delete(list.Items, at, at+1)
		return v, g.look(object)
	},
	"index": func(g *guard, object jinja.Value, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		for i, item := range object.AsList().Items {
			if len(a) != 1 {
				break
			}
			if same, err := g.equal(item, a[0], 0); same || err != nil {
				return jinja.NewInt(int64(i)), err
			}
		}
		return object, errors.New("list.index: the list has no such item")
	},
}

var dictMethods = map[string]method{
	"items": func(g *guard, object jinja.Value, _ []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return g.pairs(object, object.AsDict().Keys)
	},
	"keys": func(g *guard, object jinja.Value, _ []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return g.toList(object)
	},
	"values": func(g *guard, object jinja.Value, _ []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		var items []jinja.Value
		for _, key := range object.AsDict().Keys {
			items = append(items, object.AsDict().Data[key])
		}
		return g.list(items)
	},
	"get": func(g *guard, object jinja.Value, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(a) < 1 || len(a) > 2 {
			return object, errors.New("dict.get: want a key and, if need be, a default")
		}
		key, err := g.text(a[0])
		if err != nil {
			return object, err
		}
		if v, ok := object.AsDict().Get(key); ok {
			return v, nil
		}
		if len(a) == 2 {
			return a[1], nil
		}
		return jinja.None(), nil
	},
	"pop": func(g *guard, object jinja.Value, a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(a) < 1 || len(a) > 2 || !a[0].IsString() {
			return object, errors.New("dict.pop: want a key and, if need be, a default")
		}
		d := object.AsDict()
		v, ok := d.Get(a[0].AsString())
		switch {
		case ok:
			delete(d.Data, a[0].AsString())
			d.Keys = slices.DeleteFunc(d.Keys, func(key string) bool { return key == a[0].AsString() })
			return v, g.look(object)
		case len(a) == 2:
			return a[1], nil
		}
		return object, fmt.Errorf("dict.pop: there is no %.40q", a[0].AsString())
	},
	"update": func(g *guard, object jinja.Value, a []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
		if len(a) != 1 || !a[0].IsDict() || len(named) > 0 {
			return object, errors.New("dict.update: want a mapping")
		}
		other := a[0].AsDict()
		if err := g.take(entrySize * other.Len()); err != nil {
			return object, err
		}
		for _, key := range other.OrderedKeys() {
			object.AsDict().Set(key, other.Data[key])
		}
		return jinja.None(), nil
	},
}

// pairs returns the entries of a mapping as lists of key and value.
func (g *guard) pairs(object jinja.Value, keys []string) (jinja.Value, error) {
	if err := g.take(4 * itemSize * len(keys)); err != nil {
		return object, err
	}
	items := make([]jinja.Value, len(keys))
	for i, key := range keys {
		items[i] = jinja.NewList([]jinja.Value{jinja.NewString(key), object.AsDict().Data[key]})
	}
	return jinja.NewList(items), nil
}

// toList is Python's list(v): the items, keys or characters.
func (g *guard) toList(v jinja.Value) (jinja.Value, error) {
	var items []jinja.Value
	switch {
	case v.IsList():
		if err := g.take(itemSize * v.AsList().Len()); err != nil {
			return v, err
		}
		items = slices.Clone(v.AsList().Items)
	case v.IsDict():
		if err := g.take(itemSize * v.AsDict().Len()); err != nil {
			return v, err
		}
		for _, key := range v.AsDict().Keys {
			items = append(items, jinja.NewString(key))
		}
	case v.IsString():
		if err := g.take(itemSize * len(v.AsString())); err != nil {
			return v, err
		}
		for _, r := range v.AsString() {
			items = append(items, jinja.NewString(string(r)))
		}
	case !v.IsUndefined():
		return v, fmt.Errorf("%s is no list", kindOf(v))
	}
	return jinja.NewList(items), nil
}
