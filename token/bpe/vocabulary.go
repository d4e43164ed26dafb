package bpe

import (
	"fmt"
	"unicode/utf8"
)

// byteOf and runeOf map between bytes and the characters that spell them in a
// byte-level vocabulary: a printable Latin-1 byte is itself, the others are
// counted from U+0100 on (bytes_to_unicode of GPT-2).
var byteOf, runeOf = alphabet()

func alphabet() (map[rune]byte, [256]rune) {
	bytes := make(map[rune]byte, 256)
	var runes [256]rune
	shifted := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if r < '!' || '~' < r && r < '¡' || r == '\u00AD' {
			r = shifted
			shifted++
		}
		bytes[r], runes[b] = byte(b), r
	}
	return bytes, runes
}

// spelledBytes returns the bytes that a token of the vocabulary stands for: those
// of its characters, or, if any is not of the alphabet, its spelling.
func spelledBytes(spelling string) (text string, ok bool) {
	bytes := make([]byte, 0, len(spelling))
	for _, r := range spelling {
		b, ok := byteOf[r]
		if !ok {
			return spelling, false
		}
		bytes = append(bytes, b)
	}
	return string(bytes), true
}

// define gives an id its spelling.
func (m *model) define(id int32, spelling string) error {
	if id < 0 || id >= maxID {
		return fmt.Errorf("id of %q is %d: want 0 to %d", spelling, id, maxID-1)
	}
	for int(id) >= len(m.text) {
		m.text = append(m.text, "")
		m.known = append(m.known, false)
	}
	text, _ := spelledBytes(spelling)
	if m.known[id] && m.text[id] != text {
		return fmt.Errorf("%q and %q both have id %d", m.text[id], text, id)
	}
	m.text[id], m.known[id] = text, true
	return nil
}

// index fills in how bytes and whole pieces become tokens.
func (m *model) index(vocabulary map[string]int32, byteFallback, ignoreMerges bool) {
	m.complete = true
	for b, r := range runeOf {
		id, ok := vocabulary[string(r)]
		if ok {
			m.single[b] = id
			continue
		}
		m.single[b] = -1
		m.complete = false
		if byteFallback {
			m.fallback[b] = fallback(vocabulary, r)
		}
	}
	m.whole = make(map[string]int32, len(vocabulary))
	var ids []int32
	for spelling, id := range vocabulary {
		text, ok := spelledBytes(spelling)
		if !ok {
			continue
		}
		if !ignoreMerges {
			if ids = m.appendMerged(ids[:0], text); len(ids) != 1 || ids[0] != id {
				continue // in the vocabulary, but merges never arrive at it
			}
		}
		m.whole[text] = id
	}
}

// fallback returns the tokens <0xNN> of the UTF-8 bytes of a character without a
// token of its own, nil if one is missing.
func fallback(vocabulary map[string]int32, r rune) []int32 {
	var ids []int32
	for _, b := range utf8.AppendRune(nil, r) {
		id, ok := vocabulary[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}
