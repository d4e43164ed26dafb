package bpe

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// texts are what several tests look at.
var texts = []string{
	"",
	" ",
	"The agent reads the file.",
	"It doesn't matter, THEY'LL see; 'ſ too.",
	"  four  spaces \t\n\n\n  and\r\nlines  ",
	"x = results[12345] / 0.5",
	"e\u0301te\u0301 = été; \u1100\u1161\u11a8 = 각",
	"Агент читает 文件，测试运行 🙂👍🏽",
	"a\xffb\xe2\x82c\xf0\x9f\x98",
	"<|im_start|>user\nhi<|im_end|>\n",
	"<think>\nyes<think>no",
	"a  <left>  b  <right>  c",
	"<word> a<word> <word>b é<word> <word>",
	"café and cafe\u0301",
	"if x:\n            return       y",
	"<|im_start|><|im_end<|im_end|>",
}

// TestGolden pins ids. testdata/golden.txt shows for each text the tokens that
// EncodeRendered and, where it differs, Encode return.
func TestGolden(t *testing.T) {
	t.Parallel()
	tokenizer := load(t, nil)
	var got strings.Builder
	show := func(name string, ids []int32) {
		fmt.Fprintf(&got, "  %s", name)
		for _, id := range ids {
			fmt.Fprintf(&got, " %d:%q", id, tokenizer.model.text[id])
		}
		got.WriteByte('\n')
	}
	for _, text := range texts {
		fmt.Fprintf(&got, "%q\n", text)
		whole, plain := rendered(t, tokenizer, text), encode(t, tokenizer, text)
		show("rendered", whole)
		if !slices.Equal(whole, plain) {
			show("plain   ", plain)
		}
		fmt.Fprintf(&got, "  decoded  %q\n", tokenizer.Decode(whole))
	}
	const file = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("%s differs (run go test -update if that is meant):\n%s", file, got.String())
	}
}

func encode(t testing.TB, tokenizer *Tokenizer, text string) []int32 {
	t.Helper()
	ids, err := tokenizer.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func rendered(t testing.TB, tokenizer *Tokenizer, text string) []int32 {
	t.Helper()
	ids, err := tokenizer.EncodeRendered(text)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// spans fails where a pattern does.
func spans(t testing.TB, p *pattern, text string) []span {
	t.Helper()
	spans, err := p.spans(text, newDeadline(text))
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

// naive is appendText done in the plainest way: the library's regular expression,
// and merges found by trying the list from its start.
func naive(t testing.TB, file object, text string) []int32 {
	t.Helper()
	expression := field(file["pre_tokenizer"].(object)["pretokenizers"].([]any)[0].(object), "pattern")["Regex"].(string)
	general, err := compileGeneral(expression)
	if err != nil {
		t.Fatal(err)
	}
	vocabulary := field(file, "model", "vocab")
	var ids []int32
	for _, span := range spans(t, general, text) {
		var symbols []string
		for _, b := range []byte(text[span.start:span.end]) {
			symbols = append(symbols, string(runeOf[b]))
		}
		// Learnt merges only make longer tokens out of earlier ones, so that each
		// needs to be tried once.
		for _, merge := range field(file, "model")["merges"].([]any) {
			left, right, _ := strings.Cut(merge.(string), " ")
			for i := 0; i+1 < len(symbols); i++ {
				if symbols[i] == left && symbols[i+1] == right {
					symbols = slices.Replace(symbols, i, i+2, left+right)
				}
			}
		}
		for _, symbol := range symbols {
			ids = append(ids, int32(vocabulary[symbol].(float64)))
		}
	}
	return ids
}

// FuzzEncode holds Encode against its naive twin and Decode against Encode.
func FuzzEncode(f *testing.F) {
	file := readFixture(f)
	noAdded := func(file object) { file["added_tokens"] = []any{} }
	composing := load(f, noAdded)
	plain := load(f, func(file object) {
		noAdded(file)
		file["normalizer"] = nil
	})
	for _, text := range append(texts, fixtureText, strings.Repeat("therther", 200)) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		valid := validUTF8(text)
		if utf8.ValidString(text) && valid != text || valid != strings.ToValidUTF8(valid, "?") {
			t.Fatalf("validUTF8(%q) = %q", text, valid)
		}
		ids := encode(t, plain, text)
		if want := naive(t, file, valid); !slices.Equal(ids, want) {
			t.Errorf("Encode(%q) = %v, want %v", text, ids, want)
		}
		if got := plain.Decode(ids); got != valid {
			t.Errorf("Decode(Encode(%q)) = %q", text, got)
		}
		if got := composing.Decode(encode(t, composing, text)); got != nfc(valid) {
			t.Errorf("with NFC, Decode(Encode(%q)) = %q, want %q", text, got, nfc(valid))
		}
	})
}

// FuzzControls holds the laws of control tokens: they cut a rendered text into
// parts that are encoded each for itself, and Encode never returns one.
func FuzzControls(f *testing.F) {
	tokenizer := load(f, nil)
	for i, text := range texts {
		f.Add(text, texts[len(texts)-1-i])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		const name = "<|im_end|>"
		id, ok := tokenizer.Control(name)
		if !ok {
			t.Fatalf("no control token %s", name)
		}
		want := append(append(rendered(t, tokenizer, before), id), rendered(t, tokenizer, after)...)
		if got := rendered(t, tokenizer, before+name+after); !slices.Equal(got, want) {
			t.Errorf("EncodeRendered(%q + %s + %q) = %v, want %v", before, name, after, got, want)
		}
		for _, id := range encode(t, tokenizer, before+name+after) {
			if _, ok := tokenizer.Control(tokenizer.Decode([]int32{id})); ok {
				t.Errorf("Encode(%q + %s + %q) has control token %d", before, name, after, id)
			}
		}
	})
}

