package bpe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

const fixtureFile = "testdata/tokenizer.json"

// fixtureText is what the merges of the fixture are learnt from.
const fixtureText = `The agent reads the file, runs the tests and reads the file again.
When the prompt is too long, the oldest tool results are dropped; the task and the system message stay.
It doesn't matter what's dropped if we'll never need it. They're the agent's words, and I've read them.
    for i in range(10):
        if results[i] is None:
            return results[:i]
	func reward(tokens []int32) float64 { return 1.0 / float64(len(tokens)) }
Der Agent liest die Datei und führt die Prüfung später aus. L'été à la plage, où ça coûte très cher.
Агент читает файл и запускает тесты. Агент снова читает файл.
智能体读取文件，运行测试，再读取文件。测试运行了很久。
에이전트가 파일을 읽고 테스트를 실행한다. 🙂🙂 👍🏽 👍🏽
`

// train learns merges of the text's pieces: the most frequent pair first, and of
// equally frequent ones the first in byte order. It returns the spellings of the
// vocabulary in the order of their ids.
func train(text string, count int) (vocabulary []string, merges [][2]string) {
	spell := func(s string) string {
		var spelled strings.Builder
		for i := range len(s) {
			spelled.WriteRune(runeOf[s[i]])
		}
		return spelled.String()
	}
	var words [][]string
	for scan, i := knownPattern(patternQwen2), 0; i < len(text); {
		end := scan.next(text, i)
		var word []string
		for ; i < end; i++ {
			word = append(word, spell(text[i:i+1]))
		}
		words = append(words, word)
	}
	for _, r := range runeOf {
		vocabulary = append(vocabulary, string(r))
	}
	for range count {
		counts := make(map[[2]string]int)
		for _, word := range words {
			for i := range len(word) - 1 {
				counts[[2]string{word[i], word[i+1]}]++
			}
		}
		best := slices.MaxFunc(slices.Collect(maps.Keys(counts)), func(a, b [2]string) int {
			return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(b[0], a[0]), cmp.Compare(b[1], a[1]))
		})
		for w, word := range words {
			for i := 0; i+1 < len(word); i++ {
				if word[i] == best[0] && word[i+1] == best[1] {
					word = slices.Replace(word, i, i+2, best[0]+best[1])
				}
			}
			words[w] = word
		}
		merges = append(merges, best)
		vocabulary = append(vocabulary, best[0]+best[1])
	}
	return vocabulary, merges
}

// object is any JSON object, for changing files.
type object = map[string]any

// newFixture builds the fixture: a small tokenizer of the Qwen kind.
func newFixture() object {
	spellings, pairs := train(fixtureText, 300)
	vocabulary := make(object)
	for id, spelling := range spellings {
		vocabulary[spelling] = id
	}
	merges := make([]any, len(pairs))
	for i, pair := range pairs {
		merges[i] = pair[0] + " " + pair[1]
	}
	var added []any
	for i, a := range []addedToken{
		{Content: "<|endoftext|>", Special: true},
		{Content: "<|im_start|>", Special: true},
		{Content: "<|im_end|>", Special: true},
		{Content: "<think>"},
		{Content: "<think>\n"},
		{Content: "<left>", LStrip: true, Special: true},
		{Content: "<right>", RStrip: true, Special: true},
		{Content: "<word>", SingleWord: true, Special: true},
		{Content: "cafe\u0301", Normalized: true},
		{Content: "      ", Normalized: true},
	} {
		a.ID = int32(len(spellings) + i)
		added = append(added, a)
	}
	return object{
		"version":      "1.0",
		"truncation":   nil,
		"padding":      nil,
		"added_tokens": added,
		"normalizer":   object{"type": "NFC"},
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []any{
			object{"type": "Split", "pattern": object{"Regex": patternQwen2}, "behavior": "Isolated", "invert": false},
			object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
		}},
		"post_processor": object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
		"decoder":        object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
		"model": object{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": "", "end_of_word_suffix": "",
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocabulary, "merges": merges},
	}
}

func marshal(t testing.TB, file any) []byte {
	t.Helper()
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(file); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// readFixture returns the fixture as a file that a test can change.
func readFixture(t testing.TB) object {
	t.Helper()
	data, err := os.ReadFile(fixtureFile)
	if err != nil {
		t.Fatal(err)
	}
	var file object
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// load reads the fixture after change, if not nil, has changed it.
func load(t testing.TB, change func(file object)) *Tokenizer {
	t.Helper()
	file := readFixture(t)
	if change != nil {
		change(file)
	}
	tokenizer, err := Read(bytes.NewReader(marshal(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

// field returns the object inside file at a path of keys.
func field(file object, path ...string) object {
	for _, key := range path {
		file = file[key].(object)
	}
	return file
}

// TestFixture shows that the fixture is what newFixture builds.
func TestFixture(t *testing.T) {
	built := marshal(t, newFixture())
	if *update {
		if err := os.WriteFile(fixtureFile, built, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(fixtureFile); err != nil || !bytes.Equal(data, built) {
		t.Fatalf("%s is not what this test builds (error %v): run go test -update", fixtureFile, err)
	}
}
