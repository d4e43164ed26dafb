package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/infinirl/infinirl/chat"
)

// file is a piece of a file that values point into: one document, or several.
type file struct {
	name  string
	data  []byte
	first int  // the number of its first line
	lines bool // it is one array of lines, whose numbers tell the place of an item
	*reading
	at, atLine int // where line was asked for last, so that asking in order is cheap
}

// reading is what the values of one run share while they are read.
type reading struct {
	Options
	notices map[string]int
}

// note counts one more of a kind of thing that could not be taken as recorded.
func (r *reading) note(kind string) {
	if r.notices == nil {
		r.notices = make(map[string]int)
	}
	r.notices[kind]++
}

func newFile(name string, data []byte) *file {
	return &file{name: name, data: data, first: 1, reading: &reading{}}
}

// line returns the line number of a byte offset, from 1.
func (f *file) line(offset int) int {
	if offset < f.at {
		f.at, f.atLine = 0, 0
	}
	f.atLine += bytes.Count(f.data[f.at:offset], []byte("\n"))
	f.at = offset
	return f.first + f.atLine
}

// value is one JSON value by its place in a file that is known to be valid. It is
// taken apart one level at a time, and remembers its path for errors.
type value struct {
	file       *file
	path       string // such as messages[3].content; empty at the top
	start, end int
	depth      int // of objects and arrays around it
}

// maxDepth bounds how deep values are taken apart. What recordings hold deeper,
// such as arguments and schemas, is taken as text.
const maxDepth = 32

// tooDeep is the error of a value at maxDepth.
func (v value) tooDeep() error {
	if v.depth < maxDepth {
		return nil
	}
	return v.errorf("nested in more than %d objects and arrays", maxDepth)
}

// lenient takes what Python's json writes: keys that repeat, and halves of
// surrogate pairs. Invalid UTF-8 is taken too, and counted (see parse).
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// decoder reads data without copying it.
func decoder(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), lenient...)
}

// parse validates data[start:end] of a file as one JSON value.
func parse(f *file, start, end int) (value, error) {
	d := decoder(f.data[start:end:end])
	raw, err := d.ReadValue()
	if err != nil {
		return value{}, f.syntaxError(err, start, end)
	}
	v := value{file: f, end: start + int(d.InputOffset())}
	v.start = v.end - len(raw)
	if rest := bytes.TrimLeft(f.data[v.end:end], " \n\t\r"); len(rest) > 0 {
		r, _ := utf8.DecodeRune(rest)
		return value{}, fmt.Errorf("%s:%d: invalid character %q after the JSON value", f.name, f.line(end-len(rest)), r)
	}
	if !jsontext.Value(raw).IsValid(lenient[0]) {
		f.note("recordings with invalid Unicode, shown as \ufffd")
	}
	return v, nil
}

// syntaxError says what is wrong with the JSON of data[start:end], and where.
func (f *file) syntaxError(err error, start, end int) error {
	text, offset := err.Error(), start
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		text, offset = syntax.Err.Error(), start+int(syntax.ByteOffset)
	}
	at := f.data[min(offset, end):end]
	for _, name := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(at, []byte(name)) || name == "-Infinity" && offset > start && bytes.HasPrefix(f.data[offset-1:end], []byte(name)) {
			text = name + " is no JSON: write null or a number"
		}
	}
	if strings.Contains(text, "unexpected EOF") {
		text = "the JSON text ends early: the file is cut off"
	}
	return fmt.Errorf("%s:%d: %s", f.name, f.line(min(offset, end)), strings.ReplaceAll(text, "\n", " "))
}

// errorf returns an error that names file, line and field.
func (v value) errorf(format string, args ...any) error {
	field := v.path
	if field != "" {
		field += ": "
	}
	return fmt.Errorf("%s:%d: %s%s", v.file.name, v.file.line(v.start), field, fmt.Sprintf(format, args...))
}

// embedded parses the text of a string as JSON; its errors name the place of the string.
func (v value) embedded() (value, error) {
	text, err := v.text()
	if err != nil {
		return value{}, err
	}
	inner := &file{name: v.file.name, data: []byte(text), first: v.file.line(v.start), reading: v.file.reading}
	parsed, err := parse(inner, 0, len(text))
	if err != nil {
		return value{}, v.errorf("a string that should hold JSON: %s", err)
	}
	parsed.path, parsed.depth = v.path, v.depth+1
	return parsed, nil
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

// bytes returns the JSON text of the value, which the file owns.
func (v value) bytes() []byte { return v.file.data[v.start:v.end:v.end] }

// raw returns the JSON text of the value.
func (v value) raw() string { return string(v.bytes()) }

// canonical returns the JSON text of the value in the one layout of chat.CanonicalJSON.
func (v value) canonical() string { return string(chat.CanonicalJSON(v.bytes())) }

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
	if err := v.tooDeep(); err != nil {
		return object{}, err
	}
	o := object{value: v}
	d := decoder(v.bytes())
	must(d.ReadToken())
	for d.PeekKind() != '}' {
		key := unquote(must(d.ReadValue()))
		field := v.next(d)
		field.path = join(v.path, key)
		o.keys = append(o.keys, key)
		o.fields = append(o.fields, field)
	}
	return o, nil
}

