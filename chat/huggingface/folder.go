package huggingface

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/chat/template"
	"github.com/infinirl/infinirl/token/bpe"
)

// Names of the files of a model's folder.
const (
	tokenizerFile        = "tokenizer.json"
	tokenizerConfigFile  = "tokenizer_config.json"
	templateFile         = "chat_template.jinja"
	configFile           = "config.json"
	generationConfigFile = "generation_config.json"
)

// maxConfig bounds the JSON files of a folder beside its tokenizer: that of the many added
// tokens of the largest known makes a megabyte.
const maxConfig = 64 << 20

// Folder is what the folder of a Hugging Face model tells beside the weights.
type Folder struct {
	Tokenizer *bpe.Tokenizer
	// Template writes conversations. It is nil where the folder has none, as those of base
	// models: one of another origin may be put here.
	Template *template.Template
	// Variables of the template: bos_token, eos_token and the like.
	Variables map[string]any
	// Ends are the tokens that end what the model writes, each once: eos_token_id of
	// generation_config.json, then that of config.json, then eos_token of
	// tokenizer_config.json.
	Ends []int32
	// VocabSize is the number of rows of the embedding. No id of the tokenizer is
	// beyond them; the last rows may be those of no token.
	VocabSize int

	path string
}

// ReadFolder reads tokenizer.json, config.json and, where they are, the chat template,
// tokenizer_config.json and generation_config.json. Files that do not fit one another are
// an error: a token that the embedding has no row for, an end that is no token, a special
// token that only tokenizer_config.json has.
func ReadFolder(path string) (*Folder, error) {
	f := &Folder{path: path, Variables: make(map[string]any)}
	if err := f.read(); err != nil {
		return nil, fmt.Errorf("huggingface: %w", err)
	}
	return f, nil
}

// Renderer returns the renderer of the folder's template and tokenizer, whose replies end
// where the model's do. Variables of the options take the place of the folder's.
func (f *Folder) Renderer(o Options) (*Renderer, error) {
	if f.Template == nil {
		return nil, fmt.Errorf("huggingface: %s: no chat template: want %s or chat_template in %s, or another model's", f.path, templateFile, tokenizerConfigFile)
	}
	variables := maps.Clone(f.Variables)
	maps.Copy(variables, o.Variables)
	o.Variables = variables
	r, err := New(f.Template, f.Tokenizer, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	for _, id := range f.Ends {
		if id != r.end && !slices.Contains(r.ends, id) {
			r.ends = append(r.ends, id)
		}
	}
	return r, nil
}

func (f *Folder) read() error {
	if err := f.readTokenizer(); err != nil {
		return err
	}
	var model struct {
		VocabSize int             `json:"vocab_size"`
		End       json.RawMessage `json:"eos_token_id"`
		Text      struct {        // of models that see as well
			VocabSize int             `json:"vocab_size"`
			End       json.RawMessage `json:"eos_token_id"`
		} `json:"text_config"`
	}
	if err := f.readJSON(configFile, &model); err != nil {
		return err
	}
	f.VocabSize = model.VocabSize
	if f.VocabSize == 0 {
		f.VocabSize = model.Text.VocabSize
	}
	if f.VocabSize < 1 {
		return fmt.Errorf("%s: vocab_size: %d: want the number of rows of the embedding", f.file(configFile), f.VocabSize)
	}
	if last := f.Tokenizer.Size() - 1; last >= f.VocabSize {
		return fmt.Errorf("%s: token %q has id %d, and the embedding has rows for 0 to %d (vocab_size %d of %s): want the tokenizer of this model, or more rows",
			f.file(tokenizerFile), f.Tokenizer.Decode([]int32{int32(last)}), last, f.VocabSize-1, f.VocabSize, configFile)
	}
	var generation struct {
		End json.RawMessage `json:"eos_token_id"`
	}
	if err := f.readJSON(generationConfigFile, &generation); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, end := range []struct {
		file string
		ids  json.RawMessage
	}{{generationConfigFile, generation.End}, {configFile, model.End}, {configFile, model.Text.End}} {
		if err := f.addEnds(end.ids); err != nil {
			return fmt.Errorf("%s: eos_token_id: %w", f.file(end.file), err)
		}
	}
	return f.readTemplate()
}

func (f *Folder) file(name string) string { return filepath.Join(f.path, name) }

func (f *Folder) readTokenizer() error {
	file, err := os.Open(f.file(tokenizerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: a tokenizer in another form, such as tokenizer.model, is not read: save it with transformers' AutoTokenizer", err)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if f.Tokenizer, err = bpe.Read(file); err != nil {
		return fmt.Errorf("%s: %w", f.path, err) // which names the file
	}
	return nil
}

// readJSON reads a file of the folder.
func (f *Folder) readJSON(name string, to any) error {
	data, err := bounded.ReadFile(f.file(name), maxConfig)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%s: %w", f.file(name), err)
	}
	return nil
}

// addEnds adds the ids of a field: one, several or null.
func (f *Folder) addEnds(field json.RawMessage) error {
	if absent(field) {
		return nil
	}
	var ids []int32
	var id int32
	if json.Unmarshal(field, &id) == nil {
		ids = []int32{id}
	} else if json.Unmarshal(field, &ids) != nil {
		return fmt.Errorf("%.40s: want an id or an array of ids", field)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= f.Tokenizer.Size() {
			return fmt.Errorf("%d: want the id of a token: %s has 0 to %d", id, tokenizerFile, f.Tokenizer.Size()-1)
		}
		f.addEnd(id)
	}
	return nil
}

func (f *Folder) addEnd(id int32) {
	if !slices.Contains(f.Ends, id) {
		f.Ends = append(f.Ends, id)
	}
}

// readTemplate reads the chat template and tokenizer_config.json.
func (f *Folder) readTemplate() error {
	var config struct {
		Template json.RawMessage `json:"chat_template"`
		End      spelling        `json:"eos_token"`
		Added    map[int32]struct {
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens_decoder"`
	}
	if err := f.readJSON(tokenizerConfigFile, &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// transformers adds what tokenizer.json lacks, and so to others' ids than these.
	for _, id := range slices.Sorted(maps.Keys(config.Added)) {
		added := config.Added[id]
		if got, ok := f.Tokenizer.Control(added.Content); added.Special && (!ok || got != id) {
			return fmt.Errorf("%s: added_tokens_decoder: special token %q has id %d, which it has not in %s: want files of one model",
				f.file(tokenizerConfigFile), added.Content, id, tokenizerFile)
		}
	}
	if config.End != "" {
		id, ok := f.Tokenizer.Control(string(config.End))
		if !ok {
			return fmt.Errorf("%s: eos_token: %q: want a special token of %s", f.file(tokenizerConfigFile), config.End, tokenizerFile)
		}
		f.addEnd(id)
	}
	if _, err := os.Stat(f.file(templateFile)); errors.Is(err, fs.ErrNotExist) && absent(config.Template) {
		return nil
	}
	var err error
	f.Template, f.Variables, err = ReadTemplate(f.path, f.path)
	return err
}

// spelling is a token in tokenizer_config.json: its text, or an object with it.
type spelling string

func (s *spelling) UnmarshalJSON(data []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(data, (*string)(s)) == nil {
		return nil
	}
	err := json.Unmarshal(data, &object)
	*s = spelling(object.Content)
	return err
}
