// Package bpe is a byte-pair-encoding tokenizer that loads Hugging Face tokenizer.json
// files, byte-level ones (the Qwen and Llama 3 families, GPT-2, DeepSeek and their kin)
// and those of characters with bytes to fall back on (Llama 2, Mistral, Gemma), and
// returns the ids that Hugging Face's tokenizers library returns.
//
// Text becomes ids in five steps, each in a file of its own:
//
//	added.go    cut out the added tokens, <|im_start|> and the like
//	normalize.go  normalise what is left, where the file asks for it; nfc.go has NFC
//	split.go    cut it into pieces (words, numbers, runs of space), steps.go by classes
//	            of characters; scan.go does the same faster for the patterns of the
//	            known families
//	merge.go    start from one token a byte or character of the piece and merge
//	            adjacent pairs, the pair that was learnt first going first
//	decode.go   and back: join the bytes of the tokens; decoders.go for models of
//	            characters
//
// Byte-pair encoding of text is due to Sennrich et al. 2016, arXiv 1508.07909;
// its byte-level form to Radford et al. 2019 (GPT-2).
package bpe

import "github.com/infinirl/infinirl/token"

// Tokenizer is a loaded tokenizer.json. It is immutable, so that many goroutines
// may use it at once.
type Tokenizer struct {
	model       model
	pre         pretokenizer
	normalizers []normalizer
	decoders    []decoder // nil: those of byte-level models

	controls map[string]int32 // by spelling
	special  map[int32]bool   // by id: the tokens that skip_special_tokens leaves out
	raw      matcher          // control and other tokens matched in the text as it is
	normal   matcher          // tokens matched in normalised text
	plain    matcher          // of normal, those that are no control tokens

	prefix, suffix []int32 // what the post-processor puts around a text
}

var (
	_ token.Tokenizer = (*Tokenizer)(nil)
	_ token.Controls  = (*Tokenizer)(nil)
)

// Encode returns the ids of plain text, and nothing before or after them: the tokens of
// the file's post-processor, such as <s>, are put around them by Wrap. Text that spells a control token stays
// text. Control tokens are the added tokens that are special or that are matched
// before normalisation, such as <|im_end|> and <tool_call>.
//
// Each malformed part of text that is not UTF-8 counts as one U+FFFD (the maximal
// subparts of the Unicode standard, section 3.9), as when Python or Rust decode
// it. The error is that of a regular expression of the file that takes too long; the
// known families' have none, for they are not matched as regular expressions.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	return t.encode(text, nil, &t.plain)
}

// EncodeRendered returns the ids of text in which spelled control tokens are
// control tokens, such as a prompt rendered by a chat template: Hugging Face's
// encode(text, add_special_tokens=False). The error is that of Encode.
func (t *Tokenizer) EncodeRendered(text string) ([]int32, error) {
	return t.encode(text, &t.raw, &t.normal)
}

// Wrap returns ids inside the tokens that the file's post-processor puts around
// every text, such as <|begin_of_text|>. Wrap(EncodeRendered(text)) is Hugging
// Face's encode(text).
func (t *Tokenizer) Wrap(ids []int32) []int32 {
	wrapped := make([]int32, 0, len(t.prefix)+len(ids)+len(t.suffix))
	wrapped = append(wrapped, t.prefix...)
	wrapped = append(wrapped, ids...)
	return append(wrapped, t.suffix...)
}

// Size is one more than the largest id. Ids below it that no token has decode to
// U+FFFD.
func (t *Tokenizer) Size() int { return len(t.model.text) }

// Control returns the id of the control token spelled name.
func (t *Tokenizer) Control(name string) (int32, bool) {
	id, ok := t.controls[name]
	return id, ok
}

// Special reports whether id is a special token: one that Hugging Face's decode leaves
// out unless told otherwise. (Since 0.23 it does not find those that are matched in
// normalised text and that normalisation spells anew; these are special here as well.)
func (t *Tokenizer) Special(id int32) bool { return t.special[id] }

// encode cuts out the tokens of raw, normalises the rest, cuts out the tokens of
// normal, and tokenizes what is left.
func (t *Tokenizer) encode(text string, raw, normal *matcher) ([]int32, error) {
	text = validUTF8(text)
	ids := make([]int32, 0, len(text)/3+len(text)/64+4)
	end := newDeadline(text)
	var failed error
	first := true // nothing of the text was cut out or off yet
	raw.cut(text, func(part string, id int32) {
		if id >= 0 {
			ids, first = append(ids, id), false
			return
		}
		part, cut, err := t.normalize(part)
		if err != nil {
			failed = err
			return
		}
		first = first && !cut
		normal.cut(part, func(part string, id int32) {
			switch {
			case failed != nil:
			case id >= 0:
				ids = append(ids, id)
			default:
				ids, failed = t.appendText(ids, part, first, end)
			}
			first = false
		})
	})
	if failed != nil {
		return nil, failed
	}
	return ids, nil
}

// appendText appends the ids of text that holds no added token. first tells that it is
// the beginning of what is encoded.
func (t *Tokenizer) appendText(ids []int32, text string, first bool, end deadline) ([]int32, error) {
	if scan := t.pre.scan; scan != nil {
		for start := 0; start < len(text); {
			end := scan.next(text, start)
			ids = t.model.appendPiece(ids, text[start:end])
			start = end
		}
		return ids, nil
	}
	pieces, err := t.pre.split(text, first, end)
	if err != nil {
		return nil, err
	}
	for _, piece := range pieces {
		ids = t.model.appendPiece(ids, piece)
	}
	return ids, nil
}
