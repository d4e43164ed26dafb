package bpe

import (
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids, control tokens spelled out. Bytes that do not
// form UTF-8 become U+FFFD in the way Encode says, and so does an id that no
// token has (Hugging Face's decode drops such ids).
func (t *Tokenizer) Decode(ids []int32) string {
	if t.decoders != nil {
		tokens := make([]string, len(ids))
		for i, id := range ids {
			tokens[i] = t.bytes(id)
		}
		return t.decodeTokens(tokens)
	}
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

	// Of a model of characters:
	tokens []string // whose text is not complete yet
	begun  bool     // some text was returned
}

// Stream returns a decoder at the start of a text.
func (t *Tokenizer) Stream() *Stream { return &Stream{tokenizer: t} }

// Next takes one id and returns the text that is complete with it.
func (s *Stream) Next(id int32) string {
	if s.tokenizer.decoders != nil {
		token := s.tokenizer.bytes(id)
		s.tokens = append(s.tokens, token)
		if _, ok := byteToken(token); ok {
			return "" // the character may go on
		}
		return s.take()
	}
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
	if s.tokenizer.decoders != nil {
		text := s.take()
		*s = Stream{tokenizer: s.tokenizer}
		return text
	}
	text := validUTF8(s.pending)
	s.pending = ""
	return text
}

// take returns the text of the tokens that wait. The first token of a text is decoded
// in its own way: later ones get a neighbour.
func (s *Stream) take() string {
	const neighbour = "a"
	if !s.begun {
		text := s.tokenizer.decodeTokens(s.tokens)
		if text != "" {
			s.tokens, s.begun = nil, true
		}
		return text
	}
	text := s.tokenizer.decodeTokens(append([]string{neighbour}, s.tokens...))
	s.tokens = nil
	return strings.TrimPrefix(text, s.tokenizer.decodeTokens([]string{neighbour}))
}
