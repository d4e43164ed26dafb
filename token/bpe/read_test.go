package bpe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// TestBadFiles shows the error of each kind of file that cannot be used.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	added := func(i int) func(object) object {
		return func(file object) object { return file["added_tokens"].([]any)[i].(object) }
	}
	root := func(file object) object { return file }
	model := func(file object) object { return field(file, "model") }
	vocabulary := func(file object) object { return field(file, "model", "vocab") }
	step := func(file object) object { return field(file, "pre_tokenizer")["pretokenizers"].([]any)[0].(object) }
	for _, c := range []struct {
		in    func(object) object
		key   string
		value any
		want  string
	}{
		{root, "model", nil, `model: is missing`},
		{root, "model", object{"type": "Unigram"}, `model.type: "Unigram" is not supported: want BPE`},
		{root, "model", object{"type": "WordPiece"}, `model.type: "WordPiece" is not supported: want BPE`},
		{root, "model", object{}, `model.vocab: is missing`},
		{root, "added_tokens", "none", `added_tokens: want an array, got string`},
		{root, "model", "BPE", `model: want an object, got string`},
		{model, "vocab", object{}, `model.vocab: is empty`},
		{model, "vocab", nil, `model.vocab: is missing`},
		{model, "vocab", []any{}, `model.vocab: want an object, got array`},
		{vocabulary, "a", "b", `model.vocab: want a whole number of 32 bits, got string`},
		{vocabulary, "a", -1, `model.vocab: id of "a" is -1: want 0 to 16777215`},
		{vocabulary, "a", 1 << 30, `model.vocab: id of "a" is 1073741824: want 0 to 16777215`},
		{vocabulary, "a", 1 << 40, `model.vocab: want a whole number of 32 bits, got number 1099511627776`},
		{vocabulary, "\u4e00", 97, ` both have id 97`},
		{model, "merges", []any{"a"}, `model.merges[0]: 1 parts: want 2`},
		{model, "merges", []any{"a b", "a b c"}, `model.merges[0]: token "ab" is not in model.vocab`},
		{model, "merges", []any{"h e", "h q"}, `model.merges[1]: token "hq" is not in model.vocab`},
		{model, "merges", []any{[]any{"h", "e"}, []any{"h", "nowhere"}}, `model.merges[1]: token "nowhere" is not in model.vocab`},
		{model, "merges", []any{7}, `model.merges[0]: want a string or an array of strings`},
		{model, "merges", "a b", `model.merges: want an array, got string`},
		{model, "dropout", 0.1, `model.dropout: 0.1 is not supported: want null, for merges at random cannot be reproduced`},
		{model, "continuing_subword_prefix", "##", `model.continuing_subword_prefix: "##" is not supported: want null`},
		{model, "end_of_word_suffix", "</w>", `model.end_of_word_suffix: "</w>" is not supported: want null`},
		{model, "unk_token", "<unk>", `model.unk_token: "<unk>" is not in model.vocab`},
		{root, "normalizer", object{"type": "BertNormalizer"}, `normalizer.type: "BertNormalizer" is not supported: want NFC, NFKC, Lowercase, Strip, Prepend, Replace, Sequence or null`},
		{root, "normalizer", object{"type": "Sequence", "normalizers": []any{object{"type": "NFC"}, object{"type": "NFD"}}}, `normalizer.normalizers[1].type: "NFD" is not supported: want NFC`},
		{root, "pre_tokenizer", nil, `decoder: ByteLevel without a pre-tokenizer of that type`},
		{root, "pre_tokenizer", object{"type": "Metaspace", "prepend_scheme": "last"}, `pre_tokenizer.prepend_scheme: "last" is not supported: want always, first or never`},
		{root, "pre_tokenizer", object{"type": "Metaspace", "replacement": "__"}, `pre_tokenizer.replacement: "__": want one character`},
		{root, "pre_tokenizer", object{"type": "UnicodeScripts"}, `pre_tokenizer.type: "UnicodeScripts" is not supported: want ByteLevel, Split, Digits`},
		{root, "pre_tokenizer", object{"type": "Punctuation", "behavior": "x"}, `pre_tokenizer.behavior: "x" is not supported`},
		{root, "pre_tokenizer", object{"type": "CharDelimiterSplit"}, `pre_tokenizer.delimiter: "": want one character`},
		{root, "normalizer", object{"type": "Replace", "pattern": object{}}, `normalizer.pattern: want a Regex or a String`},
		{root, "pre_tokenizer", object{"type": "Sequence", "pretokenizers": []any{object{"type": "ByteLevel"}, object{"type": "ByteLevel"}}}, `pre_tokenizer.pretokenizers[1]: "ByteLevel" after ByteLevel is not supported: want ByteLevel last`},
		{step, "behavior", "Sideways", `pre_tokenizer.pretokenizers[0].behavior: "Sideways" is not supported: want Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous`},
		{step, "pattern", object{}, `pre_tokenizer.pretokenizers[0].pattern: want a Regex or a String that is not empty`},
		{step, "pattern", object{"String": ""}, `pre_tokenizer.pretokenizers[0].pattern: want a Regex or a String that is not empty`},
		{step, "pattern", object{"Regex": "(\n"}, `pre_tokenizer.pretokenizers[0].pattern.Regex: error parsing regexp: missing closing ) in ` + "`(\\n`"},
		{root, "decoder", nil, `decoder: is missing: want one`},
		{root, "decoder", object{"type": "Sequence", "decoders": []any{}}, `decoder: it does not fit pre_tokenizer`},
		{root, "decoder", object{"type": "WordPiece"}, `decoder.type: "WordPiece" is not supported: want ByteLevel, Metaspace`},
		{root, "decoder", object{"type": "Metaspace"}, `decoder: it does not fit pre_tokenizer: want ByteLevel in both or in neither`},
		{root, "decoder", object{"type": "Sequence", "decoders": []any{object{"type": "Fuse"}, object{"type": "ByteLevel"}}}, `decoder.decoders[1]: ByteLevel in this place is not supported`},
		{root, "decoder", object{"type": "Strip", "content": " ", "stop": 1}, `decoder: stop 1, start 0 and content " " are not supported`},
		{root, "post_processor", object{"type": "BertProcessing"}, `post_processor.type: "BertProcessing" is not supported: want ByteLevel, TemplateProcessing, Sequence or null`},
		{root, "post_processor", object{"type": "TemplateProcessing", "single": []any{}}, `post_processor.single: Sequence A appears 0 times: want once`},
		{root, "post_processor", object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "x"}}}}, `post_processor.single[0]: "x" is not in special_tokens`},
		{added(1), "id", 600, `added_tokens[1].id: "<|im_start|>" has id 600: want 557, its place in or after model.vocab`},
		{added(1), "content", "", `added_tokens[1].content: is empty`},
		{added(1), "content", "<|endoftext|>", `added_tokens[1].content: "<|endoftext|>" is added twice`},
		{added(1), "content", "a", `added_tokens[1].id: "a" has id 557: want 97, its place in or after model.vocab`},
		{added(1), "special", "yes", `added_tokens.special: want true or false, got string`},
	} {
		file := readFixture(t)
		c.in(file)[c.key] = c.value
		_, err := Read(bytes.NewReader(marshal(t, file)))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s = %v: got error %q, want %q", c.key, c.value, err, c.want)
		}
	}
}

