package template

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// rewrite prepares the source of a template for the engine.
//
//   - White space is handled here as transformers has it (trim_blocks, lstrip_blocks,
//     and the - and + of tags): text reaches the engine as string literals only.
//   - Every loop body and both ends of every macro call back, so that rendering
//     always ends: the engine has no limits of its own.
//   - Printed expressions and tojson go through functions that write values as
//     Python does.
func rewrite(source string) (string, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	w := rewriter{rest: strings.TrimSuffix(source, "\n"), lineStart: true}
	for w.rest != "" {
		if err := w.next(); err != nil {
			line := 1 + strings.Count(source[:len(source)-len(w.rest)], "\n")
			return "", fmt.Errorf("line %d: %w", min(line, 1+strings.Count(source, "\n")), err)
		}
	}
	return w.out.String(), nil
}

type rewriter struct {
	out  strings.Builder
	rest string
	// strip is set by a tag that takes the white space after it away.
	strip bool
	// lineStart tells that the text which follows begins a line.
	lineStart bool
}

// tag is {% ... %}, {{ ... }} or {# ... #} taken apart.
type tag struct {
	kind        byte // % { #
	inner       string
	left, right byte // - + or 0
	length      int
}

// next rewrites the text up to the next tag, and the tag.
func (w *rewriter) next() error {
	at, t, err := findTag(w.rest)
	if err != nil {
		w.rest = w.rest[at:]
		return err
	}
	text := w.rest[:at]
	if w.strip {
		text = strings.TrimLeft(text, " \t\n\v\f")
		w.strip = false
	}
	switch {
	case t.length == 0: // no more tags
	case t.left == '-':
		text = strings.TrimRight(text, " \t\n\v\f")
	case t.kind != '{' && t.left != '+':
		text = w.stripLine(text)
	}
	w.text(text)
	w.rest = w.rest[at+t.length:]
	w.lineStart = false
	if t.length == 0 {
		return nil
	}
	if t.kind == '%' && firstWord(t.inner) == "raw" {
		return w.raw(t)
	}
	w.after(t)
	w.tag(t)
	return nil
}

// stripLine takes the white space between the start of the line and a tag away.
func (w *rewriter) stripLine(text string) string {
	start := strings.LastIndexByte(text, '\n') + 1
	if (start > 0 || w.lineStart) && strings.Trim(text[start:], " \t\v\f") == "" {
		return text[:start]
	}
	return text
}

// after notes what a tag does to the white space behind it.
func (w *rewriter) after(t tag) {
	switch {
	case t.right == '-':
		w.strip = true
	case t.kind != '{' && t.right != '+' && strings.HasPrefix(w.rest, "\n"):
		w.rest = w.rest[1:]
		w.lineStart = true
	}
}

// text writes literal text.
func (w *rewriter) text(text string) {
	if text != "" {
		w.out.WriteString(`{{ "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `" }}`)
	}
}

// raw writes the text of {% raw %} ... {% endraw %}.
func (w *rewriter) raw(open tag) error {
	rest := w.rest
	for at := 0; ; {
		n, t, err := findTag(rest[at:])
		if err != nil || t.length == 0 {
			return errors.New("{% raw %} without {% endraw %}")
		}
		if t.kind != '%' || firstWord(t.inner) != "endraw" {
			at += n + 2
			continue
		}
		w.after(open)
		skipped := len(rest) - len(w.rest)
		text := rest[skipped : at+n]
		if w.strip {
			text = strings.TrimLeft(text, " \t\n\v\f")
			w.strip = false
		}
		if t.left == '-' {
			text = strings.TrimRight(text, " \t\n\v\f")
		} else if t.left != '+' {
			text = w.stripLine(text)
		}
		w.text(text)
		w.rest = rest[at+n+t.length:]
		w.lineStart = false
		w.after(t)
		return nil
	}
}

// tag writes a tag.
func (w *rewriter) tag(t tag) {
	inner := apart(toJSON.ReplaceAllString(t.inner, "${1}"+filterToJSON))
	switch t.kind {
	case '{':
		w.out.WriteString("{{ " + funcPrint + "(" + inner + ") }}")
	case '%':
		word := firstWord(t.inner)
		if word == "endmacro" {
			w.out.WriteString("{% set _guard = " + funcLeave + "() %}")
		}
		w.out.WriteString("{% " + inner + " %}")
		switch word {
		case "for":
			w.out.WriteString("{% set _guard = " + funcStep + "() %}")
		case "macro":
			w.out.WriteString("{% set _guard = " + funcEnter + "() %}")
		}
	}
}

// apart separates neighbouring closing braces outside of strings: the engine would
// take them for the end of the tag.
func apart(inner string) string {
	var out strings.Builder
	var quote byte
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		switch {
		case quote != 0 && c == '\\' && i+1 < len(inner):
			out.WriteByte(c)
			i++
			c = inner[i]
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && c == '}' && i > 0 && inner[i-1] == '}':
			out.WriteByte(' ')
		}
		out.WriteByte(c)
	}
	return out.String()
}

// toJSON finds uses of the filter tojson.
var toJSON = regexp.MustCompile(`(\|\s*)tojson\b`)

// findTag returns the place of the first tag of a text and the tag; its length is
// 0 if there is none.
func findTag(text string) (at int, t tag, err error) {
	for at = 0; ; at++ {
		n := strings.IndexByte(text[at:], '{')
		if n < 0 || at+n+1 >= len(text) {
			return len(text), tag{}, nil
		}
		at += n
		switch kind := text[at+1]; kind {
		case '%', '{', '#':
			t, err = readTag(text[at:], kind)
			return at, t, err
		}
	}
}

// readTag reads the tag that a text begins with. Marks in strings do not end it.
func readTag(text string, kind byte) (tag, error) {
	mark := map[byte]string{'%': "%}", '{': "}}", '#': "#}"}[kind]
	end := -1
	if kind == '#' {
		if n := strings.Index(text[2:], mark); n >= 0 {
			end = 2 + n
		}
	} else {
		var quote byte
		depth := 0 // of braces: {{ {"a": {}} }}
		for i := 2; i < len(text) && end < 0; i++ {
			switch c := text[i]; {
			case quote != 0:
				if c == '\\' {
					i++
				} else if c == quote {
					quote = 0
				}
			case c == '\'' || c == '"':
				quote = c
			case strings.HasPrefix(text[i:], mark) && depth == 0:
				end = i
			case c == '{':
				depth++
			case c == '}':
				depth--
			}
		}
	}
	if end < 0 {
		return tag{}, fmt.Errorf("the tag %.20q is not closed", text)
	}
	t := tag{kind: kind, inner: text[2:end], length: end + len(mark)}
	if n := len(t.inner); n > 0 && (t.inner[0] == '-' || t.inner[0] == '+') {
		t.left, t.inner = t.inner[0], t.inner[1:]
	}
	if n := len(t.inner); n > 0 && (t.inner[n-1] == '-' || t.inner[n-1] == '+') {
		t.right, t.inner = t.inner[n-1], t.inner[:n-1]
	}
	return t, nil
}

// firstWord returns the name of a block tag.
func firstWord(inner string) string {
	inner = strings.TrimSpace(inner)
	end := strings.IndexFunc(inner, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' })
	if end < 0 {
		return inner
	}
	return inner[:end]
}
