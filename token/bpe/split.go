package bpe

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// pretokenizer cuts text into the pieces that merges never cross.
type pretokenizer struct {
	// scan does all the steps at once for the pipelines of the known families.
	scan  *scanner
	steps []step
	first bool // a step treats the beginning of a text in its own way
}

// step is one pre-tokenizer of the file.
type step struct {
	prefixSpace bool       // first put a space before a text that does not start with one
	metaspace   *metaspace // or write spaces as another character
	pattern     *pattern   // then cut, if there is a pattern
	behavior    behavior
	invert      bool // what the pattern does not match is the delimiter
}

// plain tells that it cuts at a pattern, keeps what the pattern finds, and does no more.
func (s *step) plain() bool {
	return s.pattern != nil && !s.prefixSpace && s.metaspace == nil && s.behavior == isolated && !s.invert
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

// split returns the pieces of text, first if it is the beginning of what is encoded.
// Regular expressions have to be done by end.
func (p *pretokenizer) split(text string, first bool, end deadline) ([]string, error) {
	pieces := []string{text}
	for _, s := range p.steps {
		var cut []string
		for i, piece := range pieces {
			begins := true
			var err error
			if cut, begins, err = s.split(cut, piece, first && i == 0, end); err != nil {
				return nil, err
			}
			first = first && (i > 0 || begins)
		}
		pieces = cut
	}
	return pieces, nil
}

// Regular expressions can take time exponential in the length of a text: nothing in a
// file's pattern keeps it from that. One match has matchTime, and is tried three times,
// for the library's clock is coarse and a busy machine may stop it; all those of a text
// have textTime and five microseconds a byte, some ten times what usual patterns take.
const (
	matchTime = time.Second
	tries     = 3
	textTime  = 10 * time.Second
	byteTime  = 5 * time.Microsecond
)

// maxPattern bounds the length of a regular expression, so that compiling it is quick.
const maxPattern = 4096

// deadline is when the regular expressions of a text have to be done.
type deadline time.Time

func newDeadline(text string) deadline {
	return deadline(time.Now().Add(textTime + time.Duration(len(text))*byteTime))
}

// split appends the pieces of text; begins tells that the first of them is its
// beginning.
func (s *step) split(pieces []string, text string, first bool, end deadline) (cut []string, begins bool, err error) {
	if s.metaspace != nil {
		text = s.metaspace.write(text, first)
	}
	if s.prefixSpace && !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	if s.pattern == nil {
		return append(pieces, text), true, nil
	}
	spans, err := s.pattern.spans(text, end)
	if err != nil {
		return nil, false, err
	}
	if s.invert {
		for i := range spans {
			spans[i].match = !spans[i].match
		}
	}
	for _, span := range s.behavior.apply(spans) {
		if span.start < span.end {
			pieces = append(pieces, text[span.start:span.end])
			begins = begins || span.start == 0
		}
	}
	return pieces, begins, nil
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

// pattern finds delimiters: a literal, characters of a class, the scanner of a known regular expression,
// or any regular expression.
type pattern struct {
	literal string
	class   func(rune) bool // every character of a class is a delimiter
	numbers bool            // the class is that of Digits
	words   bool            // every word, and every run of other characters than space
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
	if len(expression) > maxPattern {
		return nil, fmt.Errorf("a regular expression of %d bytes: want at most %d", len(expression), maxPattern)
	}
	re, err := regexp2.Compile(expression, regexp2.None)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", `\n`)) // it quotes the expression
	}
	re.MatchTimeout = matchTime
	return &pattern{regexp: re, folds: strings.Contains(expression, "(?i")}, nil
}

// spans returns the matches of the pattern in text and the stretches between them.
func (p *pattern) spans(text string, limit deadline) ([]span, error) {
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
	case p.words:
		wordSpans(text, add)
	case p.class != nil:
		for i, r := range text {
			if p.class(r) {
				add(i, i+utf8.RuneLen(r))
			}
		}
	case p.regexp != nil:
		if err := p.search(text, limit, add); err != nil {
			return nil, err
		}
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
	return spans, nil
}

// search calls add for each match of the regular expression. The library works on
// runes and with the Unicode version of the Go standard library, so that a newer
// character is shown to it as an older one of the same category.
func (p *pattern) search(text string, limit deadline, add func(start, end int)) error {
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
	find := func(after *regexp2.Match) (match *regexp2.Match, err error) {
		for range tries {
			if after == nil {
				match, err = p.regexp.FindRunesMatch(runes)
			} else {
				match, err = p.regexp.FindNextMatch(after)
			}
			if err == nil {
				return match, nil
			}
		}
		return nil, err
	}
	match, err := find(nil)
	for n := 0; match != nil; n++ {
		start := advance(match.Index)
		add(start, advance(match.Index+match.Length))
		if n%16 == 15 && time.Now().After(time.Time(limit)) {
			return p.tooSlow(len(text))
		}
		match, err = find(match)
	}
	if err != nil { // it fails only at its time limit; its error quotes the whole text
		return p.tooSlow(len(text))
	}
	return nil
}

func (p *pattern) tooSlow(size int) error {
	return fmt.Errorf("pre_tokenizer: the regular expression %.60q takes too long on a text of %d bytes: it backtracks", p.regexp.String(), size)
}
