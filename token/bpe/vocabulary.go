package bpe

import (
	"encoding/json"
	"fmt"
	"strings"
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

// modelFile is the field model.
type modelFile struct {
	Type         string            `json:"type"`
	Dropout      *float64          `json:"dropout"`
	UnkToken     *string           `json:"unk_token"`
	Prefix       *string           `json:"continuing_subword_prefix"`
	Suffix       *string           `json:"end_of_word_suffix"`
	FuseUnk      bool              `json:"fuse_unk"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
	Vocab        json.RawMessage   `json:"vocab"`
	Merges       []json.RawMessage `json:"merges"`
}

// readModel reads model as far as the file's other parts do not matter. It tells of a file
// of another kind before any of these is read, which are not supported either as a rule.
func readModel(data json.RawMessage) (modelFile, error) {
	var file modelFile
	if absent(data) {
		return file, fmt.Errorf("model: is missing")
	}
	err := parseField("model", data, &file)
	if file.Type != "BPE" && file.Type != "" { // old files leave the type out
		return file, unsupported("model.type", file.Type, "BPE") // whose fields may be others
	}
	return file, err
}

// parse reads the model and returns the vocabulary by spelling.
func (m *model) parse(file modelFile) (map[string]int32, error) {
	switch {
	case file.Dropout != nil && *file.Dropout != 0:
		return nil, fmt.Errorf("model.dropout: %v is not supported: want null, for merges at random cannot be reproduced", *file.Dropout)
	case file.Prefix != nil && *file.Prefix != "":
		return nil, unsupported("model.continuing_subword_prefix", *file.Prefix, "null")
	case file.Suffix != nil && *file.Suffix != "":
		return nil, unsupported("model.end_of_word_suffix", *file.Suffix, "null")
	}
	if absent(file.Vocab) {
		return nil, fmt.Errorf("model.vocab: is missing")
	}
	var vocabulary map[string]int32
	if err := parseField("model.vocab", file.Vocab, &vocabulary); err != nil {
		return nil, err
	}
	if len(vocabulary) == 0 {
		return nil, fmt.Errorf("model.vocab: is empty")
	}
	for spelling, id := range vocabulary {
		if err := m.define(id, spelling); err != nil {
			return nil, fmt.Errorf("model.vocab: %w", err)
		}
	}
	if err := m.parseMerges(file.Merges, vocabulary); err != nil {
		return nil, err
	}
	m.fuse = file.FuseUnk
	m.unknown = -1
	if file.UnkToken != nil {
		id, ok := vocabulary[*file.UnkToken]
		if !ok {
			return nil, fmt.Errorf("model.unk_token: %q is not in model.vocab", *file.UnkToken)
		}
		m.unknown = id
	}
	m.index(vocabulary, file.ByteFallback, file.IgnoreMerges)
	return vocabulary, nil
}

// parseMerges reads merges in either form, "a b" or ["a", "b"]. The rank of a
// merge is its place in the list.
func (m *model) parseMerges(merges []json.RawMessage, vocabulary map[string]int32) error {
	m.pairs = newPairTable(len(merges))
	m.merged = make(map[int32]bool)
	rank := uint64(0)
	for i, data := range merges {
		var pair []string
		var line string
		if json.Unmarshal(data, &line) == nil {
			if strings.HasPrefix(line, "#version") {
				continue
			}
			pair = strings.Split(line, " ")
		} else if json.Unmarshal(data, &pair) != nil {
			return fmt.Errorf("model.merges[%d]: want a string or an array of strings", i)
		}
		if len(pair) != 2 {
			return fmt.Errorf("model.merges[%d]: %d parts: want 2", i, len(pair))
		}
		var ids [3]int32
		for k, spelling := range []string{pair[0], pair[1], pair[0] + pair[1]} {
			id, ok := vocabulary[spelling]
			if !ok {
				return fmt.Errorf("model.merges[%d]: token %q is not in model.vocab", i, spelling)
			}
			ids[k] = id
		}
		m.pairs.put(ids[0], ids[1], rank<<32|uint64(ids[2]))
		if left, right := m.text[ids[0]], m.text[ids[1]]; left != "" && right != "" {
			m.meets[left[len(left)-1]][right[0]] = true
		}
		if m.characters {
			m.merged[ids[0]], m.merged[ids[1]] = true, true
		}
		rank++
	}
	return nil
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
	text := spelling
	if !m.characters {
		text, _ = spelledBytes(spelling)
	}
	if m.known[id] && m.text[id] != text {
		return fmt.Errorf("%q and %q both have id %d", min(m.text[id], text), max(m.text[id], text), id)
	}
	m.text[id], m.known[id] = text, true
	return nil
}

// index fills in how bytes and whole pieces become tokens.
func (m *model) index(vocabulary map[string]int32, byteFallback, ignoreMerges bool) {
	if m.characters {
		m.indexCharacters(vocabulary, byteFallback, ignoreMerges)
		return
	}
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

// indexCharacters is index for models of characters.
func (m *model) indexCharacters(vocabulary map[string]int32, byteFallback, ignoreMerges bool) {
	m.character = make(map[rune]int32)
	for spelling, id := range vocabulary {
		if r, size := utf8.DecodeRuneInString(spelling); size == len(spelling) && size > 0 {
			m.character[r] = id
		}
	}
	m.complete = byteFallback
	for b := range m.bytes {
		id, ok := vocabulary[fmt.Sprintf("<0x%02X>", b)]
		if !ok || !byteFallback {
			id = -1
		}
		m.bytes[b] = id
		// A long piece can be cut only where neither a merge nor a run of unknown
		// characters crosses.
		m.complete = m.complete && id >= 0 && !m.merged[id]
	}
	m.merged = nil
	if ignoreMerges {
		m.whole = vocabulary
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