// FuzzStream holds the streaming decoder against Decode, for any ids.
func FuzzStream(f *testing.F) {
	tokenizer := load(f, nil)
	f.Add([]byte("a\xe2\x82\xacb"), uint16(300))
	f.Add([]byte("\xf0\x9f\x98"), uint16(65000))
	f.Fuzz(func(t *testing.T, single []byte, among uint16) {
		var ids []int32
		for i, b := range single {
			ids = append(ids, tokenizer.model.single[b])
			if i%3 == 2 {
				ids = append(ids, int32(among), -1)
			}
		}
		var got strings.Builder
		s := tokenizer.Stream()
		for range 2 { // Flush leaves it as new
			got.Reset()
			for _, id := range ids {
				part := s.Next(id)
				if !utf8.ValidString(part) {
					t.Fatalf("Next(%d) = %q", id, part)
				}
				got.WriteString(part)
			}
			got.WriteString(s.Flush())
		}
		if want := tokenizer.Decode(ids); got.String() != want {
			t.Errorf("stream of %v = %q, want %q", ids, got.String(), want)
		}
	})
}

func TestStreamHoldsBackPartsOfCharacters(t *testing.T) {
	t.Parallel()
	tokenizer := load(t, nil)
	s := tokenizer.Stream()
	var got []string
	for _, b := range []byte("é€🙂\xff!\xf0\x9f") {
		got = append(got, s.Next(tokenizer.model.single[b]))
	}
	got = append(got, s.Flush())
	want := []string{"", "é", "", "", "€", "", "", "", "🙂", "\uFFFD", "!", "", "", "\uFFFD"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecodeUnknown(t *testing.T) {
	t.Parallel()
	tokenizer := load(t, nil)
	size := int32(tokenizer.Size())
	if got := tokenizer.Decode([]int32{-1, 'a', size, 1 << 30}); got != "\uFFFDa\uFFFD\uFFFD" {
		t.Errorf("got %q", got)
	}
	if got := tokenizer.Decode([]int32{size - 3}); got != "<word>" {
		t.Errorf("got %q", got)
	}
}

// TestSettings shows what the settings of a file change.
func TestSettings(t *testing.T) {
	t.Parallel()
	endOfText := int32(556)
	template := object{
		"type":   "TemplateProcessing",
		"single": []any{object{"SpecialToken": object{"id": "bos", "type_id": 0}}, object{"Sequence": object{"id": "A", "type_id": 0}}, object{"SpecialToken": object{"id": "bos", "type_id": 0}}},
		"pair":   []any{},
		"special_tokens": object{
			"bos": object{"id": "bos", "ids": []any{endOfText}, "tokens": []any{"<|endoftext|>"}},
		},
	}
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}
	steps := func(steps ...any) func(object) {
		return func(file object) {
			file["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": append(steps, byteLevel)}
		}
	}
	split := func(pattern object, behavior string, invert bool) object {
		return object{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
	}
	for _, c := range []struct {
		name   string
		change func(file object)
		text   string
		want   []string // tokens of the wrapped encoding
	}{
		{"as it is", nil, "the file the", []string{"t", "he", " file", " the"}},
		{"merges as pairs", func(file object) {
			var pairs []any
			for _, merge := range field(file, "model")["merges"].([]any) {
				left, right, _ := strings.Cut(merge.(string), " ")
				pairs = append(pairs, []any{left, right})
			}
			field(file, "model")["merges"] = pairs
		}, "the file the", []string{"t", "he", " file", " the"}},
		{"no merges", func(file object) { field(file, "model")["merges"] = []any{} }, "the", []string{"t", "h", "e"}},
		{"ignore_merges", func(file object) {
			field(file, "model")["merges"] = []any{}
			field(file, "model")["ignore_merges"] = true
		}, " the thes", []string{" the", " ", "t", "h", "e", "s"}},
		{"template", func(file object) { file["post_processor"] = template }, " the", []string{"<|endoftext|>", " the", "<|endoftext|>"}},
		{"template in a sequence", func(file object) {
			file["post_processor"] = object{"type": "Sequence", "processors": []any{byteLevel, template}}
		}, " the", []string{"<|endoftext|>", " the", "<|endoftext|>"}},
		{"GPT-2", func(file object) {
			file["pre_tokenizer"] = object{"type": "ByteLevel", "add_prefix_space": true}
		}, "the the's", []string{" the", " the", "'s"}},
		{"removed", steps(split(object{"String": " "}, "Removed", false)), "the file", []string{"t", "he", "f", "ile"}},
		{"merged with previous", steps(split(object{"Regex": " +"}, "MergedWithPrevious", false)), "a  the", []string{"a", "  ", "t", "he"}},
		{"merged with next", steps(split(object{"String": " "}, "MergedWithNext", false)), "  the", []string{" ", " the"}},
		{"inverted", steps(split(object{"Regex": `\p{L}+`}, "Removed", true)), "1 the 2", []string{"t", "he"}},
		{"contiguous", steps(split(object{"Regex": ` `}, "Contiguous", false)), "a    a", []string{"a", "    ", "a"}},
		{"newer letters in a general pattern", steps(split(object{"Regex": `\p{Lu}+`}, "Removed", false)), "A\u1c89a", []string{"a"}},
		{"byte fallback", func(file object) {
			vocabulary := field(file, "model", "vocab")
			vocabulary["<0x7A>"] = vocabulary["z"]
			delete(vocabulary, "z")
			field(file, "model")["byte_fallback"] = true
		}, "za", []string{"<0x7A>", "a"}},
		{"unknown", func(file object) {
			vocabulary := field(file, "model", "vocab")
			vocabulary["<unk>"] = vocabulary["z"]
			delete(vocabulary, "z")
			field(file, "model")["unk_token"] = "<unk>"
		}, "zza", []string{"<unk>", "<unk>", "a"}},
		{"unknown, fused", func(file object) {
			vocabulary := field(file, "model", "vocab")
			vocabulary["<unk>"] = vocabulary["z"]
			delete(vocabulary, "z")
			field(file, "model")["unk_token"] = "<unk>"
			field(file, "model")["fuse_unk"] = true
		}, "zza", []string{"<unk>", "a"}},
		{"neither", func(file object) {
			vocabulary := field(file, "model", "vocab")
			vocabulary["some"] = vocabulary["z"]
			delete(vocabulary, "z")
		}, "zza", []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tokenizer := load(t, c.change)
			var got []string
			for _, id := range tokenizer.Wrap(rendered(t, tokenizer, c.text)) {
				got = append(got, tokenizer.Decode([]int32{id}))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q: got %q, want %q", c.text, got, c.want)
			}
		})
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	tokenizer := load(t, nil)
	want := rendered(t, tokenizer, fixtureText)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got := rendered(t, tokenizer, fixtureText); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	group.Wait()
}

// TestLongPiece encodes pieces so long that quadratic time would be hours.
func TestLongPiece(t *testing.T) {
	t.Parallel()
	tokenizer := load(t, nil)
	r := rand.New(rand.NewPCG(1, 2))
	var letters strings.Builder
	for range 1 << 20 {
		letters.WriteByte("aehlrst"[r.IntN(7)])
	}
	for _, text := range []string{
		strings.Repeat("e", 1<<20), letters.String(), strings.Repeat(" ", 1<<20), strings.Repeat("\n \n", 1<<18),
		strings.Repeat("'", 1<<20), strings.Repeat("<", 1<<20), strings.Repeat("<|im_start", 1<<16), "e" + strings.Repeat("\u0323\u0301", 1<<17),
	} {
		if got := tokenizer.Decode(rendered(t, tokenizer, text)); got != nfc(text) {
			t.Errorf("a text of %d bytes that starts with %q does not survive", len(text), text[:8])
		}
	}
}