// Where a Metaspace asks for the beginning of a text, what cuts it off has to come first.
func TestBeginningsThatAreLost(t *testing.T) {
	t.Parallel()
	strip, prepend := object{"type": "Strip"}, object{"type": "Prepend", "prepend": "x"}
	replace := func(from, to string) object {
		return object{"type": "Replace", "pattern": object{"String": from}, "content": to}
	}
	for _, c := range []struct {
		normalizers []any
		scheme      string
		want        string
	}{
		{[]any{prepend, strip}, "first", "tokenizer.json: normalizer: Strip after Prepend is not supported where a Metaspace has prepend_scheme first"},
		{[]any{strip, replace("ab", "c"), strip}, "first", "Strip after Replace is not supported"},
		{[]any{prepend, replace("a", "")}, "first", "Replace after Prepend is not supported"},
		{[]any{prepend, strip}, "always", ""},
		{[]any{strip, replace("a", ""), prepend, replace("a", "bc")}, "first", ""},
	} {
		file := readFixture(t)
		file["added_tokens"] = []any{}
		file["normalizer"] = object{"type": "Sequence", "normalizers": c.normalizers}
		file["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{object{"type": "Metaspace", "prepend_scheme": c.scheme}, object{"type": "ByteLevel"}}}
		_, err := Read(bytes.NewReader(marshal(t, file)))
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) && c.want != "" {
			t.Errorf("%v, %s: error %v, want %q", c.normalizers, c.scheme, err, c.want)
		}
	}
}

func TestTruncatedFiles(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(fixtureFile)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimSpace(data))
	for n := 0; n < end; n += 1 + n/40 {
		if _, err := Read(bytes.NewReader(data[:n])); err == nil || !strings.HasPrefix(err.Error(), "tokenizer.json: line ") {
			t.Fatalf("first %d bytes: got error %v, want one with a line", n, err)
		}
	}
	broken := errors.New("broken")
	if _, err := Read(io.MultiReader(bytes.NewReader(data[:99]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}

// FuzzRead shows that no file makes Read or what it returns panic.
func FuzzRead(f *testing.F) {
	file := newFixture()
	field(file, "model")["vocab"] = object{"a": 0, "b": 1, "ab": 2}
	field(file, "model")["merges"] = []any{"a b"}
	file["added_tokens"] = []any{addedToken{ID: 3, Content: "<|x|>", Special: true}}
	f.Add(marshal(f, file))
	for _, family := range families(f) {
		var file object
		if err := json.Unmarshal(family.Tokenizer, &file); err != nil {
			f.Fatal(err)
		}
		vocabulary := object{"a": 4, "b": 5, "ab": 6, "<0x61>": 7, "▁": 8}
		for i, token := range file["added_tokens"].([]any) {
			vocabulary[token.(object)["content"].(string)] = i
		}
		model := field(file, "model")
		model["vocab"], model["merges"] = vocabulary, []any{"a b"}
		f.Add(marshal(f, file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tokenizer, err := Read(bytes.NewReader(data))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of more than one line: %q", err)
			}
			return
		}
		for _, text := range texts {
			ids, err := tokenizer.EncodeRendered(text)
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("error of more than one line: %q", err)
			}
			tokenizer.Decode(tokenizer.Wrap(ids))
		}
	})
}
