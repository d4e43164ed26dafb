package huggingface

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/chat/template"
	"github.com/infinirl/infinirl/token"
	"github.com/infinirl/infinirl/token/bpe"
)

// spelled is a tokenizer of one id a byte, with control tokens.
type spelled struct{ token.Bytes }

// controls of spelled have ids from 256 on. Those of the first form are special.
var controls = []string{"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
	"<think>", "</think>", "<tool_call>", "</tool_call>"}

func (spelled) EncodeRendered(text string) ([]int32, error) { return encode(text), nil }

func encode(text string) []int32 {
	var ids []int32
next:
	for text != "" {
		for i, name := range controls {
			if rest, ok := strings.CutPrefix(text, name); ok {
				ids, text = append(ids, int32(256+i)), rest
				continue next
			}
		}
		ids, text = append(ids, int32(text[0])), text[1:]
	}
	return ids
}

func (s spelled) Decode(ids []int32) string {
	var text strings.Builder
	for start := 0; start < len(ids); {
		if id := ids[start]; id >= 256 && int(id) < 256+len(controls) {
			text.WriteString(controls[id-256])
			start++
			continue
		}
		end := start
		for end < len(ids) && ids[end] < 256 {
			end++
		}
		text.WriteString(s.Bytes.Decode(ids[start:end]))
		start = end
	}
	return text.String()
}

func (spelled) Control(name string) (int32, bool) {
	i := slices.Index(controls, name)
	return int32(256 + i), i >= 0
}

func (spelled) Special(id int32) bool {
	return id >= 256 && strings.HasPrefix(controls[id-256], "<|")
}

// fixture reads fixtureFile.
var fixture = sync.OnceValues(func() (*bpe.Tokenizer, error) {
	data, err := fixtureFile()
	if err != nil {
		return nil, err
	}
	return bpe.Read(bytes.NewReader(data))
})

// fixtureFile is the tokenizer.json of package bpe's tests, with the tokens of testdata.
var fixtureFile = sync.OnceValues(func() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join("..", "..", "token", "bpe", "testdata", "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	if data, err = os.ReadFile(filepath.Join("testdata", "added.json")); err != nil {
		return nil, err
	}
	var more []map[string]any
	if err := json.Unmarshal(data, &more); err != nil {
		return nil, err
	}
	added := file["added_tokens"].([]any)
	id := added[len(added)-1].(map[string]any)["id"].(float64)
	for _, entry := range more {
		id++
		entry["id"] = id
		added = append(added, entry)
	}
	file["added_tokens"] = added
	return json.Marshal(file)
})

// published is the folder of real templates that the Jinja engine's module brings.
var published = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ardanlabs/jinja").Output()
	return filepath.Join(strings.TrimSpace(string(out)), "testdata", "templates"), err
})

// read compiles a template: of package template's tests, or a published one.
func read(t testing.TB, name string) *template.Template {
	t.Helper()
	path := filepath.Join("..", "template", "testdata", name)
	if _, err := os.Stat(path); err != nil {
		folder, err := published()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(folder, name)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, string(source))
}

func compile(t testing.TB, source string) *template.Template {
	t.Helper()
	compiled, err := template.Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

const (
	qwen3   = "Qwen3-8B-Q8_0.jinja"
	qwen35  = "Qwen3.5-35B-A3B-Q8_0.jinja"
	qwen3VL = "Qwen3-VL-30B-A3B-Instruct-Q8_0.jinja"
	llama32 = "Llama-3.2-1B-Instruct-GGUF.jinja"
)

// variables that the templates of the tests take.
func variables(more map[string]any) map[string]any {
	out := map[string]any{"bos_token": "<|begin_of_text|>", "date_string": "26 Jul 2024"}
	for name, value := range more {
		out[name] = value
	}
	return out
}
