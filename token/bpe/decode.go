package bpe

import (
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids, control tokens spelled out. Bytes that do not
// form UTF-8 become U+FFFD in the way Encode says, and so does an id that no
// token has (Hugging Face's decode drops such ids).
func (t *Tokenizer) Decode(ids []int32) string {
	size := 0
	for _, id := range ids {
		size += len(t.bytes(id))
	}
	var text strings.Builder
	text.Grow(size)
	for _, id := range ids {
		text.WriteString(t.bytes(id))
	}
	return validUTF8(text.String())
}

// bytes returns the bytes that an id stands for.
func (t *Tokenizer) bytes(id int32) string {
	if id < 0 || int(id) >= len(t.model.text) || !t.model.known[id] {
		return string(utf8.RuneError)
	}
	return t.model.text[id]
}

// Stream decodes ids as they are sampled. What Next and Flush return is, joined,
// what Decode returns for all the ids; no part of it ends inside a character.
type Stream struct {
	tokenizer *Tokenizer
	pending   string // the start of a character
}

// Stream returns a decoder at the start of a text.
func (t *Tokenizer) Stream() *Stream { return &Stream{tokenizer: t} }

// Next takes one id and returns the text that is complete with it.
func (s *Stream) Next(id int32) string {
	text := s.pending + s.tokenizer.bytes(id)
	s.pending = ""
	// At most the last three bytes are the start of a character.
	for i := len(text) - 1; i >= 0 && i >= len(text)-3; i-- {
		if !utf8.RuneStart(text[i]) {
			continue
		}
		if !utf8.FullRuneInString(text[i:]) {
			text, s.pending = text[:i], text[i:]
		}
		break
	}
	return validUTF8(text)
}

// Flush ends the text: it returns U+FFFD if the text ended inside a character,
// and leaves the stream as new.
func (s *Stream) Flush() string {
	text := validUTF8(s.pending)
	s.pending = ""
	return text
}
