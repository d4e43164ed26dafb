// Package token turns text into token ids and back.
//
// Control tokens, the delimiters of a chat format, are never written by Encode:
// text that merely spells one stays text, so that no tool result can end a turn.
// A tokenizer that has control tokens offers them by name through Controls.
package token

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Tokenizer is a mapping between text and ids in [0, Size()).
type Tokenizer interface {
	// Encode returns the ids of plain text, never a control token.
	Encode(text string) ([]int32, error)
	// Decode returns the text of ids, control tokens spelled out. It accepts any
	// ids: those outside the vocabulary become U+FFFD.
	Decode(ids []int32) string
	// Size is the number of ids.
	Size() int
}

// Controls is implemented by tokenizers with control tokens.
type Controls interface {
	// Control returns the id of the control token spelled name.
	Control(name string) (id int32, ok bool)
}

// Bytes is the tokenizer whose ids are the 256 byte values. It has no control
// tokens and encodes every string, valid UTF-8 or not, without loss.
type Bytes struct{}

// Encode returns one id a byte.
func (Bytes) Encode(text string) ([]int32, error) {
	ids := make([]int32, len(text))
	for i := range len(text) {
		ids[i] = int32(text[i])
	}
	return ids, nil
}

// Decode is the inverse of Encode.
func (Bytes) Decode(ids []int32) string {
	text := make([]byte, 0, len(ids))
	for _, id := range ids {
		if id < 0 || id > 255 {
			text = utf8.AppendRune(text, utf8.RuneError)
			continue
		}
		text = append(text, byte(id))
	}
	return string(text)
}

// Size is 256.
func (Bytes) Size() int { return 256 }

// Vocabulary is a closed word-level tokenizer: white space separates words, every
// word is one id, and a word outside the list is an error. Words of the form
// <|name|> are its control tokens.
type Vocabulary struct {
	words []string
	ids   map[string]int32
}

// NewVocabulary returns the vocabulary in which words[i] has id i. Empty words,
// words with white space and duplicates are errors.
func NewVocabulary(words []string) (*Vocabulary, error) {
	v := &Vocabulary{words: append([]string(nil), words...), ids: make(map[string]int32, len(words))}
	for i, word := range v.words {
		if fields := strings.Fields(word); len(fields) != 1 || fields[0] != word {
			return nil, fmt.Errorf("vocabulary: word %d is %q: want one word without white space", i, word)
		}
		if first, ok := v.ids[word]; ok {
			return nil, fmt.Errorf("vocabulary: word %q appears twice, as %d and %d", word, first, i)
		}
		v.ids[word] = int32(i)
	}
	return v, nil
}

// Encode returns one id a word.
func (v *Vocabulary) Encode(text string) ([]int32, error) {
	var ids []int32
	for word := range strings.FieldsSeq(text) {
		id, ok := v.ids[word]
		if !ok {
			return nil, fmt.Errorf("word %q is not in the vocabulary of %d words", word, len(v.words))
		}
		if isControl(word) {
			return nil, fmt.Errorf("word %q is a control token and cannot stand in a text", word)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Decode joins the words of ids with single spaces.
func (v *Vocabulary) Decode(ids []int32) string {
	var text strings.Builder
	for i, id := range ids {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(v.Word(id))
	}
	return text.String()
}

// Word returns the word of one id, U+FFFD outside the vocabulary.
func (v *Vocabulary) Word(id int32) string {
	if id < 0 || int(id) >= len(v.words) {
		return string(utf8.RuneError)
	}
	return v.words[id]
}

// Size is the number of words.
func (v *Vocabulary) Size() int { return len(v.words) }

// Control returns the id of a word of the form <|name|>.
func (v *Vocabulary) Control(name string) (int32, bool) {
	id, ok := v.ids[name]
	return id, ok && isControl(name)
}

func isControl(word string) bool {
	return len(word) > 4 && strings.HasPrefix(word, "<|") && strings.HasSuffix(word, "|>")
}
