package bpe

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// nfc returns text in Unicode normalization form C.
func nfc(text string) string { return normalForm(norm.NFC, text) }

// normalForm returns text in Unicode normalization form C or KC (Unicode Standard Annex 15)
// as the reference computes it: with the tables of Unicode 9, in which later
// combining marks stay where they are, and without the limit of 30 combining
// marks in a row that golang.org/x/text imposes, whose tables it uses.
func normalForm(form norm.Form, text string) string {
	start := form.QuickSpanString(text)
	if start == len(text) {
		return text
	}
	// The span may end in characters that combine with what follows.
	for start > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:start])
		start -= size
		if r < utf8.RuneSelf {
			break
		}
	}
	c := composer{starter: none}
	c.text.Grow(len(text) + len(text)/8)
	c.text.WriteString(text[:start])
	for i := start; i < len(text); {
		if text[i] < utf8.RuneSelf { // never changes, but what follows may combine with it
			c.add(rune(text[i]), 0)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if inert(r) {
			c.add(r, 0)
			i += size
			continue
		}
		properties := form.PropertiesString(text[i:])
		if decomposition := properties.Decomposition(); decomposition != nil {
			for len(decomposition) > 0 {
				r, n := utf8.DecodeRune(decomposition)
				c.add(r, norm.NFC.Properties(decomposition).CCC())
				decomposition = decomposition[n:]
			}
		} else {
			c.add(r, properties.CCC())
		}
		i += size
	}
	c.flush()
	return c.text.String()
}

// composer takes decomposed characters and writes composed ones.
type composer struct {
	text    strings.Builder
	starter rune // the last character of combining class 0, not yet written; none before it
	marks   []mark
}

// mark is a character of a combining class other than 0.
type mark struct {
	r     rune
	class uint8
}

const none rune = -1

// add takes the next character and its canonical combining class.
func (c *composer) add(r rune, class uint8) {
	if class != 0 {
		c.marks = append(c.marks, mark{r, class})
		return
	}
	c.combine()
	if c.starter != none && len(c.marks) == 0 {
		if composite := compose(c.starter, r); composite != none {
			c.starter = composite
			return
		}
	}
	c.write()
	c.starter = r
}

// combine puts the marks in canonical order and composes with the starter those
// that no other mark of the same class separates from it.
func (c *composer) combine() {
	slices.SortStableFunc(c.marks, func(a, b mark) int { return int(a.class) - int(b.class) })
	if c.starter == none {
		return
	}
	kept := c.marks[:0]
	for _, m := range c.marks {
		if blocked := len(kept) > 0 && kept[len(kept)-1].class == m.class; !blocked {
			if composite := compose(c.starter, m.r); composite != none {
				c.starter = composite
				continue
			}
		}
		kept = append(kept, m)
	}
	c.marks = kept
}

func (c *composer) write() {
	if c.starter != none {
		c.text.WriteRune(c.starter)
	}
	for _, m := range c.marks {
		c.text.WriteRune(m.r)
	}
	c.marks = c.marks[:0]
}

func (c *composer) flush() {
	c.combine()
	c.write()
}

// compose returns the primary composite of two characters, or none.
func compose(starter, following rune) rune {
	if inert(starter) || inert(following) || following < utf8.RuneSelf {
		return none
	}
	var pair [2 * utf8.UTFMax]byte
	n := utf8.EncodeRune(pair[:], starter)
	m := utf8.EncodeRune(pair[n:], following)
	if norm.NFC.Properties(pair[n : n+m]).BoundaryBefore() {
		return none // combines with nothing before it
	}
	var composed [4 * utf8.UTFMax]byte
	result := norm.NFC.Append(composed[:0], pair[:n+m]...)
	r, size := utf8.DecodeRune(result)
	if size != len(result) {
		return none
	}
	return r
}

// inert reports whether r entered Unicode after version 9.0 with properties that
// matter here, so that the reference takes it for an unassigned character, which
// neither moves nor composes.
func inert(r rune) bool {
	if r < unicode10[0].first {
		return false
	}
	i, _ := slices.BinarySearchFunc(unicode10, r, func(in runeRange, r rune) int { return int(in.last - r) })
	return i < len(unicode10) && unicode10[i].first <= r
}

type runeRange struct{ first, last rune }

// unicode10 lists the characters of Unicode 10 to 17 that have a combining class
// other than 0 or take part in a composition.
var unicode10 = []runeRange{
	{0x7FD, 0x7FD}, {0x897, 0x89F}, {0x8CA, 0x8D3}, {0x9FE, 0x9FE}, {0xC3C, 0xC3C},
	{0xD3B, 0xD3C}, {0xEBA, 0xEBA}, {0x1715, 0x1715}, {0x1ABF, 0x1ADD}, {0x1AE0, 0x1AEB},
	{0x1DF6, 0x1DFA}, {0xA82C, 0xA82C}, {0x105C9, 0x105C9}, {0x105D2, 0x105D2}, {0x105DA, 0x105DA},
	{0x105E4, 0x105E4}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFA, 0x10EFB},
	{0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
	{0x11382, 0x11385}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113B8, 0x113B8},
	{0x113BB, 0x113BB}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113C9}, {0x113CE, 0x113D0},
	{0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938},
	{0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
	{0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
	{0x1611E, 0x16129}, {0x1612F, 0x1612F}, {0x16D63, 0x16D63}, {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1},
	{0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
	{0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5},
}
