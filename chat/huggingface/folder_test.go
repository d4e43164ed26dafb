package huggingface

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
)

// folder writes the files of a model to a new folder, with the tokenizer of the fixture.
// An empty text is no file.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	data, err := fixtureFile()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	all := map[string]string{tokenizerFile: string(data), configFile: `{"vocab_size": 600, "eos_token_id": 557}`}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadFolder(t *testing.T) {
	t.Parallel()
	tokenizer, err := fixture()
	if err != nil {
		t.Fatal(err)
	}
	id := func(name string) int32 {
		id, ok := tokenizer.Control(name)
		if !ok {
			t.Fatalf("no token %s", name)
		}
		return id
	}
	start, end, text := id("<|im_start|>"), id("<|im_end|>"), id("<|endoftext|>")
	source, err := os.ReadFile(filepath.Join("..", "template", "testdata", "chatml.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files map[string]string
		ends  []int32
		stops []int32 // of the renderer; nil: there is no template
		bos   any
	}{
		"of all files, each once": {
			map[string]string{
				templateFile: string(source), generationConfigFile: `{"eos_token_id": [557, 556]}`, configFile: `{"vocab_size": 600, "eos_token_id": 556}`,
				tokenizerConfigFile: `{"eos_token": "<|im_end|>", "bos_token": {"content": "<|im_start|>"}, "added_tokens_decoder": {"557": {"content": "<|im_start|>", "special": true}, "97": {"content": "zz"}}}`,
			}, []int32{start, text, end}, []int32{end, start, text}, "<|im_start|>",
		},
		"a model that sees": {
			map[string]string{configFile: `{"text_config": {"vocab_size": 600, "eos_token_id": [556]}}`, tokenizerConfigFile: `{"chat_template": null, "eos_token": null}`}, []int32{text}, nil, nil,
		},
		"an object, a template beside": {
			map[string]string{configFile: `{"vocab_size": 600, "eos_token_id": null}`, templateFile: string(source), tokenizerConfigFile: `{"eos_token": {"content": "<|im_end|>"}}`}, []int32{end}, []int32{end}, nil,
		},
		"no ends": {map[string]string{configFile: `{"vocab_size": 600}`, templateFile: string(source)}, nil, []int32{end}, nil},
	} {
		f, err := ReadFolder(folder(t, c.files))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(f.Ends, c.ends) || f.VocabSize != 600 || f.Tokenizer.Size() != tokenizer.Size() || f.Variables["bos_token"] != c.bos {
			t.Errorf("%s: ends %v, want %v; %d rows, %d tokens, variables %v", name, f.Ends, c.ends, f.VocabSize, f.Tokenizer.Size(), f.Variables)
		}
		r, err := f.Renderer(Options{CallFormat: "hermes"})
		if c.stops == nil {
			if err == nil || !strings.Contains(err.Error(), "no chat template: want chat_template.jinja or chat_template in tokenizer_config.json") {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if stops := slices.Concat(r.Stop()...); !slices.Equal(stops, c.stops) {
			t.Errorf("%s: stops %v, want %v", name, stops, c.stops)
		}
		prompt, err := r.Start([]chat.Message{{Role: chat.User, Content: "so"}}, nil)
		if err != nil || len(prompt) == 0 || prompt[0] != start {
			t.Errorf("%s: prompt %v, error %v", name, prompt, err)
		}
	}
}

// The variables of the options take the place of the folder's, which stay as they are.
func TestVariablesOfAFolder(t *testing.T) {
	t.Parallel()
	f, err := ReadFolder(folder(t, map[string]string{tokenizerConfigFile: `{"bos_token": "<|endoftext|>",
		"chat_template": "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role + '\n' + m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"}`}))
	if err != nil {
		t.Fatal(err)
	}
	for bos, variables := range map[string]map[string]any{"<|endoftext|>": nil, "<|im_end|>": {"bos_token": "<|im_end|>"}} {
		r, err := f.Renderer(Options{CallFormat: "hermes", Variables: variables})
		if err != nil {
			t.Fatal(err)
		}
		prompt, err := r.Start([]chat.Message{{Role: chat.User, Content: "so"}}, nil)
		if want := bos + "<|im_start|>user\nso<|im_end|>\n"; err != nil || f.Tokenizer.Decode(prompt) != want {
			t.Errorf("%q, %v: want %q", f.Tokenizer.Decode(prompt), err, want)
		}
	}
}

func TestUnfitFolders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, text string
		want       string
	}{
		{tokenizerFile, "", "a tokenizer in another form, such as tokenizer.model, is not read"},
		{tokenizerFile, `{"model": {"type": "Unigram"}}`, `tokenizer.json: model.type: "Unigram" is not supported: want BPE`},
		{configFile, "", "config.json: no such file"},
		{configFile, "{", "config.json: unexpected end of JSON input"},
		{configFile, "{}", "config.json: vocab_size: 0: want the number of rows of the embedding"},
		{configFile, `{"vocab_size": 559}`, `, and the embedding has rows for 0 to 558 (vocab_size 559 of config.json): want the tokenizer of this model`},
		{configFile, `{"vocab_size": 600, "eos_token_id": 599}`, "config.json: eos_token_id: 599: want the id of a token: tokenizer.json has 0 to "},
		{generationConfigFile, `{"eos_token_id": [557, -1]}`, "generation_config.json: eos_token_id: -1: want the id of a token"},
		{generationConfigFile, `{"eos_token_id": "</s>"}`, `generation_config.json: eos_token_id: "</s>": want an id or an array of ids`},
		{generationConfigFile, `[]`, `generation_config.json: json: cannot unmarshal array`},
		{tokenizerConfigFile, `{"eos_token": "</s>"}`, `tokenizer_config.json: eos_token: "</s>": want a special token of tokenizer.json`},
		{tokenizerConfigFile, `{"eos_token": 7}`, `tokenizer_config.json: json: cannot unmarshal number`},
		{tokenizerConfigFile, `{"added_tokens_decoder": {"599": {"content": "<|pad|>", "special": true}}}`,
			`tokenizer_config.json: added_tokens_decoder: special token "<|pad|>" has id 599, which it has not in tokenizer.json: want files of one model`},
		{tokenizerConfigFile, `{"added_tokens_decoder": {"600": {"content": "<|im_end|>", "special": true}}}`, `special token "<|im_end|>" has id 600`},
		{tokenizerConfigFile, `{"chat_template": "{% if %}"}`, `tokenizer_config.json: chat template: `},
		{templateFile, `{% if %}`, `chat_template.jinja: chat template: `},
	} {
		_, err := ReadFolder(folder(t, map[string]string{c.file: c.text}))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "huggingface: ") {
			t.Errorf("%s %q: error %v, want %q", c.file, c.text, err, c.want)
		}
	}
}
