package template

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	maxSource = 1 << 20 // bytes of a template
	maxBlocks = 100     // blocks inside each other
)

// rewrite prepares the source of a template for the engine.
//
//   - White space is handled here as transformers has it (trim_blocks, lstrip_blocks,
//     and the - and + of tags): text reaches the engine as string literals only.
//   - The engine has no limits of its own. Every tag, every operation and both ends of
//     every macro call functions of guard, which count time and memory before they
//     spend them and write values as Python does (expression.go).
//   - Blocks that the engine does not know, or takes for something else, are written
//     with those that it knows.
func rewrite(source string) (string, error) {
	if len(source) > maxSource {
		return "", fmt.Errorf("line 1: %d bytes: want at most %d", len(source), maxSource)
	}
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	w := rewriter{rest: source, lineStart: true}
	for w.rest != "" {
		if err := w.next(); err != nil {
			return "", fmt.Errorf("line %d: %w", 1+strings.Count(source[:len(source)-len(w.rest)], "\n"), err)
		}
	}
	if n := len(w.blocks); n > 0 {
		open := w.blocks[n-1]
		return "", fmt.Errorf("line %d: {%% %s %%} is not closed", 1+strings.Count(source[:len(source)-open.rest], "\n"), open.word)
	}
	return w.out.String(), nil
}

// block is an open block.
type block struct {
	word  string
	rest  int                    // bytes of the source behind its tag
	close func() (string, error) // writes its end
}

type rewriter struct {
	out  strings.Builder
	rest string
	// strip is set by a tag that takes the white space after it away.
	strip bool
	// lineStart tells that the text which follows begins a line.
	lineStart bool
	blocks    []block
	captured  int // texts of blocks kept in variables so far
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
	begin := w.rest[at:]
	w.rest = begin[t.length:]
	w.lineStart = false
	switch {
	case t.length == 0:
		return nil
	case t.kind == '%' && firstWord(t.inner) == "raw":
		err = w.raw(t)
	default:
		w.after(t)
		err = w.tag(t)
	}
	if err != nil {
		w.rest = begin // the error is of this line
	}
	return err
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
		w.out.WriteString("{{ " + funcText + "(" + quoted(text).text + ") }}")
	}
}

