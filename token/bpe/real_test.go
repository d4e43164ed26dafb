package bpe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// realFile opens a tokenizer.json of a published model. compare/run.sh fetches
// them and sets the variable.
func realFile(t testing.TB, name string) *Tokenizer {
	t.Helper()
	folder := os.Getenv("INFINIRL_TOKENIZERS")
	if folder == "" {
		t.Skip("INFINIRL_TOKENIZERS names no folder with qwen3/tokenizer.json, llama3/tokenizer.json and smollm2/tokenizer.json: see compare/run.sh")
	}
	file, err := os.Open(filepath.Join(folder, name, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tokenizer, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

func TestRealFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		size int
		text string
		want []int32
	}{
		{"qwen3", 151669, "<|im_start|>user\nDon't 123 été<|im_end|>", []int32{151644, 872, 198, 8002, 944, 220, 16, 17, 18, 23639, 151645}},
		{"smollm2", 49152, "<|im_start|>user\nDon't 123 été<|im_end|>", []int32{1, 4093, 198, 8084, 982, 216, 33, 34, 35, 216, 19380, 2756, 2}},
		{"llama3", 128256, "<|begin_of_text|>Don't 123 été", []int32{128000, 8161, 956, 220, 4513, 24560}},
	} {
		tokenizer := realFile(t, c.name)
		if tokenizer.Size() != c.size {
			t.Errorf("%s: size %d, want %d", c.name, tokenizer.Size(), c.size)
		}
		if tokenizer.pre.scan == nil {
			t.Errorf("%s: no scanner", c.name)
		}
		if got := rendered(t, tokenizer, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q: got %v, want %v", c.name, c.text, got, c.want)
		}
		for _, text := range append(texts, fixtureText, strings.Repeat("a", 1<<18)) {
			ids := encode(t, tokenizer, text)
			want := validUTF8(text)
			if tokenizer.normalizers != nil {
				want = nfc(want)
			}
			if got := tokenizer.Decode(ids); got != want {
				t.Errorf("%s: %q decodes to %q", c.name, want, got)
			}
		}
	}
}

// BenchmarkEncode reads the text once and writes 4 bytes for each of its tokens:
// at memory speed that would take well under a nanosecond a byte. The time goes
// into a look-up of each piece in a table larger than the first-level cache.
func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"fixture", "qwen3", "llama3", "smollm2"} {
		b.Run(name, func(b *testing.B) {
			var tokenizer *Tokenizer
			if name == "fixture" {
				tokenizer = load(b, nil)
			} else {
				tokenizer = realFile(b, name)
			}
			for kind, text := range map[string]string{"text": strings.Repeat(fixtureText, 50), "letters": strings.Repeat("a", 1<<16)} {
				b.Run(kind, func(b *testing.B) {
					b.SetBytes(int64(len(text)))
					for b.Loop() {
						rendered(b, tokenizer, text)
					}
				})
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tokenizer := load(b, nil)
	ids := rendered(b, tokenizer, strings.Repeat(fixtureText, 50))
	b.SetBytes(int64(len(tokenizer.Decode(ids))))
	for b.Loop() {
		tokenizer.Decode(ids)
	}
}
