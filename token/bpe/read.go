package bpe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/infinirl/infinirl/bounded"
)

// maxFile bounds a tokenizer.json, of which the largest known has 40 MB.
const maxFile = 256 << 20

// maxID bounds the ids of a file, so that a wrong one cannot ask for all memory.
const maxID = 1 << 24

// Read loads a tokenizer.json. It accepts models of type BPE, byte-level ones and those
// of characters with byte_fallback, with the normalizers NFC, NFKC, Lowercase, Strip,
// Prepend and Replace, the pre-tokenizers ByteLevel, Split, Digits, Punctuation,
// Whitespace, WhitespaceSplit, CharDelimiterSplit and Metaspace, the decoders ByteLevel,
// Metaspace, Replace, ByteFallback, Fuse and Strip, the post-processors ByteLevel and
// TemplateProcessing, and Sequences of these. An error names the field that is malformed
// or not supported. The fields truncation and padding are ignored.
func Read(r io.Reader) (*Tokenizer, error) {
	data, err := bounded.ReadAll(r, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read tokenizer.json: %w", err)
	}
	t, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return t, nil
}

func parse(data []byte) (*Tokenizer, error) {
	var file struct {
		AddedTokens   []addedToken    `json:"added_tokens"`
		Normalizer    json.RawMessage `json:"normalizer"`
		PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
		PostProcessor json.RawMessage `json:"post_processor"`
		Decoder       json.RawMessage `json:"decoder"`
		Model         json.RawMessage `json:"model"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, locate(data, err)
	}
	model, err := readModel(file.Model)
	if err != nil {
		return nil, err
	}
	var t Tokenizer
	byteLevel, err := t.pre.parse(file.PreTokenizer)
	if err != nil {
		return nil, err
	}
	t.model.characters = !byteLevel
	vocabulary, err := t.model.parse(model)
	if err != nil {
		return nil, err
	}
	if t.normalizers, err = parseNormalizer("normalizer", file.Normalizer); err != nil {
		return nil, err
	}
	if err := t.checkFirst(); err != nil {
		return nil, err
	}
	if t.prefix, t.suffix, err = parsePostProcessor("post_processor", file.PostProcessor); err != nil {
		return nil, err
	}
	if t.decoders, err = parseDecoders(file.Decoder, byteLevel); err != nil {
		return nil, err
	}
	return &t, t.add(file.AddedTokens, vocabulary)
}

// locate gives an error of encoding/json the line and column it happened at.
func locate(data []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		before := data[:min(int(syntax.Offset), len(data))]
		line := bytes.Count(before, []byte("\n")) + 1
		return fmt.Errorf("line %d, column %d: %w", line, len(before)-bytes.LastIndexByte(before, '\n')-1, err)
	case errors.As(err, &kind):
		return wrongKind(kind.Field, kind)
	}
	return err
}

func wrongKind(field string, err *json.UnmarshalTypeError) error {
	want := "an object"
	switch err.Type.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.String:
		want = "a string"
	case reflect.Int32:
		want = "a whole number of 32 bits"
	case reflect.Float64:
		want = "a number"
	case reflect.Slice:
		want = "an array"
	}
	if field != "" {
		field += ": "
	}
	return fmt.Errorf("%swant %s, got %s", field, want, err.Value)
}

// component is what the parts of a pipeline have in common: a type, and a list of
// others when the type is Sequence.
type component struct {
	Type string `json:"type"`

	Normalizers   []json.RawMessage `json:"normalizers"`
	Pretokenizers []json.RawMessage `json:"pretokenizers"`
	Processors    []json.RawMessage `json:"processors"`
	Decoders      []json.RawMessage `json:"decoders"`
}

// parseComponent reads one at the given field; of type "" if it is null or absent.
func parseComponent(field string, data json.RawMessage) (component, error) {
	var c component
	if absent(data) {
		return c, nil
	}
	return c, parseField(field, data, &c)
}

func parseField(field string, data json.RawMessage, to any) error {
	err := json.Unmarshal(data, to)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field != "" {
			field += "." + kind.Field
		}
		return wrongKind(field, kind)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

func absent(data json.RawMessage) bool {
	return len(data) == 0 || bytes.Equal(data, []byte("null"))
}

func unsupported(field, got, want string) error {
	return fmt.Errorf("%s: %q is not supported: want %s", field, got, want)
}

// parse reads pre_tokenizer: steps and, last, perhaps one of type ByteLevel, from which
// on a text is its bytes.
func (p *pretokenizer) parse(data json.RawMessage) (byteLevel bool, err error) {
	var walk func(field string, data json.RawMessage) error
	walk = func(field string, data json.RawMessage) error {
		c, err := parseComponent(field, data)
		if err != nil {
			return err
		}
		if byteLevel {
			return fmt.Errorf("%s: %q after ByteLevel is not supported: want ByteLevel last", field, c.Type)
		}
		var s step
		switch c.Type {
		case "":
			return nil
		case "Sequence":
			for i, part := range c.Pretokenizers {
				if err := walk(fmt.Sprintf("%s.pretokenizers[%d]", field, i), part); err != nil {
					return err
				}
			}
			return nil
		case "Split":
			s, err = parseSplit(field, data)
		case "ByteLevel":
			byteLevel = true
			s, err = parseByteLevel(field, data)
		default:
			s, err = parseStep(c.Type, field, data)
		}
		p.steps = append(p.steps, s)
		return err
	}
	if err := walk("pre_tokenizer", data); err != nil {
		return false, err
	}
	// A step that changes nothing can go, and a single scanner can do it all.
	steps := p.steps[:0]
	for _, s := range p.steps {
		if s.prefixSpace || s.pattern != nil || s.metaspace != nil {
			steps = append(steps, s)
		}
	}
	p.steps = steps
	p.first = slices.ContainsFunc(steps, func(s step) bool { return s.metaspace != nil && s.metaspace.scheme == "first" })
	switch {
	case len(steps) == 1 && steps[0].plain():
		p.scan = steps[0].pattern.scan
	case len(steps) == 2 && steps[0].plain() && steps[1].plain() && steps[0].pattern.numbers:
		if scan := steps[1].pattern.scan; scan != nil && scan.gpt2 {
			p.scan = scan.withDigits()
		}
	}
	return byteLevel, nil
}

// filePattern is a pattern as files have it.
type filePattern struct {
	String *string
	Regex  *string
}

func (f filePattern) parse(field string) (*pattern, error) {
	switch {
	case f.Regex != nil:
		p, err := compile(*f.Regex)
		if err != nil {
			return nil, fmt.Errorf("%s.pattern.Regex: %w", field, err)
		}
		return p, nil
	case f.String != nil && *f.String != "":
		return &pattern{literal: *f.String}, nil
	}
	return nil, fmt.Errorf("%s.pattern: want a Regex or a String that is not empty", field)
}

func parseSplit(field string, data json.RawMessage) (step, error) {
	var split struct {
		Pattern  filePattern `json:"pattern"`
		Behavior behavior    `json:"behavior"`
		Invert   bool        `json:"invert"`
	}
	if err := parseField(field, data, &split); err != nil {
		return step{}, err
	}
	s := step{behavior: split.Behavior, invert: split.Invert}
	if err := s.behavior.check(field); err != nil {
		return s, err
	}
	var err error
	s.pattern, err = split.Pattern.parse(field)
	return s, err
}

func parseByteLevel(field string, data json.RawMessage) (step, error) {
	level := struct {
		AddPrefixSpace bool `json:"add_prefix_space"`
		UseRegex       bool `json:"use_regex"`
	}{UseRegex: true}
	err := parseField(field, data, &level)
	s := step{prefixSpace: level.AddPrefixSpace, behavior: isolated}
	if level.UseRegex {
		s.pattern = &pattern{scan: knownPattern(patternGPT2)}
	}
	return s, err
}

// parsePostProcessor returns what is put before and after a text.
func parsePostProcessor(field string, data json.RawMessage) (prefix, suffix []int32, err error) {
	c, err := parseComponent(field, data)
	if err != nil {
		return nil, nil, err
	}
	switch c.Type {
	case "", "ByteLevel": // ByteLevel changes offsets only
	case "TemplateProcessing":
		return parseTemplate(field, data)
	case "Sequence":
		for i, part := range c.Processors {
			before, after, err := parsePostProcessor(fmt.Sprintf("%s.processors[%d]", field, i), part)
			if err != nil {
				return nil, nil, err
			}
			prefix, suffix = append(before, prefix...), append(suffix, after...)
		}
	default:
		return nil, nil, unsupported(field+".type", c.Type, "ByteLevel, TemplateProcessing, Sequence or null")
	}
	return prefix, suffix, nil
}

func parseTemplate(field string, data json.RawMessage) (prefix, suffix []int32, err error) {
	var template struct {
		Single []struct {
			SpecialToken *struct{ ID string }
			Sequence     *struct{ ID string }
		} `json:"single"`
		SpecialTokens map[string]struct {
			IDs []int32 `json:"ids"`
		} `json:"special_tokens"`
	}
	if err := parseField(field, data, &template); err != nil {
		return nil, nil, err
	}
	texts := 0
	for i, part := range template.Single {
		switch {
		case part.Sequence != nil && part.Sequence.ID == "A":
			texts++
		case part.SpecialToken != nil:
			token, ok := template.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("%s.single[%d]: %q is not in special_tokens", field, i, part.SpecialToken.ID)
			}
			if texts == 0 {
				prefix = append(prefix, token.IDs...)
			} else {
				suffix = append(suffix, token.IDs...)
			}
		default:
			return nil, nil, fmt.Errorf("%s.single[%d]: want a SpecialToken or Sequence A", field, i)
		}
	}
	if texts != 1 {
		return nil, nil, fmt.Errorf("%s.single: Sequence A appears %d times: want once", field, texts)
	}
	return prefix, suffix, nil
}

// add builds the matchers of the added tokens.
func (t *Tokenizer) add(tokens []addedToken, vocabulary map[string]int32) error {
	t.controls = make(map[string]int32)
	t.special = make(map[int32]bool)
	ids := make(map[string]int32)
	var err error
	next := int32(len(vocabulary)) // the id of the next token that is not in the vocabulary
	for i, a := range tokens {
		field := fmt.Sprintf("added_tokens[%d]", i)
		if a.Content == "" {
			return fmt.Errorf("%s.content: is empty", field)
		}
		if _, ok := ids[a.Content]; ok {
			return fmt.Errorf("%s.content: %q is added twice", field, a.Content)
		}
		id, ok := vocabulary[a.Content]
		if !ok {
			id = next
			next++
		}
		if a.ID != id {
			return fmt.Errorf("%s.id: %q has id %d: want %d, its place in or after model.vocab", field, a.Content, a.ID, id)
		}
		ids[a.Content] = id
		if err := t.model.define(id, a.Content); err != nil {
			return fmt.Errorf("%s.id: %w", field, err)
		}
		spelling := a.Content
		if a.Normalized {
			if spelling, _, err = t.normalize(spelling); err != nil {
				return fmt.Errorf("%s.content: %w", field, err)
			}
			if spelling == "" {
				return fmt.Errorf("%s.content: %q is empty when normalized", field, a.Content)
			}
			// What is decoded is the token as it is matched: so does the reference since 0.23.
			if t.model.text[id] = spelling; !t.model.characters {
				t.model.text[id], _ = spelledBytes(spelling)
			}
		}
		if a.control() {
			t.controls[a.Content] = id
		}
		if a.Special {
			t.special[id] = true
		}
		switch {
		case !a.Normalized:
			t.raw.insert(a, spelling)
		case a.Special:
			t.normal.insert(a, spelling)
		default:
			t.normal.insert(a, spelling)
			t.plain.insert(a, spelling)
		}
	}
	for _, ids := range [][]int32{t.prefix, t.suffix} {
		for _, id := range ids {
			if id < 0 || int(id) >= t.Size() || !t.model.known[id] {
				return fmt.Errorf("post_processor: id %d is not that of any token", id)
			}
		}
	}
	return nil
}