var endRaw = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*([-+]?)%\}`)

// raw writes the text of {% raw %} ... {% endraw %}.
func (w *rewriter) raw(open tag) error {
	w.after(open)
	at := endRaw.FindStringSubmatchIndex(w.rest)
	if at == nil {
		return errors.New("{% raw %} without {% endraw %}")
	}
	text := w.rest[:at[0]]
	if w.strip {
		text = strings.TrimLeft(text, " \t\n\v\f")
		w.strip = false
	}
	t := tag{kind: '%'}
	if at[2] < at[3] {
		t.left = w.rest[at[2]]
	}
	if at[4] < at[5] {
		t.right = w.rest[at[4]]
	}
	if t.left == '-' {
		text = strings.TrimRight(text, " \t\n\v\f")
	} else if t.left != '+' {
		text = w.stripLine(text)
	}
	w.text(text)
	w.rest = w.rest[at[1]:]
	w.lineStart = false
	w.after(t)
	return nil
}

// statement writes a tag. The engine takes the newline after it away; without any text
// between tags it would look for the next text through all of them.
func (w *rewriter) statement(text string) { w.out.WriteString("{% " + text + " %}\n") }

// tag writes a tag. Every tag counts its length when it is executed, which bounds what
// expressions do that call no function of guard.
func (w *rewriter) tag(t tag) error {
	if t.kind == '#' {
		return nil
	}
	p, err := newParser(t.inner)
	if err != nil {
		return err
	}
	size := literal(strconv.Itoa(len(t.inner)))
	whole := func(function string, read func() (code, error)) (string, error) {
		value, err := read()
		if err == nil {
			err = p.end()
		}
		if err != nil {
			return "", err
		}
		value, err = call(function, size, value)
		return value.text, err
	}
	if t.kind == '{' {
		value, err := whole(funcPrint, p.tuple)
		w.out.WriteString("{{ " + value + " }}")
		return err
	}
	word := p.peek().text
	p.at++
	open := func(close func() (string, error)) error {
		if len(w.blocks) == maxBlocks {
			return fmt.Errorf("more than %d blocks are inside each other", maxBlocks)
		}
		w.blocks = append(w.blocks, block{word, len(w.rest), close})
		return nil
	}
	ends := func(text string) func() (string, error) { return func() (string, error) { return text, nil } }
	switch word {
	case "if":
		value, err := whole(funcTag, p.tuple)
		w.statement("if " + value)
		return first(err, open(ends("{% endif %}\n")))
	case "elif":
		value, err := whole(funcTag, p.tuple)
		w.statement("elif " + value)
		return first(err, w.inside("elif", "if"))
	case "else":
		w.statement("else")
		return first(p.end(), w.inside("else", "if", "for"))
	case "for":
		if err := w.loop(p, size); err != nil {
			return err
		}
		return open(ends("{% endfor %}\n"))
	case "break", "continue":
		w.statement(word)
		for i := len(w.blocks) - 1; ; i-- {
			if i < 0 || w.blocks[i].word == "macro" || w.blocks[i].word == "call" {
				return fmt.Errorf("{%% %s %%} outside of a loop", word)
			}
			if w.blocks[i].word == "for" {
				return p.end()
			}
		}
	case "set":
		return w.set(p, whole, open)
	case "macro":
		if err := w.macro(p, size); err != nil {
			return err
		}
		return open(ends("{% set __ = " + funcLeave + "() %}\n{% endmacro %}\n"))
	case "call":
		if err := w.callBlock(p, size); err != nil {
			return err
		}
		return open(ends("{% set __ = " + funcLeave + "() %}\n{% endcall %}\n"))
	case "filter":
		name := w.capture()
		chain := code{text: name, height: 1}
		if chain, err = p.filter(chain); err == nil {
			chain, err = p.filters(chain)
		}
		if err == nil {
			err = p.end()
		}
		if err != nil {
			return err
		}
		return open(ends("{% endset %}\n{{ " + funcPrint + "(" + size.text + ", " + chain.text + ") }}"))
	case "generation":
		return first(p.end(), open(ends("")))
	}
	if opened, ok := strings.CutPrefix(word, "end"); ok && len(w.blocks) > 0 && w.blocks[len(w.blocks)-1].word == opened {
		text, err := w.blocks[len(w.blocks)-1].close()
		w.blocks = w.blocks[:len(w.blocks)-1]
		w.out.WriteString(text)
		return err
	}
	return fmt.Errorf("unknown statement %.30q, or one out of place", word)
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// inside tells whether the innermost block is one of words.
func (w *rewriter) inside(word string, words ...string) error {
	if n := len(w.blocks); n == 0 || !slices.Contains(words, w.blocks[n-1].word) {
		return fmt.Errorf("{%% %s %%} without {%% %s %%}", word, words[0])
	}
	return nil
}

// capture begins a block whose text is kept in a variable, and returns its name.
func (w *rewriter) capture() string {
	w.captured++
	name := "__text" + strconv.Itoa(w.captured)
	w.statement("set " + name)
	return name
}

// loop writes {% for ... %}.
func (w *rewriter) loop(p *parser, size code) error {
	names, err := p.names(0)
	if err == nil && len(names) > 2 {
		err = errors.New("a loop over more than two names is not supported")
	}
	if err == nil {
		err = p.want("in")
	}
	if err != nil {
		return err
	}
	items, err := p.or() // a condition would take the filter's if
	if err != nil {
		return err
	}
	if items, err = call(funcItems, size, items); err != nil {
		return err
	}
	text := "for " + strings.Join(names, ", ") + " in " + items.text
	if p.take("if") {
		if len(names) > 1 {
			return errors.New("a filter of a loop over two names is not supported: use {% if %} inside it")
		}
		filter, err := p.condition()
		if err == nil {
			filter, err = call(funcStep, size, filter)
		}
		if err != nil {
			return err
		}
		text += " if " + filter.text
	}
	if p.take("recursive") {
		return errors.New("a recursive loop is not supported: use a macro")
	}
	w.statement(text)
	w.statement("set __ = " + funcStep + "(" + size.text + ", none)")
	return p.end()
}

// names reads names with commas between them: of a loop, or up to a closing parenthesis.
func (p *parser) names(closing byte) ([]string, error) {
	var names []string
	parenthesis := closing == 0 && p.take("(")
	for closing == 0 || p.peek().text != string(closing) {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		names = append(names, name)
		if !p.take(",") {
			break
		}
	}
	if parenthesis {
		return names, p.want(")")
	}
	return names, nil
}

// set writes {% set name = value %}, or begins the block {% set name %}.
func (w *rewriter) set(p *parser, whole func(string, func() (code, error)) (string, error), open func(func() (string, error)) error) error {
	target, err := p.name()
	if err == nil && p.take(".") {
		field := ""
		field, err = p.name()
		target += "." + field
	}
	if err != nil {
		return err
	}
	if p.take("=") {
		value, err := whole(funcTag, p.tuple)
		w.statement("set " + target + " = " + value)
		return err
	}
	if p.peek().text == "," {
		return errors.New("setting several names at once is not supported")
	}
	name := w.capture()
	value, err := whole(funcTag, func() (code, error) { return p.filters(literal(name)) })
	if err != nil {
		return err
	}
	return open(func() (string, error) {
		return "{% endset %}\n{% set " + target + " = " + value + " %}\n", nil
	})
}

// macro writes {% macro name(parameters) %}. The engine cuts parameters at every comma,
// so that defaults are set inside.
func (w *rewriter) macro(p *parser, size code) error {
	name, err := p.name()
	if err == nil {
		err = p.want("(")
	}
	if err != nil {
		return err
	}
	var names, defaults []string
	_, err = p.list(")", func() ([]code, error) {
		parameter, err := p.name()
		if err != nil {
			return nil, err
		}
		names = append(names, parameter)
		if p.take("=") {
			value, err := p.condition()
			if err != nil {
				return nil, err
			}
			defaults = append(defaults, "if "+parameter+" is undefined", "set "+parameter+" = "+value.text, "endif")
		}
		return nil, nil
	})
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return err
	}
	w.statement("macro " + name + "(" + strings.Join(names, ", ") + ")")
	w.statement("set __ = " + funcEnter + "(" + size.text + ", none)")
	for _, text := range defaults {
		w.statement(text)
	}
	return nil
}

// callBlock writes {% call(names) macro(arguments) %}.
func (w *rewriter) callBlock(p *parser, size code) error {
	var names []string
	var err error
	if p.take("(") {
		if names, err = p.names(')'); err == nil {
			err = p.want(")")
		}
		if err != nil {
			return err
		}
	}
	macro, err := p.condition()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(macro.text, funcCall+"(") && !strings.HasPrefix(macro.text, funcMethod+"(") {
		return errors.New("{% call %}: want the call of a macro")
	}
	w.statement("call(" + strings.Join(names, ", ") + ") " + macro.text)
	w.statement("set __ = " + funcEnter + "(" + size.text + ", none)")
	return nil
}

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