// next returns the next value inside v that its decoder reads.
func (v value) next(d *jsontext.Decoder) value {
	raw := must(d.ReadValue())
	end := v.start + int(d.InputOffset())
	return value{file: v.file, start: end - len(raw), end: end, depth: v.depth + 1}
}

// must returns what was read from JSON that parse has validated.
func must[T any](read T, err error) T {
	if err != nil {
		panic(err)
	}
	return read
}

func join(path, key string) string {
	if path == "" {
		return chat.Excerpt(key)
	}
	return path + "." + chat.Excerpt(key)
}

// get returns the field of a name; ok is false if it is absent or null. Of a key
// that repeats the last counts, as everywhere.
func (o object) get(key string) (v value, ok bool) {
	for i := len(o.keys) - 1; i >= 0; i-- {
		if o.keys[i] == key {
			return o.fields[i], o.fields[i].kind() != 'n'
		}
	}
	return value{}, false
}

// first returns the first field of these names that is there and neither null nor
// an empty string.
func (o object) first(keys ...string) (v value, ok bool) {
	for _, key := range keys {
		if v, ok := o.get(key); ok && (v.kind() != '"' || v.end-v.start > len(`""`)) {
			return v, true
		}
	}
	return value{}, false
}

// filled reports whether a field is an array that is not empty.
func (o object) filled(key string) bool {
	v, ok := o.get(key)
	if !ok || v.kind() != '[' {
		return false
	}
	rest := bytes.TrimLeft(v.bytes()[1:], " \n\t\r")
	return rest[0] != ']'
}

// equal reports whether two values are the same JSON, whatever its layout.
func (v value) equal(w value) bool {
	return v.kind() == w.kind() && (bytes.Equal(v.bytes(), w.bytes()) || v.canonical() == w.canonical())
}

// one returns an error if two fields that should tell the same differ.
func (v value) one(w value, what string) error {
	if v.equal(w) {
		return nil
	}
	return w.errorf("%s stands here and in %s: leave one of them out", what, v.path)
}

// child returns the object of a field; ok is false if there is none.
func (o object) child(key string) (inner object, ok bool) {
	v, ok := o.get(key)
	if !ok || v.kind() != '{' {
		return object{}, false
	}
	inner, err := v.object()
	return inner, err == nil
}

// find follows a dotted path of fields.
func (o object) find(path string) (v value, ok bool) {
	if v, ok := o.get(path); ok {
		return v, true // a key may hold dots
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if inner, ok := o.child(path[:i]); ok {
			if v, ok := inner.find(path[i+1:]); ok {
				return v, true
			}
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

// label returns a field that names something, a string or a number; "" if it is
// absent or null.
func (o object) label(key string) (string, error) {
	v, ok := o.get(key)
	if !ok {
		return "", nil
	}
	if v.kind() == '0' {
		return v.raw(), nil
	}
	return v.text()
}

// array returns the items of an array.
func (v value) array() ([]value, error) {
	if v.kind() != '[' {
		return nil, v.errorf("%s, want an array", kindNames[v.kind()])
	}
	if err := v.tooDeep(); err != nil {
		return nil, err
	}
	var items []value
	d := decoder(v.bytes())
	must(d.ReadToken())
	for d.PeekKind() != ']' {
		item := v.next(d)
		if !v.file.lines || v.depth > 0 {
			item.path = fmt.Sprintf("%s[%d]", v.path, len(items))
		}
		items = append(items, item)
	}
	return items, nil
}

// text returns the text of a string.
func (v value) text() (string, error) {
	if v.kind() != '"' {
		return "", v.errorf("%s, want a string", kindNames[v.kind()])
	}
	return unquote(v.bytes()), nil
}

// scalar returns the text of a string, or the canonical text of any other value.
func (v value) scalar() string {
	if s, err := v.text(); err == nil {
		return s
	}
	return v.canonical()
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
	if err := json.Unmarshal(v.bytes(), &n); err != nil || v.kind() != '0' {
		return 0, v.errorf("%s, want a number", v.excerpt())
	}
	return n, nil
}

// excerpt is the start of the value as an error quotes it: one line of valid text.
func (v value) excerpt() string {
	return chat.Excerpt(strings.ToValidUTF8(v.canonical(), "\ufffd"))
}

// ids returns an array of token ids. An empty one records none: nil.
func (v value) ids() ([]int32, error) {
	ids := []int32{}
	if err := v.numbers(&ids); err != nil {
		return nil, v.errorf("want an array of token ids: %s", chat.Excerpt(err.Error()))
	}
	if i := slices.IndexFunc(ids, func(id int32) bool { return id < 0 }); i >= 0 {
		return nil, v.errorf("token id %d, want 0 or more", ids[i])
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return ids, nil
}

// floats returns an array of numbers.
func (v value) floats() ([]float32, error) {
	numbers := []float32{}
	if err := v.numbers(&numbers); err != nil {
		return nil, v.errorf("want an array of numbers: %s", chat.Excerpt(err.Error()))
	}
	return numbers, nil
}

// numbers decodes an array of numbers; null is none.
func (v value) numbers(into any) error {
	if bytes.Contains(v.bytes(), []byte("null")) {
		return errors.New("null among them")
	}
	return json.Unmarshal(v.bytes(), into)
}

// unquote decodes a valid JSON string.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // the error is of invalid Unicode, which parse counts
	return string(text)
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
