package bpe

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder is one decoder of the file: it makes other texts of the texts of tokens.
type decoder func(tokens []string) []string

// decodeTokens joins what the decoders of a model of characters make of tokens.
func (t *Tokenizer) decodeTokens(tokens []string) string {
	for _, d := range t.decoders {
		tokens = d(tokens)
	}
	return strings.Join(tokens, "")
}

// parseDecoders reads decoder; nil is that of a byte-level model.
func parseDecoders(data json.RawMessage, byteLevel bool) ([]decoder, error) {
	var all []decoder
	fused, bytes := false, false
	var walk func(field string, data json.RawMessage) error
	walk = func(field string, data json.RawMessage) error {
		c, err := parseComponent(field, data)
		if err != nil {
			return err
		}
		if fused && c.Type != "Strip" && c.Type != "Fuse" || bytes {
			return fmt.Errorf("%s: %s in this place is not supported", field, c.Type)
		}
		switch c.Type {
		case "":
			return fmt.Errorf("%s: is missing: want one, for without it words have spaces between their parts", field)
		case "Sequence":
			for i, part := range c.Decoders {
				if err := walk(fmt.Sprintf("%s.decoders[%d]", field, i), part); err != nil {
					return err
				}
			}
		case "ByteLevel":
			if !byteLevel || len(all) > 0 {
				return fmt.Errorf("%s: ByteLevel without a pre-tokenizer of that type, or after other decoders, is not supported", field)
			}
			bytes = true
		case "Metaspace":
			m, _, err := parseMetaspace(field, data)
			all = append(all, m.decode)
			return err
		case "Replace":
			r, err := parseReplace(field, data)
			if err == nil && r.pattern.literal == "" {
				err = fmt.Errorf("%s.pattern: a Regex is not supported: want a String", field)
			}
			all = append(all, eachToken(func(token string) string { return strings.ReplaceAll(token, r.pattern.literal, r.content) }))
			return err
		case "ByteFallback":
			all = append(all, joinBytes)
		case "Fuse":
			fused = true
			all = append(all, func(tokens []string) []string { return []string{strings.Join(tokens, "")} })
		case "Strip":
			var strip struct {
				Content string `json:"content"`
				Start   int    `json:"start"`
				Stop    int    `json:"stop"`
			}
			if err := parseField(field, data, &strip); err != nil {
				return err
			}
			if strip.Stop != 0 || strip.Start < 0 || utf8.RuneCountInString(strip.Content) != 1 {
				return fmt.Errorf("%s: stop %d, start %d and content %q are not supported: want stop 0, start 0 or more and one character", field, strip.Stop, strip.Start, strip.Content)
			}
			all = append(all, eachToken(func(token string) string {
				for i := 0; i < strip.Start && strings.HasPrefix(token, strip.Content); i++ {
					token = token[len(strip.Content):]
				}
				return token
			}))
		default:
			return unsupported(field+".type", c.Type, "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip or Sequence")
		}
		return nil
	}
	if err := walk("decoder", data); err != nil {
		return nil, err
	}
	if byteLevel != bytes {
		return nil, fmt.Errorf("decoder: it does not fit pre_tokenizer: want ByteLevel in both or in neither")
	}
	if !byteLevel && all == nil {
		all = []decoder{} // an empty Sequence
	}
	return all, nil
}

func eachToken(f func(token string) string) decoder {
	return func(tokens []string) []string {
		changed := make([]string, len(tokens))
		for i, token := range tokens {
			changed[i] = f(token)
		}
		return changed
	}
}

// decode writes spaces again, but not those that the pre-tokenizer put before the text.
func (m metaspace) decode(tokens []string) []string {
	changed := make([]string, len(tokens))
	for i, token := range tokens {
		space := " "
		if i == 0 && m.scheme != "never" {
			space = ""
		}
		changed[i] = strings.ReplaceAll(token, m.replacement, space)
	}
	return changed
}

// joinBytes makes characters of runs of tokens <0xNN>, and of a run that is no UTF-8 one
// U+FFFD a byte.
func joinBytes(tokens []string) []string {
	var joined []string
	var run []byte
	flush := func() {
		if len(run) == 0 {
			return
		}
		text := string(run)
		if !utf8.Valid(run) {
			text = strings.Repeat(string(utf8.RuneError), len(run))
		}
		joined, run = append(joined, text), run[:0]
	}
	for _, token := range tokens {
		if b, ok := byteToken(token); ok {
			run = append(run, b)
			continue
		}
		flush()
		joined = append(joined, token)
	}
	flush()
	return joined
}

// byteToken returns the byte of a token <0xNN>.
func byteToken(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}
