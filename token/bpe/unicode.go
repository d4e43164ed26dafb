package bpe

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The classes of characters that the known patterns tell apart.
const (
	other   uint8 = iota
	letter        // \p{L}
	number        // \p{N}
	space         // \s other than newline
	newline       // \r and \n
)

// classTable is the class of every character below U+20000.
type classTable [0x20000]uint8

var classes = sync.OnceValue(func() *classTable {
	var t classTable
	for r := range rune(len(t)) {
		t[r] = classOf(r)
	}
	return &t
})

func (t *classTable) of(r rune) uint8 {
	if int(r) < len(t) {
		return t[r]
	}
	return classOf(r)
}

func classOf(r rune) uint8 {
	r = representative(r)
	switch {
	case r == '\r' || r == '\n':
		return newline
	case unicode.IsSpace(r):
		return space
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	}
	return other
}

// isWord reports whether r is a word character of the Rust regular expressions
// with which the reference looks at the neighbours of single-word tokens
// (Unicode Technical Standard 18, annex C).
func isWord(r rune) bool {
	r = representative(r)
	return unicode.IsLetter(r) || unicode.IsMark(r) ||
		unicode.In(r, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// representative returns r, or for a character new in Unicode 15.1 or 16, which
// the reference knows and the Go standard library (15.0) does not, an older one of
// the same category.
func representative(r rune) rune {
	if r < newer[0].first || r > newer[len(newer)-1].last {
		return r
	}
	low, high := 0, len(newer)
	for low < high {
		middle := (low + high) / 2
		if newer[middle].last < r {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if newer[low].first <= r {
		return newer[low].like
	}
	return r
}

// validUTF8 returns text with each malformed part replaced by one U+FFFD: the
// longest start of a character, or else one byte.
func validUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var valid strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && size == 1 {
			size = truncatedCharacter(text)
			valid.WriteRune(utf8.RuneError)
		} else {
			valid.WriteString(text[:size])
		}
		text = text[size:]
	}
	return valid.String()
}

// truncatedCharacter returns how many bytes of text, which does not start with a
// whole character, are the start of one; at least 1.
func truncatedCharacter(text string) int {
	// The second byte is narrower than 80..BF after some first ones, so that
	// no character is overlong, a surrogate or above U+10FFFF.
	low, high, length := byte(0x80), byte(0xBF), 0
	switch first := text[0]; {
	case 0xC2 <= first && first <= 0xDF:
		length = 2
	case 0xE0 <= first && first <= 0xEF:
		length = 3
	case 0xF0 <= first && first <= 0xF4:
		length = 4
	}
	switch text[0] {
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	n := 1
	for n < length && n < len(text) && low <= text[n] && text[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}
