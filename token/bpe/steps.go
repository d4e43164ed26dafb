package bpe

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// metaspace writes spaces as another character, U+2581 as a rule.
type metaspace struct {
	replacement string
	scheme      string // always, first or never: whether one is put before a text
}

func (m *metaspace) write(text string, first bool) string {
	text = strings.ReplaceAll(text, " ", m.replacement)
	if text != "" && !strings.HasPrefix(text, m.replacement) && (m.scheme == "always" || m.scheme == "first" && first) {
		text = m.replacement + text
	}
	return text
}

// parseMetaspace reads the pre-tokenizer or decoder of that name.
func parseMetaspace(field string, data json.RawMessage) (m metaspace, split bool, err error) {
	file := struct {
		Replacement    string  `json:"replacement"`
		PrependScheme  *string `json:"prepend_scheme"`
		AddPrefixSpace *bool   `json:"add_prefix_space"` // of old files
		Split          *bool   `json:"split"`
	}{Replacement: "▁"}
	if err := parseField(field, data, &file); err != nil {
		return m, false, err
	}
	m = metaspace{replacement: file.Replacement, scheme: "always"}
	if file.PrependScheme != nil {
		m.scheme = *file.PrependScheme
	} else if file.AddPrefixSpace != nil && !*file.AddPrefixSpace {
		m.scheme = "never"
	}
	if m.scheme != "always" && m.scheme != "first" && m.scheme != "never" {
		return m, false, unsupported(field+".prepend_scheme", m.scheme, "always, first or never")
	}
	if utf8.RuneCountInString(m.replacement) != 1 {
		return m, false, fmt.Errorf("%s.replacement: %q: want one character", field, m.replacement)
	}
	return m, file.Split == nil || *file.Split, nil
}

// parseStep reads the pre-tokenizers that cut at classes of characters.
func parseStep(kind, field string, data json.RawMessage) (step, error) {
	s := step{pattern: &pattern{}, behavior: isolated}
	switch kind {
	case "Digits":
		var digits struct {
			Individual bool `json:"individual_digits"`
		}
		s.pattern.class = isNumeric
		err := parseField(field, data, &digits)
		if !digits.Individual {
			s.behavior = contiguous
		}
		return s, err
	case "Punctuation":
		punctuation := struct {
			Behavior behavior `json:"behavior"`
		}{isolated}
		s.pattern.class = isPunctuation
		err := parseField(field, data, &punctuation)
		if s.behavior = punctuation.Behavior; err == nil {
			err = s.behavior.check(field)
		}
		return s, err
	case "WhitespaceSplit":
		s.pattern.class, s.behavior = unicode.IsSpace, removed
	case "Whitespace":
		s.pattern.words, s.behavior, s.invert = true, removed, true
	case "CharDelimiterSplit":
		var delimiter struct {
			Delimiter string `json:"delimiter"`
		}
		err := parseField(field, data, &delimiter)
		if err == nil && utf8.RuneCountInString(delimiter.Delimiter) != 1 {
			err = fmt.Errorf("%s.delimiter: %q: want one character", field, delimiter.Delimiter)
		}
		s.pattern.literal, s.behavior = delimiter.Delimiter, removed
		return s, err
	case "Metaspace":
		m, split, err := parseMetaspace(field, data)
		s.metaspace = &m
		s.pattern = nil
		if split {
			s.pattern, s.behavior = &pattern{literal: m.replacement}, mergedWithNext
		}
		return s, err
	default:
		return s, unsupported(field+".type", kind, "ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit, Metaspace or Sequence")
	}
	return s, nil
}

func (b behavior) check(field string) error {
	switch b {
	case removed, isolated, mergedWithPrevious, mergedWithNext, contiguous:
		return nil
	}
	return unsupported(field+".behavior", string(b), "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous")
}

// isNumeric is Rust's char::is_numeric.
func isNumeric(r rune) bool { return unicode.IsNumber(representative(r)) }

// isPunctuation is the reference's: ASCII's, and the categories of punctuation.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7f && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return unicode.IsPunct(r)
}

// wordSpans calls add for each match of \w+|[^\w\s]+.
func wordSpans(text string, add func(start, end int)) {
	const gap, word, mark = 0, 1, 2
	start, last := 0, gap
	for i, r := range text {
		class := mark
		if isWord(r) {
			class = word
		} else if unicode.IsSpace(r) {
			class = gap
		}
		if class != last {
			if last != gap {
				add(start, i)
			}
			start, last = i, class
		}
	}
	if last != gap {
		add(start, len(text))
	}
}
