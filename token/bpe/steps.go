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
		s.pattern.class, s.pattern.numbers = isNumeric, true
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

// isPunctuation is the reference's: ASCII's, and the categories of punctuation in
// Unicode 8.
func isPunctuation(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r > ' ' && r < 0x7f && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	case r == 0x166D || r == 0x111C9: // no longer
		return true
	}
	return unicode.IsPunct(r) && !unicode.Is(laterPunctuation, r)
}

// laterPunctuation are the characters that Unicode 9 to 16 have added to it.
var laterPunctuation = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x61D, 0x61D, 1}, {0x9FD, 0x9FD, 1}, {0xA76, 0xA76, 1}, {0xC77, 0xC77, 1}, {0xC84, 0xC84, 1}, {0x1B4E, 0x1B4F, 1},
		{0x1B7D, 0x1B7F, 1}, {0x2E43, 0x2E4F, 1}, {0x2E52, 0x2E5D, 1},
	},
	R32: []unicode.Range32{
		{0x10D6E, 0x10D6E, 1}, {0x10EAD, 0x10EAD, 1}, {0x10F55, 0x10F59, 1}, {0x10F86, 0x10F89, 1}, {0x113D4, 0x113D5, 1},
		{0x113D7, 0x113D8, 1}, {0x1144B, 0x1144F, 1}, {0x1145A, 0x1145B, 1}, {0x1145D, 0x1145D, 1}, {0x11660, 0x1166C, 1},
		{0x116B9, 0x116B9, 1}, {0x1183B, 0x1183B, 1}, {0x11944, 0x11946, 1}, {0x119E2, 0x119E2, 1}, {0x11A3F, 0x11A46, 1},
		{0x11A9A, 0x11A9C, 1}, {0x11A9E, 0x11AA2, 1}, {0x11B00, 0x11B09, 1}, {0x11BE1, 0x11BE1, 1}, {0x11C41, 0x11C45, 1},
		{0x11C70, 0x11C71, 1}, {0x11EF7, 0x11EF8, 1}, {0x11F43, 0x11F4F, 1}, {0x11FFF, 0x11FFF, 1}, {0x12FF1, 0x12FF2, 1},
		{0x16D6D, 0x16D6F, 1}, {0x16E97, 0x16E9A, 1}, {0x16FE2, 0x16FE2, 1}, {0x1E5FF, 0x1E5FF, 1}, {0x1E95E, 0x1E95F, 1},
	},
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
