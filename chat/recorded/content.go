package recorded

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// partKind tells what a part of a content is.
type partKind int

const (
	textPart      partKind = iota
	reasoningPart          // what the model thought
	callPart               // a call of a tool
	resultPart             // the result of one
	markerPart             // something that is no text; text names it
	hiddenPart             // reasoning that is encrypted
)

// part is one piece of a content.
type part struct {
	kind partKind
	text string
	v    value
}

// Names of types of parts.
var (
	textTypes      = []string{"text", "input_text", "output_text", "refusal", "plain_text"}
	reasoningTypes = []string{"thinking", "reasoning", "reasoning_content", "reasoning_text", "summary_text", "reasoning.text", "reasoning.summary", "thought"}
	hiddenTypes    = []string{"redacted_thinking", "reasoning.encrypted", "redacted_reasoning"}
	callTypes      = []string{"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "server_tool_call", "invalid_tool_call", "function_call"}
)

// Names of the fields that hold the words of a part.
var (
	textFields      = []string{"text", "value", "content", "output_text", "refusal"}
	reasoningFields = []string{"thinking", "reasoning", "reasoning_content", "text", "summary", "content", "value"}
)

// media are the things that are no text by a word in the name of their type, and how
// a notice calls several of them.
var media = []struct{ word, name, several string }{
	{"image", "image", "images"}, {"screenshot", "image", "images"},
	{"audio", "audio", "audio"}, {"video", "video", "videos"},
	{"file", "file", "files"}, {"document", "file", "files"}, {"pdf", "file", "files"},
}

// content returns the parts of a content: a string, a part, or an array of both.
func (v value) content() ([]part, error) {
	switch v.kind() {
	case '[':
		items, err := v.array()
		if err != nil {
			return nil, err
		}
		parts := make([]part, 0, len(items))
		for _, item := range items {
			p, err := item.part()
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
		return parts, nil
	case '{':
		p, err := v.part()
		return []part{p}, err
	}
	text, err := v.text()
	return []part{{text: text, v: v}}, err
}

// part reads one part of a content.
func (v value) part() (part, error) {
	if v.kind() != '{' {
		text, err := v.text()
		return part{text: text, v: v}, err
	}
	o, err := v.object()
	if err != nil {
		return part{}, err
	}
	kind, err := o.text("type")
	if err != nil {
		return part{}, err
	}
	p := part{v: v}
	switch {
	case slices.Contains(reasoningTypes, kind):
		p.kind = reasoningPart
		if p.text, _, err = o.words(reasoningFields); err == nil && p.text == "" {
			p.kind = hiddenPart
		}
	case slices.Contains(hiddenTypes, kind):
		p.kind = hiddenPart
	case slices.Contains(callTypes, kind):
		p.kind = callPart
	case kind == "server_tool_result" || strings.HasSuffix(kind, "tool_result"):
		p.kind = resultPart
	case slices.Contains(textTypes, kind):
		p.text, _, err = o.words(textFields)
		if !slices.ContainsFunc(textFields, func(name string) bool { return o.has(name) }) {
			_, err = o.need("text")
		}
	default:
		var known bool
		if p.text, known = mediaName(o, kind); known {
			p.kind = markerPart
			break
		}
		found := false
		if p.text, found, err = o.words(textFields); err != nil || found {
			break
		}
		if kind == "" {
			return p, o.errorf("field %q is missing", "type")
		}
		p.kind, p.text = markerPart, kind
	}
	return p, err
}

// mediaName names a part that is no text: by its type, by its MIME type, or by the
// one field it has.
func mediaName(o object, kind string) (string, bool) {
	words := kind
	if mime, _ := o.get("mime_type"); mime.file != nil {
		words += " " + mime.scalar()
	}
	for _, m := range media {
		if strings.Contains(words, m.word) || kind == "" && o.has(m.word) {
			return m.name, true
		}
	}
	return kind, kind == "media"
}

// toolContent returns the parts of what a tool returned. That may be any JSON, which is
// its own text: only if all of it is parts of a content is it read as such.
func (v value) toolContent() ([]part, error) {
	items := []value{v}
	switch v.kind() {
	case '[':
		var err error
		if items, err = v.array(); err != nil {
			return nil, err
		}
	case '{':
	default:
		return v.content()
	}
	for _, item := range items {
		is, err := item.isPart()
		if err != nil {
			return nil, err
		}
		if !is {
			return []part{{text: v.canonical(), v: v}}, nil
		}
	}
	return v.content()
}

// isPart reports whether what a tool returned is a part of a content: text, an object
// of a known type, or one that holds nothing but text.
func (v value) isPart() (bool, error) {
	if v.kind() != '{' {
		return v.kind() == '"', nil
	}
	o, err := v.object()
	if err != nil {
		return false, err
	}
	kind := ""
	if t, ok := o.get("type"); ok {
		if kind, err = t.text(); err != nil {
			return false, nil
		}
	}
	for _, known := range [][]string{reasoningTypes, hiddenTypes, callTypes, {"web_search_result"}} {
		if slices.Contains(known, kind) {
			return true, nil
		}
	}
	if slices.Contains(textTypes, kind) && slices.ContainsFunc(textFields, func(name string) bool { return o.has(name) }) {
		return true, nil
	}
	name, known := mediaName(o, kind)
	if kind == "" { // one field may name an image, more of them say something else
		known = known && len(o.keys) == 1 && name != "file"
	}
	if known || strings.HasSuffix(kind, "tool_result") {
		return true, nil
	}
	for _, key := range o.keys {
		if key != "type" && key != "text" {
			return false, nil
		}
	}
	text, ok := o.get("text")
	return ok && text.kind() == '"', nil
}

// words returns the text of the first of these fields that has any: a string, an
// object with such a field, or an array of parts. found reports whether one is there.
func (o object) words(fields []string) (text string, found bool, err error) {
	for _, name := range fields {
		v, ok := o.get(name)
		if !ok {
			continue
		}
		found = true
		switch v.kind() {
		case '{':
			inner, err := v.object()
			if err != nil {
				return "", true, err
			}
			text, _, err = inner.words(textFields)
			if err != nil {
				return "", true, err
			}
		case '[':
			parts, err := v.content()
			if err != nil {
				return "", true, err
			}
			between := ""
			if name == "summary" { // whose parts are paragraphs
				between = "\n\n"
			}
			var texts []string
			for _, p := range parts {
				if p.kind == markerPart {
					p.text = p.shown()
				}
				texts = append(texts, p.text)
			}
			text = strings.Join(texts, between)
		default:
			if text, err = v.text(); err != nil {
				return "", true, err
			}
		}
		if text != "" {
			return text, true, nil
		}
	}
	return "", found, nil
}

// shown returns the marker that stands for a part that is no text, and counts it.
func (p part) shown() string {
	marker := "[" + chat.Excerpt(p.text) + "]"
	several := "parts of type " + chat.Excerpt(p.text)
	for _, m := range media {
		if m.name == p.text {
			several = m.several
		}
	}
	p.v.file.note(several + " shown as " + marker)
	return marker
}

// hidden counts reasoning that was recorded encrypted.
func (p part) hidden() { p.v.file.note("reasoning recorded encrypted or empty, left out") }

// parts returns the text of a content that is shown to the model: what is no text
// is a marker in brackets, counted. What the model said goes through speech.say.
func (v value) parts() (string, error) {
	parts, err := v.content()
	if err != nil {
		return "", err
	}
	return joined(parts)
}

// joined returns the text of parts that are shown to the model.
func joined(parts []part) (string, error) {
	var text strings.Builder
	for _, p := range parts {
		s, err := p.show()
		if err != nil {
			return "", err
		}
		text.WriteString(s)
	}
	return text.String(), nil
}

// show returns the text of a part that is shown to the model.
func (p part) show() (string, error) {
	switch p.kind {
	case textPart, reasoningPart:
		return p.text, nil
	case markerPart:
		return p.shown(), nil
	case hiddenPart:
		p.hidden()
		return "", nil
	}
	o, err := p.v.object()
	if err != nil {
		return "", err
	}
	if content, ok := o.get("content"); ok && p.kind == resultPart {
		parts, err := content.toolContent()
		if err != nil {
			return "", err
		}
		return joined(parts)
	}
	p.text, _ = o.text("type")
	return p.shown(), nil
}

// reasoning returns what the fields beside the content tell of the model's thinking.
// Servers repeat it in several spellings: the one that says most counts.
func (o object) reasoning() (string, error) {
	best := ""
	for _, name := range []string{"reasoning_content", "reasoning", "thinking_blocks", "reasoning_details", "thinking", "reasoning_text"} {
		v, ok := o.get(name)
		if inner, has := o.child("provider_specific_fields"); has && !ok { // where LiteLLM puts some
			v, ok = inner.get(name)
		}
		if !ok {
			continue
		}
		text, err := v.reasoning()
		if err != nil {
			return "", err
		}
		best = v.file.fuller(best, text)
	}
	return best, nil
}

// reasoning returns the text of a field that tells of the model's thinking.
func (v value) reasoning() (string, error) {
	switch v.kind() {
	case '"', '[':
	case '{':
		o, err := v.object()
		if err != nil {
			return "", err
		}
		inner, ok := o.first(reasoningFields...)
		switch {
		case ok:
			v = inner
		case o.has("encrypted_content"):
			part{v: v}.hidden()
			return "", nil
		case len(o.keys) == 0 || slices.ContainsFunc(reasoningFields, func(name string) bool { return o.has(name) }):
			return "", nil
		default:
			return "", v.errorf("an object without a text of reasoning: want one of %s", strings.Join(reasoningFields, ", "))
		}
	default:
		return "", v.errorf("%s, want text, parts or an object with text", kindNames[v.kind()])
	}
	parts, err := v.content()
	if err != nil {
		return "", err
	}
	var said speech
	for _, p := range parts {
		switch p.kind {
		case hiddenPart:
			p.hidden()
		case textPart, reasoningPart:
			said.think(p.text)
		default:
			return "", refused{p.v.errorf("a part of reasoning that is no text cannot be told in tokens: leave out the run")}
		}
	}
	return string(said.reasoning), nil
}

// fuller returns the text of two spellings of reasoning that says more. One that the
// other does not hold is counted.
func (r *reading) fuller(a, b string) string {
	size := func(text string) int { return len(strings.Join(strings.Fields(text), "")) }
	if size(b) > size(a) {
		a, b = b, a
	}
	if !within(b, a) {
		r.note("reasoning in two fields that differ, the longer taken")
	}
	return a
}

// within reports whether one text holds another, white space aside.
func within(part, whole string) bool {
	return strings.Contains(strings.Join(strings.Fields(whole), ""), strings.Join(strings.Fields(part), ""))
}

// notSampled reports whether flags of a message say that it is not to be trained.
func (o object) notSampled() (bool, error) {
	for _, name := range []string{"weight", "loss", "loss_weight", "trainable", "train", "train_on_turn"} {
		v, ok := o.get(name)
		if !ok {
			continue
		}
		text := ""
		if v.kind() != '{' && v.kind() != '[' {
			text = strings.ToLower(strings.TrimSpace(v.scalar()))
		}
		switch text {
		case "false", "no":
			return true, nil
		case "true", "yes":
		case "":
			if v.kind() != '"' {
				return false, v.errorf("%s, want a number, true or false", kindNames[v.kind()])
			}
		default:
			switch n, err := strconv.ParseFloat(text, 64); {
			case err != nil || math.IsNaN(n):
				return false, v.errorf("%s, want a number, true or false", v.excerpt())
			case n == 0:
				return true, nil
			case n != 1:
				v.file.note("weights other than 0 and 1, taken as 1")
			}
		}
	}
	return false, nil
}
