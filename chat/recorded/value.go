package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// file is the text that values point into.
type file struct {
	name     string
	data     []byte
	newlines []int // their offsets
}

func newFile(name string, data []byte) *file {
	f := &file{name: name, data: data, newlines: make([]int, 0, bytes.Count(data, []byte("\n")))}
	for at := 0; ; at++ {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			return f
		}
		at += n
		f.newlines = append(f.newlines, at)
	}
}

// line returns the line number of a byte offset, from 1.
func (f *file) line(offset int) int {
	before, _ := slices.BinarySearch(f.newlines, offset)
	return 1 + before
}

// value is one JSON value by its place in a file that is known to be valid. It is
// taken apart one level at a time, and remembers its path for errors.
type value struct {
	file       *file
	path       string // such as messages[3].content; empty at the top
	start, end int
}

// parse validates data[start:end] of a file as one JSON value.
func parse(f *file, start, end int) (value, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(f.data[start:end], &raw); err != nil {
		offset := start
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			offset += int(syntax.Offset)
		}
		text := strings.TrimSpace(strings.TrimPrefix(err.Error(), "json:"))
		if strings.Contains(text, "unexpected end") {
			text = "the JSON text ends early: the file is cut off"
		}
		return value{}, fmt.Errorf("%s:%d: %s", f.name, f.line(offset), text)
	}
	v := value{file: f, start: start, end: end}
	v.start = skipSpace(f.data, start)
	v.end = skipValue(f.data, v.start)
	return v, nil
}

// errorf returns an error that names file, line and field.
func (v value) errorf(format string, args ...any) error {
	field := v.path
	if field != "" {
		field += ": "
	}
	return fmt.Errorf("%s:%d: %s%s", v.file.name, v.file.line(v.start), field, fmt.Sprintf(format, args...))
}

// kind is the first byte of the value: { [ " t f n, or 0 for a number.
func (v value) kind() byte {
	switch c := v.file.data[v.start]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return c
	default:
		return '0'
	}
}

var kindNames = map[byte]string{'{': "an object", '[': "an array", '"': "a string", 't': "true", 'f': "false", 'n': "null", '0': "a number"}

// raw returns the JSON text of the value.
func (v value) raw() string { return string(v.file.data[v.start:v.end]) }

// object is an object taken apart.
type object struct {
	value
	keys   []string
	fields []value
}

// object returns the fields of an object.
func (v value) object() (object, error) {
	if v.kind() != '{' {
		return object{}, v.errorf("%s, want an object", kindNames[v.kind()])
	}
	o := object{value: v}
	data := v.file.data
	for i := skipSpace(data, v.start+1); data[i] != '}'; i = skipSpace(data, i) {
		if data[i] == ',' {
			i = skipSpace(data, i+1)
		}
		keyEnd := skipValue(data, i)
		key := unquote(data[i:keyEnd])
		i = skipSpace(data, skipSpace(data, keyEnd)+1) // past the colon
		end := skipValue(data, i)
		o.keys = append(o.keys, key)
		o.fields = append(o.fields, value{file: v.file, path: join(v.path, key), start: i, end: end})
		i = end
	}
	return o, nil
}

func join(path, key string) string {
	if path == "" {
		return chat.Excerpt(key)
	}
	return path + "." + chat.Excerpt(key)
}

// get returns the field of a name; ok is false if it is absent or null.
func (o object) get(key string) (v value, ok bool) {
	for i, k := range o.keys {
		if k == key {
			return o.fields[i], o.fields[i].kind() != 'n'
		}
	}
	return value{}, false
}

// has reports whether the object has fields of all these names.
func (o object) has(keys ...string) bool {
	for _, key := range keys {
		found := false
		for _, k := range o.keys {
			found = found || k == key
		}
		if !found {
			return false
		}
	}
	return true
}

