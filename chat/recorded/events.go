package recorded

import (
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// What people are told about a run, one line a kind.
const (
	shownImages = "images shown as [image]"
	shownFiles  = "files shown as [file]"
	compactions = "condensations that the recording's own program made were passed over: the log is taken whole"
)

// eventText returns the text of a content on the side of the user or environment: a
// string, or parts. Images, files and other parts that are no text are shown as a marker
// and counted.
func (r *Run) eventText(v value) (string, error) {
	switch v.kind() {
	case '"':
		return v.text()
	case 'n':
		return "", nil
	case '{':
		return r.partText(v)
	}
	items, err := v.array()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, item := range items {
		part, err := r.partText(item)
		if err != nil {
			return "", err
		}
		text.WriteString(part)
	}
	return text.String(), nil
}

// partText returns the text of one part of a content.
func (r *Run) partText(v value) (string, error) {
	if v.kind() == '"' {
		return v.text()
	}
	o, err := v.object()
	if err != nil {
		return "", err
	}
	kind, err := o.text("type")
	if err != nil {
		return "", err
	}
	switch kind {
	case "", "text", "input_text", "output_text":
		return o.needText("text")
	case "image", "image_url", "input_image":
		n := 1
		if urls, ok := o.get("image_urls"); ok { // OpenHands: several in one part
			list, err := urls.array()
			if err != nil {
				return "", err
			}
			n = len(list)
		}
		return r.images(n), nil
	case "file", "input_file", "document":
		r.notice(shownFiles)
		return "[file]", nil
	}
	kind = chat.Excerpt(kind)
	r.notice("parts of type " + kind + " shown as [" + kind + "]")
	return "[" + kind + "]", nil
}

// images counts n images and returns their markers.
func (r *Run) images(n int) string {
	for range n {
		r.notice(shownImages)
	}
	return strings.Repeat("[image]", n)
}

// saidText returns the text of a content that a model wrote: a string, or parts of
// text. Anything else cannot be what was sampled.
func saidText(v value) (string, error) {
	if v.kind() != '[' {
		return v.text()
	}
	items, err := v.array()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, item := range items {
		if item.kind() == '"' {
			s, err := item.text()
			if err != nil {
				return "", err
			}
			text.WriteString(s)
			continue
		}
		o, err := item.object()
		if err != nil {
			return "", err
		}
		kind, err := o.text("type")
		if err != nil {
			return "", err
		}
		if kind != "" && kind != "text" && kind != "output_text" {
			return "", item.errorf("a part of type %q in what the model said: want text", chat.Excerpt(kind))
		}
		s, err := o.needText("text")
		if err != nil {
			return "", err
		}
		text.WriteString(s)
	}
	return text.String(), nil
}

// thinking returns the reasoning that stands beside a text in one of the ways that
// providers have: a string, Anthropic thinking blocks, or a Responses item. Of several
// the one that says most counts.
func thinking(o object) (string, error) {
	best := ""
	for _, key := range []string{"reasoning_content", "reasoning"} {
		v, ok := o.get(key)
		if !ok {
			continue
		}
		text, err := v.reasoning()
		if err != nil {
			return "", err
		}
		best = o.file.fuller(best, text)
	}
	var blocks []value
	if v, ok := o.get("thinking_blocks"); ok {
		var err error
		if blocks, err = v.array(); err != nil {
			return "", err
		}
	}
	if v, ok := o.get("responses_reasoning_item"); ok {
		item, err := v.object()
		if err != nil {
			return "", err
		}
		for _, key := range []string{"content", "summary"} {
			if list, ok := item.get(key); ok && len(blocks) == 0 {
				if blocks, err = list.array(); err != nil {
					return "", err
				}
			}
		}
	}
	var texts []string
	for _, block := range blocks {
		if block.kind() == '"' { // the SDK of OpenHands keeps the texts alone
			text, _ := block.text()
			texts = append(texts, text)
			continue
		}
		b, err := block.object()
		if err != nil {
			return "", err
		}
		for _, key := range []string{"thinking", "text"} {
			if text, err := b.text(key); err != nil {
				return "", err
			} else if text != "" {
				texts = append(texts, text)
			}
		}
	}
	return o.file.fuller(best, strings.Join(texts, "\n")), nil
}

// arguments writes the arguments of a call. Those given as a string stay byte for
// byte; an object is written in the one layout of chat.CanonicalJSON.
func arguments(v value) (string, error) {
	if v.kind() == 'n' {
		return "{}", nil
	}
	return v.scalar(), nil
}

// eventCalls reads a list of calls, with their arguments in the way of arguments.
func eventCalls(v value) ([]chat.ToolCall, error) {
	items, err := v.array()
	if err != nil {
		return nil, err
	}
	var calls []chat.ToolCall
	for _, item := range items {
		c, err := eventCall(item)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

func eventCall(v value) (chat.ToolCall, error) {
	c, err := call(v)
	if err != nil {
		return c, err
	}
	o, err := v.object()
	if err != nil {
		return c, err
	}
	if inner, ok := o.get("function"); ok && inner.kind() == '{' {
		if o, err = inner.object(); err != nil {
			return c, err
		}
	}
	for _, key := range []string{"arguments", "args", "input"} {
		if given, ok := o.get(key); ok {
			c.Arguments, err = arguments(given)
			break
		}
	}
	return c, err
}

// outcome sets the score of a run that its form keeps further inside: under one of
// the fields of a path, "" for the object itself.
func (r *Run) outcome(o object, paths ...string) error {
	for _, path := range paths {
		at := o
		for _, key := range strings.FieldsFunc(path, func(c rune) bool { return c == '.' }) {
			inner, ok := at.get(key)
			if !ok || inner.kind() != '{' {
				at = object{}
				break
			}
			var err error
			if at, err = inner.object(); err != nil {
				return err
			}
		}
		for _, key := range []string{"score", "reward", "resolved", "success"} {
			v, ok := at.get(key)
			if r.HasScore || !ok || v.kind() == '"' || v.kind() == '{' || v.kind() == '[' {
				continue
			}
			score, err := v.number()
			if err != nil {
				return err
			}
			r.Score, r.HasScore = score, true
		}
	}
	return nil
}
