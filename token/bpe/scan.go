package bpe

import "unicode/utf8"

// The patterns that scanner knows, by their exact text.
const (
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// scanner is one of the known patterns written out by hand. Every character is
// matched by some alternative, so that matches are adjacent.
type scanner struct {
	gpt2   bool
	digits int // how many number characters a piece holds; of GPT-2's 0, any number, or 1
	class  *classTable
}

// knownPattern returns the scanner of a regular expression, nil if there is none.
func knownPattern(expression string) *scanner {
	switch expression {
	case patternQwen2:
		return &scanner{digits: 1, class: classes()}
	case patternLlama3:
		return &scanner{digits: 3, class: classes()}
	case patternGPT2:
		return &scanner{gpt2: true, class: classes()}
	}
	return nil
}

// withDigits returns the scanner of GPT-2's pattern behind a step that makes every number
// character a piece, which SmolLM2 and StarCoder have.
func (s *scanner) withDigits() *scanner { return &scanner{gpt2: true, digits: 1, class: s.class} }

// apart tells that a number character is a piece and no pattern looks beyond it.
func (s *scanner) apart(class uint8) bool { return s.gpt2 && s.digits == 1 && class == number }

// next returns the end of the match that starts at text[start:], in which the
// alternatives of the pattern are tried in order.
func (s *scanner) next(text string, start int) int {
	class, size := s.at(text, start)
	first := text[start]

	if first == '\'' {
		if n := contraction(text[start+1:], !s.gpt2); n > 0 { // 's|'t|'re|'ve|'m|'ll|'d
			return start + 1 + n
		}
	}

	if s.gpt2 {
		if s.apart(class) {
			return start + size
		}
		// ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+, each with one space before
		if first == ' ' && start+1 < len(text) {
			if following, n := s.at(text, start+1); following != space && following != newline && !s.apart(following) {
				return s.run(text, start+1+n, following)
			}
		}
		if class != space && class != newline {
			return s.run(text, start+size, class)
		}
		end := s.spaces(text, start, false)
		if s.digits == 1 && end < len(text) { // a last space does not go with a number
			if class, size := s.at(text, end); (class == space || class == newline) && end+size < len(text) {
				if class, _ := s.at(text, end+size); class == number {
					return end + size
				}
			}
		}
		return end
	}

	switch class {
	case letter: // \p{L}+
		return s.run(text, start+size, letter)
	case number: // \p{N}{1,digits}
		end := start + size
		for range s.digits - 1 {
			if end == len(text) {
				break
			}
			class, size := s.at(text, end)
			if class != number {
				break
			}
			end += size
		}
		return end
	case newline:
		return s.spaces(text, start, true)
	}
	// [^\r\n\p{L}\p{N}]\p{L}+
	following, n := other, 0
	if start+size < len(text) {
		following, n = s.at(text, start+size)
		if following == letter {
			return s.run(text, start+size+n, letter)
		}
	}
	// ?[^\s\p{L}\p{N}]+[\r\n]*
	end := start + size
	switch {
	case class == other:
	case first == ' ' && n > 0 && following == other:
		end += n
	default:
		return s.spaces(text, start, true)
	}
	end = s.run(text, end, other)
	for end < len(text) && (text[end] == '\n' || text[end] == '\r') {
		end++
	}
	return end
}

// run returns the end of the characters of one class from text[i:] on.
func (s *scanner) run(text string, i int, class uint8) int {
	for i < len(text) {
		if c := text[i]; c < utf8.RuneSelf {
			if s.class[c] != class {
				break
			}
			i++
			continue
		}
		next, size := s.at(text, i)
		if next != class {
			break
		}
		i += size
	}
	return i
}

// spaces returns the end of the match in the run of white space that starts at
// text[start:]: \s*[\r\n]+ (if newlines), \s+(?!\S) or \s+.
func (s *scanner) spaces(text string, start int, newlines bool) int {
	i := start
	afterNewline, lastStart := 0, start
	for i < len(text) {
		class, size := s.at(text, i)
		if class != space && class != newline {
			break
		}
		lastStart = i
		i += size
		if class == newline {
			afterNewline = i
		}
	}
	switch {
	case newlines && afterNewline > 0:
		return afterNewline
	case i == len(text) || lastStart == start:
		return i
	default:
		return lastStart // the last space goes with what follows
	}
}

// at returns the class of the character at text[i:] and its length in bytes.
func (s *scanner) at(text string, i int) (class uint8, size int) {
	if c := text[i]; c < utf8.RuneSelf {
		return s.class[c], 1
	}
	r, size := utf8.DecodeRuneInString(text[i:])
	return s.class.of(r), size
}

// contraction returns the length of s, t, re, ve, m, ll or d at the start of
// text, 0 if it starts with none. With fold, upper case counts, and so does the
// long s.
func contraction(text string, fold bool) int {
	if text == "" {
		return 0
	}
	lower := func(c byte) byte {
		if fold && 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}
	switch first := lower(text[0]); first {
	case 's', 't', 'm', 'd':
		return 1
	case 'r', 'v', 'l':
		second := byte('e')
		if first == 'l' {
			second = 'l'
		}
		if len(text) > 1 && lower(text[1]) == second {
			return 2
		}
	case "ſ"[0]:
		if fold && len(text) > 1 && text[1] == "ſ"[1] {
			return 2
		}
	}
	return 0
}
