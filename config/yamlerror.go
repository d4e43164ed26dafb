package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/condense"
)

// The messages of the YAML decoder that name types of Go.
var (
	wrongKind    = regexp.MustCompile("cannot construct (!!\\w+)(?: `((?s:.*?))`)? into (\\S+)")
	unknownField = regexp.MustCompile(`field (\S+) not found in type (\S+)`)
	nextFinding  = regexp.MustCompile(`; line \d+: (?:cannot construct|field) `)
	fieldTwice   = regexp.MustCompile(`field (\S+) already set in type \S+`)
)

// inWords says what a message of the YAML decoder says in the words of who wrote the
// configuration: what stands there and what is wanted, and of an unknown key the nearest
// that is known. It keeps the first finding.
func inWords(message string) string {
	if next := nextFinding.FindStringIndex(message); next != nil {
		message = message[:next[0]]
	}
	if m := wrongKind.FindStringSubmatch(message); m != nil {
		return strings.Replace(message, m[0], found(m[1], m[2])+": want "+wanted(m[3], m[1]), 1)
	}
	if m := unknownField.FindStringSubmatch(message); m != nil {
		return strings.Replace(message, m[0], "unknown key "+m[1]+didYouMean(m[1], keysOf(m[2])), 1)
	}
	return fieldTwice.ReplaceAllString(message, "key $1 stands here twice")
}

// found is what stands in the file.
func found(tag, value string) string {
	switch tag {
	case "!!seq":
		return "a list"
	case "!!map":
		return "keys with values"
	case "!!null":
		return "nothing"
	case "!!str":
		return fmt.Sprintf("%q", value)
	}
	return value
}

// wanted is what a field of a type of Go takes. A number that is none for it is too large,
// or has a sign.
func wanted(kind, tag string) string {
	switch kind = strings.TrimLeft(kind, "*"); {
	case kind == "int" && tag == "!!int":
		return "a whole number of at most 9223372036854775807"
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case strings.HasPrefix(kind, "uint"):
		return "a whole number from 0 to 18446744073709551615"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "string":
		return "a text"
	case strings.HasPrefix(kind, "[]"):
		return "a list, as in [a, b]"
	}
	return "keys with values"
}

// Keys are all keys of a configuration, those of nested objects as in train.steps, and
// the options of every condensing rule.
func Keys() []string {
	keys := keysBelow(reflect.TypeFor[Config](), "")
	slices.Sort(keys)
	return slices.Compact(keys)
}

// keysBelow lists the keys of a struct that hold values.
func keysBelow(kind reflect.Type, prefix string) []string {
	var keys []string
	for key, field := range fields(kind) {
		if field != nil && field.Kind() == reflect.Struct {
			keys = append(keys, keysBelow(field, prefix+key+".")...)
		} else {
			keys = append(keys, prefix+key)
		}
	}
	return keys
}

// fields are the keys of a struct, with the types of their values where those are known.
func fields(kind reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for i := range kind.NumField() {
		field := kind.Field(i)
		name, flags, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case flags == "inline" && field.Type.Kind() == reflect.Struct:
			for key, of := range fields(field.Type) {
				all[key] = of
			}
		case flags == "inline": // the options of rules
			for _, name := range condense.Rules() {
				rule, err := condense.Lookup(name)
				if err != nil {
					continue
				}
				for option := range rule.Options {
					all[option] = nil
				}
			}
		case name != "" && name != "-":
			all[name] = field.Type
		}
	}
	return all
}

// keysOf lists the keys of the struct with that name among those of a configuration.
func keysOf(name string) []string {
	var keys []string
	var walk func(kind reflect.Type)
	walk = func(kind reflect.Type) {
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		if kind.Kind() != reflect.Struct {
			return
		}
		for key, field := range fields(kind) {
			if kind.String() == name {
				keys = append(keys, key)
			}
			if field != nil {
				walk(field)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	return keys
}

// didYouMean names the nearest of the known keys, of those beside the wrong one, or else
// of all; "" if none is near.
func didYouMean(wrong string, beside []string) string {
	if near := nearest(wrong, beside, func(key string) string { return key }); near != "" {
		return ": did you mean " + near + "?"
	}
	last := func(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }
	if near := nearest(wrong, Keys(), last); near != "" {
		return ": did you mean " + near + "?"
	}
	return ""
}

// nearest is the key of which a part has the fewest typing errors, if those are few.
func nearest(wrong string, keys []string, part func(string) string) string {
	slices.Sort(keys)
	best, least := "", max(1, min(3, len(wrong)/3))+1
	for _, key := range keys {
		if d := typingErrors(strings.ToLower(wrong), part(key)); d < least {
			best, least = key, d
		}
	}
	return best
}

// typingErrors is the number of characters that are wrong, missing, too many or swapped
// with their neighbour: the optimal string alignment distance.
func typingErrors(a, b string) int {
	distance := make([][]int, len(a)+1)
	for i := range distance {
		distance[i] = make([]int, len(b)+1)
		distance[i][0] = i
	}
	for j := range distance[0] {
		distance[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(distance[i-1][j]+1, distance[i][j-1]+1, distance[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, distance[i-2][j-2]+1)
			}
			distance[i][j] = d
		}
	}
	return distance[len(a)][len(b)]
}

var unknownOption = regexp.MustCompile(`^condense: (\S+): no rule has such an option$`)

// Explain adds to an error about an option that no condensing rule has the nearest key,
// which may be one of condensing itself.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if m := unknownOption.FindStringSubmatch(err.Error()); m != nil {
		if hint := didYouMean(m[1], keysOf("config.Condense")); hint != "" {
			return fmt.Errorf("%w%s", err, hint)
		}
	}
	return err
}
