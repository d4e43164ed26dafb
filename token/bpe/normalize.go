package bpe

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer is one normalizer of the file.
type normalizer struct {
	kind  string // its type
	apply func(text string) (string, error)
	// cuts tells whether apply takes the first character of a text away. It is nil for
	// those that never do.
	cuts func(text string) (bool, error)
}

// maxGrowth bounds what normalizers may make of a text: this many times its length and
// a megabyte.
const maxGrowth = 64

// normalize applies all of them. Where the pre-tokenizer asks for it, cut tells that the
// first character of the text was taken away.
func (t *Tokenizer) normalize(text string) (normal string, cut bool, err error) {
	most := maxGrowth*len(text) + 1<<20
	for _, n := range t.normalizers {
		if t.pre.first && n.cuts != nil && !cut {
			if cut, err = n.cuts(text); err != nil {
				return "", false, err
			}
		}
		if text, err = n.apply(text); err != nil {
			return "", false, err
		}
		if len(text) > most {
			return "", false, fmt.Errorf("normalizer: it makes more than %d bytes of a text", most)
		}
	}
	return text, cut, nil
}

// checkFirst tells of normalizers behind which it is not known whether the first character
// of a text is still that of the text as it was: others may have made several of it.
func (t *Tokenizer) checkFirst() error {
	if !t.pre.first {
		return nil
	}
	for i, n := range t.normalizers {
		if n.cuts == nil {
			continue
		}
		for _, before := range t.normalizers[:i] {
			if before.kind != "Strip" {
				return fmt.Errorf("normalizer: %s after %s is not supported where a Metaspace has prepend_scheme first", n.kind, before.kind)
			}
		}
	}
	return nil
}

func parseNormalizer(field string, data json.RawMessage) ([]normalizer, error) {
	c, err := parseComponent(field, data)
	if err != nil {
		return nil, err
	}
	pure := func(f func(string) string) []normalizer {
		return []normalizer{{kind: c.Type, apply: func(text string) (string, error) { return f(text), nil }}}
	}
	switch c.Type {
	case "":
		return nil, nil
	case "NFC":
		return pure(func(text string) string { return normalForm(norm.NFC, text) }), nil
	case "NFKC":
		return pure(func(text string) string { return normalForm(norm.NFKC, text) }), nil
	case "Lowercase":
		return pure(lowercase), nil
	case "Strip":
		sides := struct {
			Left  bool `json:"strip_left"`
			Right bool `json:"strip_right"`
		}{true, true}
		err := parseField(field, data, &sides)
		left := func(text string) string { return strings.TrimLeftFunc(text, unicode.IsSpace) }
		strip := pure(func(text string) string {
			if sides.Left {
				text = left(text)
			}
			if sides.Right {
				text = strings.TrimRightFunc(text, unicode.IsSpace)
			}
			return text
		})
		strip[0].cuts = func(text string) (bool, error) { return sides.Left && left(text) != text, nil }
		return strip, err
	case "Prepend":
		var prepend struct {
			Prepend string `json:"prepend"`
		}
		err := parseField(field, data, &prepend)
		return pure(func(text string) string {
			if text == "" {
				return ""
			}
			return prepend.Prepend + text
		}), err
	case "Replace":
		r, err := parseReplace(field, data)
		if err != nil {
			return nil, err
		}
		replace := normalizer{kind: c.Type, apply: r.replace}
		if r.content == "" || utf8.RuneCountInString(r.pattern.literal) != 1 {
			replace.cuts = r.cuts
		}
		return []normalizer{replace}, nil
	case "Sequence":
		var all []normalizer
		for i, part := range c.Normalizers {
			some, err := parseNormalizer(fmt.Sprintf("%s.normalizers[%d]", field, i), part)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	}
	return nil, unsupported(field+".type", c.Type, "NFC, NFKC, Lowercase, Strip, Prepend, Replace, Sequence or null")
}

// lowercase maps every character on its own, as the reference does: a final sigma is
// like any other, and only İ becomes two characters.
func lowercase(text string) string {
	if !strings.ContainsRune(text, 'İ') {
		return strings.Map(unicode.ToLower, text)
	}
	var lower strings.Builder
	for _, r := range text {
		if r == 'İ' {
			lower.WriteString("i\u0307")
		} else {
			lower.WriteRune(unicode.ToLower(r))
		}
	}
	return lower.String()
}

// replacement replaces what a pattern matches.
type replacement struct {
	pattern *pattern
	content string
}

func parseReplace(field string, data json.RawMessage) (replacement, error) {
	var file struct {
		Pattern filePattern `json:"pattern"`
		Content string      `json:"content"`
	}
	if err := parseField(field, data, &file); err != nil {
		return replacement{}, err
	}
	p, err := file.Pattern.parse(field)
	return replacement{p, file.Content}, err
}

func (r replacement) replace(text string) (string, error) {
	if r.pattern.literal != "" {
		if n := strings.Count(text, r.pattern.literal); n*len(r.content) > maxGrowth*len(text)+1<<20 {
			return "", fmt.Errorf("normalizer: Replace: it makes more than %d times as much of a text", maxGrowth)
		}
		return strings.ReplaceAll(text, r.pattern.literal, r.content), nil
	}
	spans, err := r.pattern.spans(text, newDeadline(text))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, s := range spans {
		if s.match {
			out.WriteString(r.content)
		} else {
			out.WriteString(text[s.start:s.end])
		}
		if out.Len() > maxGrowth*len(text)+1<<20 {
			return "", fmt.Errorf("normalizer: Replace: it makes more than %d times as much of a text", maxGrowth)
		}
	}
	return out.String(), nil
}

// cuts tells whether it takes the first character of a text away: what it puts in the place
// of several counts as the last of them.
func (r replacement) cuts(text string) (bool, error) {
	spans, err := r.pattern.spans(text, newDeadline(text))
	if err != nil || len(spans) == 0 || !spans[0].match {
		return false, err
	}
	n := utf8.RuneCountInString(text[:spans[0].end])
	return n > 1 || n == 1 && r.content == "", nil
}
