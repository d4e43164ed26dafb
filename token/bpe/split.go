package bpe

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// pretokenizer cuts text into the pieces that merges never cross.
type pretokenizer struct {
	// scan does all the steps at once for the pipelines of the known families.
	scan  *scanner
	steps []step
}

// step is one pre-tokenizer of the file.
type step struct {
	prefixSpace bool     // first put a space before a text that does not start with one
	pattern     *pattern // then cut, if there is a pattern
	behavior    behavior
	invert      bool // what the pattern does not match is the delimiter
}

// behavior says what becomes of the delimiters that a pattern finds.
type behavior string

const (
	removed            behavior = "Removed"
	isolated           behavior = "Isolated"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
	contiguous         behavior = "Contiguous"
)

// split returns the pieces of text.
func (p *pretokenizer) split(text string) []string {
	pieces := []string{text}
	for _, s := range p.steps {
		var cut []string
		for _, piece := range pieces {
			cut = s.split(cut, piece)
		}
		pieces = cut
	}
	return pieces
}

// split appends the pieces of text.
func (s *step) split(pieces []string, text string) []string {
	if s.prefixSpace && !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	if s.pattern == nil {
		return append(pieces, text)
	}
	spans := s.pattern.spans(text)
	if s.invert {
		for i := range spans {
			spans[i].match = !spans[i].match
		}
	}
	for _, span := range s.behavior.apply(spans) {
		if span.start < span.end {
			pieces = append(pieces, text[span.start:span.end])
		}
	}
	return pieces
}

// span is a stretch of text that a pattern matched, or one between matches.
type span struct {
	start, end int
	match      bool
}

// apply joins or drops delimiters. Spans are adjacent and cover the text.
func (b behavior) apply(spans []span) []span {
	var kept []span
	for i, s := range spans {
		last := len(kept) - 1
		var join bool // with the span before
		switch b {
		case removed:
			if s.match {
				continue
			}
		case mergedWithPrevious:
			join = i > 0 && s.match && !spans[i-1].match
		case mergedWithNext:
			join = i > 0 && !s.match && spans[i-1].match
		case contiguous:
			join = i > 0 && s.match == spans[i-1].match
		}
		if join {
			kept[last].end = s.end
		} else {
			kept = append(kept, s)
		}
	}
	return kept
}

// pattern finds delimiters: a literal, the scanner of a known regular expression,
// or any regular expression.
type pattern struct {
	literal string
	scan    *scanner
	regexp  *regexp2.Regexp
	folds   bool // the regular expression ignores case in places
}

// compile returns the pattern of a regular expression.
func compile(expression string) (*pattern, error) {
	if scan := knownPattern(expression); scan != nil {
		return &pattern{scan: scan}, nil
	}
	return compileGeneral(expression)
}

// compileGeneral uses the library even where a scanner is known.
func compileGeneral(expression string) (*pattern, error) {
	re, err := regexp2.Compile(expression, regexp2.None)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", `\n`)) // it quotes the expression
	}
	return &pattern{regexp: re, folds: strings.Contains(expression, "(?i")}, nil
}

// spans returns the matches of the pattern in text and the stretches between them.
func (p *pattern) spans(text string) []span {
	var spans []span
	end := 0
	add := func(matchStart, matchEnd int) {
		if matchStart > end {
			spans = append(spans, span{end, matchStart, false})
		}
		spans = append(spans, span{matchStart, matchEnd, true})
		end = matchEnd
	}
	switch {
	case p.scan != nil:
		for end < len(text) {
			add(end, p.scan.next(text, end))
		}
	case p.regexp != nil:
		p.search(text, add)
	default:
		for {
			i := strings.Index(text[end:], p.literal)
			if i < 0 {
				break
			}
			add(end+i, end+i+len(p.literal))
		}
	}
	if end < len(text) {
		spans = append(spans, span{end, len(text), false})
	}
	return spans
}

// search calls add for each match of the regular expression. The library works on
// runes and with the Unicode version of the Go standard library, so that a newer
// character is shown to it as an older one of the same category.
func (p *pattern) search(text string, add func(start, end int)) {
	runes := make([]rune, 0, len(text))
	for _, r := range text {
		switch {
		case p.folds && r == 'ſ':
			r = 's' // the library knows no folding other than to lower case
		case p.folds && r == '\u212A':
			r = 'k'
		default:
			r = representative(r)
		}
		runes = append(runes, r)
	}
	seen, offset := 0, 0 // runes and bytes of text passed
	advance := func(runes int) int {
		for ; seen < runes; seen++ {
			_, size := utf8.DecodeRuneInString(text[offset:])
			offset += size
		}
		return offset
	}
	// The library fails only when a time limit is set, and none is.
	match, _ := p.regexp.FindRunesMatch(runes)
	for match != nil {
		start := advance(match.Index)
		add(start, advance(match.Index+match.Length))
		match, _ = p.regexp.FindNextMatch(match)
	}
}
