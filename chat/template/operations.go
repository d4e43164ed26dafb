package template

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// add is Python's +. A text takes up whatever is added to it, None and Undefined as
// nothing: templates rely on it where Python would fail.
func (g *guard) add(values []jinja.Value) (jinja.Value, error) {
	sum := values[0]
	for i := 1; i < len(values); i++ {
		v := values[i]
		switch {
		case sum.IsString() || v.IsString():
			end := i + 1 // all the texts that follow are joined at once
			for end < len(values) && !values[end].IsList() && !values[end].IsDict() {
				end++
			}
			var texts []string
			for _, v := range append([]jinja.Value{sum}, values[i:end]...) {
				text := ""
				if v.IsList() || v.IsDict() {
					return sum, fmt.Errorf("+: cannot join str and %s", kindOf(v))
				}
				if !v.IsNone() {
					var err error
					if text, err = g.text(v); err != nil {
						return sum, err
					}
				}
				texts = append(texts, text)
			}
			var err error
			if sum, err = g.join(texts, ""); err != nil {
				return sum, err
			}
			i = end - 1
		case sum.IsList() && v.IsList():
			a, b := sum.AsList().Items, v.AsList().Items
			if err := g.take(itemSize * (len(a) + len(b))); err != nil {
				return sum, err
			}
			sum = jinja.NewList(append(append(make([]jinja.Value, 0, len(a)+len(b)), a...), b...))
		default:
			var err error
			if sum, err = g.arithmetic("+", sum, v); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// join joins texts.
func (g *guard) join(texts []string, separator string) (jinja.Value, error) {
	size := 0
	for i, text := range texts {
		if size += len(text); i > 0 {
			size += len(separator)
		}
	}
	if err := g.take(size); err != nil {
		return jinja.None(), err
	}
	return jinja.NewString(strings.Join(texts, separator)), nil
}

// arithmetic is Python's, on integers of 64 bits.
func (g *guard) arithmetic(operator string, a, b jinja.Value) (jinja.Value, error) {
	if err := g.spend(0); err != nil {
		return a, err
	}
	for _, v := range []*jinja.Value{&a, &b} {
		if v.IsBool() {
			n := int64(0)
			if v.AsBool() {
				n = 1
			}
			*v = jinja.NewInt(n)
		}
	}
	if operator == "*" && b.IsInt() && (a.IsString() || a.IsList()) {
		return g.repeat(a, b.AsInt())
	}
	if operator == "*" && a.IsInt() && (b.IsString() || b.IsList()) {
		return g.repeat(b, a.AsInt())
	}
	for _, v := range []jinja.Value{a, b} {
		if !v.IsNumber() {
			return a, fmt.Errorf("%s: want numbers, got %s", operator, kindOf(v))
		}
	}
	if strings.Contains("/ // %", operator) && number(b) == 0 {
		return a, fmt.Errorf("%s: division by zero", operator)
	}
	if a.IsInt() && b.IsInt() && operator != "/" {
		if n, ok, err := integers(operator, a.AsInt(), b.AsInt()); ok || err != nil {
			return jinja.NewInt(n), err
		}
	}
	x, y := number(a), number(b)
	switch operator {
	case "+":
		x += y
	case "-":
		x -= y
	case "*":
		x *= y
	case "/":
		x /= y
	case "//":
		x = math.Floor(x / y)
	case "%":
		x -= y * math.Floor(x/y)
	case "**":
		x = math.Pow(x, y)
	}
	return jinja.NewFloat(x), nil
}

// integers computes on integers; ok is false where the result is a float.
func integers(operator string, a, b int64) (n int64, ok bool, err error) {
	overflow := fmt.Errorf("%s: the result is larger than 64 bits", operator)
	switch operator {
	case "+":
		if n = a + b; (n > a) != (b > 0) && b != 0 {
			return 0, false, overflow
		}
	case "-":
		if n = a - b; (n < a) != (b > 0) && b != 0 {
			return 0, false, overflow
		}
	case "*":
		if n = a * b; a != 0 && (n/a != b || a == -1 && b == math.MinInt64) {
			return 0, false, overflow
		}
	case "//", "%":
		if a == math.MinInt64 && b == -1 {
			return 0, false, overflow
		}
		quotient, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) {
			quotient, rest = quotient-1, rest+b
		}
		if n = quotient; operator == "%" {
			n = rest
		}
	case "**":
		if b < 0 {
			return 0, false, nil
		}
		for n = 1; b > 0; b-- {
			if a == 0 || a == 1 || a == -1 {
				if b%2 == 0 && a == -1 {
					return 1, true, nil
				}
				return a, true, nil
			}
			if n, _, err = integers("*", n, a); err != nil {
				return 0, false, overflow
			}
		}
	}
	return n, true, nil
}

func (g *guard) repeat(v jinja.Value, n int64) (jinja.Value, error) {
	n = max(n, 0)
	size := 1
	if v.IsString() {
		size = len(v.AsString())
	} else {
		size = itemSize * v.AsList().Len()
	}
	if size > 0 && n > math.MaxInt/int64(size) {
		n = math.MaxInt / int64(size)
	}
	if err := g.take(size * int(n)); err != nil {
		return v, err
	}
	if size == 0 {
		n = 0
	}
	if v.IsString() {
		return jinja.NewString(strings.Repeat(v.AsString(), int(n))), nil
	}
	var items []jinja.Value
	for range n {
		items = append(items, v.AsList().Items...)
	}
	return jinja.NewList(items), nil
}

// kindOf names the kind of a value as Python does.
func kindOf(v jinja.Value) string {
	switch {
	case v.IsNone():
		return "None"
	case v.IsBool():
		return "bool"
	case v.IsInt():
		return "int"
	case v.IsFloat():
		return "float"
	case v.IsString():
		return "str"
	case v.IsList():
		return "list"
	case v.IsDict():
		return "dict"
	case v.IsCallable():
		return "a function"
	}
	return "an undefined value"
}

// compare is a comparison, in or not in.
func (g *guard) compare(operator string, a, b jinja.Value) (bool, error) {
	switch operator {
	case "==", "!=":
		same, err := g.equal(a, b, 0)
		return same == (operator == "=="), err
	case "in", "not in":
		inside, err := g.in(a, b)
		return inside == (operator == "in"), err
	}
	var order float64
	switch {
	case a.IsString() && b.IsString():
		order = float64(strings.Compare(a.AsString(), b.AsString()))
		if err := g.spend(min(len(a.AsString()), len(b.AsString()))); err != nil {
			return false, err
		}
	default:
		var err error
		var difference jinja.Value
		if difference, err = g.arithmetic("-", a, b); err != nil {
			return false, fmt.Errorf("%s: cannot compare %s with %s", operator, kindOf(a), kindOf(b))
		}
		order = number(difference)
	}
	switch operator {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

// attribute is object.name, with the methods of texts, lists and mappings.
func (g *guard) attribute(object jinja.Value, name string) (jinja.Value, error) {
	if object.IsDict() {
		if v, ok := object.AsDict().Get(name); ok {
			return v, g.spend(0)
		}
	}
	if method := methodOf(object, name); method != nil {
		return jinja.NewCallable(name, func(arguments []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
			return method(g, object, arguments, named)
		}), g.take(itemSize)
	}
	return jinja.Undefined(), g.spend(0)
}

// method calls object.name: Python looks for the method first, so that a mapping with a
// key called items still has its items.
func (g *guard) method(object jinja.Value, name string, arguments jinja.Value, a []jinja.Value, caller jinja.Value) (jinja.Value, error) {
	if object.IsDict() {
		if v, ok := object.AsDict().Get(name); ok && v.IsCallable() {
			return g.call(v, arguments, a, caller)
		}
	}
	if err := g.spend(0); err != nil {
		return object, err
	}
	if method := methodOf(object, name); method != nil {
		return method(g, object, a, named(arguments))
	}
	return object, fmt.Errorf("%s has no method %.40q", kindOf(object), name)
}

// item is object[key].
func (g *guard) item(object, key jinja.Value) (jinja.Value, error) {
	if err := g.spend(0); err != nil {
		return object, err
	}
	switch {
	case object.IsDict():
		name, err := g.text(key)
		if err != nil {
			return object, err
		}
		v, _ := object.AsDict().Get(name)
		return v, nil
	case object.IsList() && key.IsInt():
		items := object.AsList().Items
		if i := index(key.AsInt(), len(items)); i >= 0 {
			return items[i], nil
		}
	case object.IsString() && key.IsInt():
		text := object.AsString()
		if err := g.spend(4 * len(text)); err != nil {
			return object, err
		}
		i := index(key.AsInt(), utf8.RuneCountInString(text))
		for _, r := range text {
			if i == 0 {
				return jinja.NewString(string(r)), nil
			}
			i--
		}
	case (object.IsString() || object.IsList()) && key.IsString():
		return g.attribute(object, key.AsString())
	}
	return jinja.Undefined(), nil
}

// index returns the place of Python's index, −1 if it is outside.
func index(i int64, length int) int {
	if i < 0 {
		i += int64(length)
	}
	if i < 0 || i >= int64(length) {
		return -1
	}
	return int(i)
}

// slice is object[start:stop:step].
func (g *guard) slice(object jinja.Value, bounds []jinja.Value) (jinja.Value, error) {
	if err := g.spend(4 * length(object)); err != nil {
		return object, err
	}
	n := 0
	switch {
	case object.IsString():
		n = utf8.RuneCountInString(object.AsString())
	case object.IsList():
		n = object.AsList().Len()
	default:
		return object, fmt.Errorf("a slice of %s: want a str or list", kindOf(object))
	}
	step := int64(1)
	values := [3]*int64{nil, nil, &step}
	for i, v := range bounds {
		if !v.IsNone() && !v.IsInt() {
			return object, fmt.Errorf("a slice: want integers, got %s", kindOf(v))
		}
		if v.IsInt() {
			x := v.AsInt()
			values[i] = &x
		}
	}
	if step = *values[2]; step == 0 {
		return object, errors.New("a slice: a step of 0")
	}
	place := func(v *int64, low, high, otherwise int64) int64 {
		if v == nil {
			return otherwise
		}
		x := *v
		if x < 0 {
			x = max(x, -int64(n)-1) + int64(n)
		}
		return min(max(x, low), high)
	}
	var start, stop int64
	if step > 0 {
		start, stop = place(values[0], 0, int64(n), 0), place(values[1], 0, int64(n), int64(n))
	} else {
		start, stop = place(values[0], -1, int64(n)-1, int64(n)-1), place(values[1], -1, int64(n)-1, -1)
	}
	step = max(min(step, int64(n)+1), -int64(n)-1)
	if object.IsString() {
		text := object.AsString()
		if step == 1 && n == len(text) { // of ASCII, without a copy
			return jinja.NewString(text[start:max(start, stop)]), nil
		}
		if err := g.take(8 * n); err != nil {
			return object, err
		}
		runes, kept := []rune(text), []rune(nil)
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			kept = append(kept, runes[i])
		}
		return jinja.NewString(string(kept)), nil
	}
	if err := g.take(itemSize * n); err != nil {
		return object, err
	}
	var kept []jinja.Value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		kept = append(kept, object.AsList().Items[i])
	}
	return jinja.NewList(kept), nil
}