// need returns a field that must be there.
func (o object) need(key string) (value, error) {
	if v, ok := o.get(key); ok {
		return v, nil
	}
	return value{}, o.errorf("field %q is missing", key)
}

// text returns a string field, "" if it is absent or null.
func (o object) text(key string) (string, error) {
	v, ok := o.get(key)
	if !ok {
		return "", nil
	}
	return v.text()
}

// needText returns a string field that must be there.
func (o object) needText(key string) (string, error) {
	v, err := o.need(key)
	if err != nil {
		return "", err
	}
	return v.text()
}

// array returns the items of an array.
func (v value) array() ([]value, error) {
	if v.kind() != '[' {
		return nil, v.errorf("%s, want an array", kindNames[v.kind()])
	}
	var items []value
	data := v.file.data
	for i := skipSpace(data, v.start+1); data[i] != ']'; i = skipSpace(data, i) {
		if data[i] == ',' {
			i = skipSpace(data, i+1)
		}
		end := skipValue(data, i)
		items = append(items, value{file: v.file, path: fmt.Sprintf("%s[%d]", v.path, len(items)), start: i, end: end})
		i = end
	}
	return items, nil
}

// text returns the text of a string.
func (v value) text() (string, error) {
	if v.kind() != '"' {
		return "", v.errorf("%s, want a string", kindNames[v.kind()])
	}
	return unquote(v.file.data[v.start:v.end]), nil
}

// scalar returns the text of a string, or the literal of a number.
func (v value) scalar() string {
	if s, err := v.text(); err == nil {
		return s
	}
	return v.raw()
}

// number returns a number; true is 1 and false 0.
func (v value) number() (float64, error) {
	switch v.kind() {
	case 't':
		return 1, nil
	case 'f':
		return 0, nil
	}
	var n float64
	if err := json.Unmarshal(v.file.data[v.start:v.end], &n); err != nil || v.kind() != '0' {
		return 0, v.errorf("%s, want a number", v.raw()[:min(40, v.end-v.start)])
	}
	return n, nil
}

// ids returns an array of token ids.
func (v value) ids() ([]int32, error) {
	ids := []int32{}
	if err := json.Unmarshal(v.file.data[v.start:v.end], &ids); err != nil {
		return nil, v.errorf("want an array of token ids: %s", chat.Excerpt(err.Error()))
	}
	return ids, nil
}

// floats returns an array of numbers.
func (v value) floats() ([]float32, error) {
	numbers := []float32{}
	if err := json.Unmarshal(v.file.data[v.start:v.end], &numbers); err != nil {
		return nil, v.errorf("want an array of numbers: %s", chat.Excerpt(err.Error()))
	}
	return numbers, nil
}

// unquote decodes a valid JSON string.
func unquote(quoted []byte) string {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		panic(err) // parse has validated the file
	}
	return s
}

// skipSpace returns the next offset that is no white space.
func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the valid value that starts at i.
func skipValue(data []byte, i int) int {
	switch data[i] {
	case '"':
		for i++; ; {
			i += bytes.IndexAny(data[i:], `"\`)
			if data[i] == '"' {
				return i + 1
			}
			i += 2
		}
	case '{', '[':
		for depth := 0; ; {
			switch data[i] {
			case '"':
				i = skipValue(data, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
		}
	default:
		for i < len(data) && !bytes.ContainsRune([]byte(" \n\t\r,]}"), rune(data[i])) {
			i++
		}
		return i
	}
}

// rawText is JSON text that keeps a string's text unquoted: arguments stand as an
// object or as a string that holds one.
type rawText string

func (r *rawText) UnmarshalJSON(data []byte) error {
	*r = rawText(data)
	if data[0] == '"' {
		*r = rawText(unquote(data))
	}
	return nil
}

// unmarshal decodes JSON that stands inside a text.
func unmarshal(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// quoteKey writes a key as JSON.
func quoteKey(key string) string {
	text, err := json.Marshal(key)
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(text)
}
