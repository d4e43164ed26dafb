package assembly

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/huggingface"
	"github.com/infinirl/infinirl/chat/template"
	"github.com/infinirl/infinirl/token"
)

// Names of the files of a Hugging Face model.
const (
	tokenizerFile       = "tokenizer.json"
	tokenizerConfigFile = "tokenizer_config.json"
	templateFile        = "chat_template.jinja"
)

// OwnTemplate is the name of the chat template that lies beside the tokenizer.
const OwnTemplate = "auto"

// builtInTemplate is how configurations name ChatML.
const builtInTemplate = "chatml"

// ChatTemplate names the template that writes conversations.
type ChatTemplate struct {
	// Name is "" for ChatML, OwnTemplate, or the path of a Jinja template, of a
	// tokenizer_config.json, or of the folder of a Hugging Face model.
	Name string
	// CallFormat is how calls are written: see huggingface.Options.
	CallFormat string
	// Variables are those of the template beside the special tokens, which
	// tokenizer_config.json tells.
	Variables map[string]any
}

// Renderer returns the tokenizer of a name, as Tokenizer has it, and its renderer by a chat
// template. Errors begin with the name of the option at fault, as a command has it.
func Renderer(tokenizer string, t ChatTemplate) (token.Tokenizer, chat.Renderer, error) {
	named, err := Tokenizer(tokenizer)
	if err != nil {
		return nil, nil, fmt.Errorf("tokenizer: %w", err)
	}
	if t.Name == "" {
		switch {
		case t.CallFormat != "":
			return nil, nil, fmt.Errorf("call-format: %q, and the built-in template writes calls in its own: want a chat template too", chat.Excerpt(t.CallFormat))
		case len(t.Variables) > 0:
			return nil, nil, errors.New("template-variable: the built-in template has none: want a chat template too")
		}
		renderer, err := chat.NewChatML(named)
		return named, renderer, err
	}
	renderer, err := t.renderer(tokenizer, named)
	if err != nil {
		return nil, nil, fmt.Errorf("chat-template: %w", err)
	}
	return named, renderer, nil
}

func (t ChatTemplate) renderer(path string, tokenizer token.Tokenizer) (chat.Renderer, error) {
	rendered, ok := tokenizer.(huggingface.Tokenizer)
	if !ok {
		return nil, fmt.Errorf("a template needs the tokenizer of its model, not %s: want its %s", path, tokenizerFile)
	}
	name := t.Name
	if name == OwnTemplate {
		name = folderOf(path)
	}
	compiled, variables, err := readTemplate(name, folderOf(path))
	if err != nil {
		return nil, err
	}
	for key, value := range t.Variables {
		variables[key] = value
	}
	renderer, err := huggingface.New(compiled, rendered, huggingface.Options{Variables: variables, CallFormat: t.CallFormat})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return renderer, nil
}

// folderOf is the folder of a file, or the path itself if it is one.
func folderOf(path string) string {
	if isFolder(path) {
		return path
	}
	return filepath.Dir(path)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readTemplate reads the template at a path with its variables. Those of a bare
// template stand in the tokenizer_config.json beside it, else beside the tokenizer.
func readTemplate(path, tokenizerFolder string) (*template.Template, map[string]any, error) {
	if isFolder(path) {
		folder := path
		path = filepath.Join(folder, templateFile)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = filepath.Join(folder, tokenizerConfigFile)
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s: neither %s nor %s: want the path of the template itself", folder, templateFile, tokenizerConfigFile)
		}
	}
	text, err := readBounded(path)
	if err != nil {
		return nil, nil, err
	}
	config := make(map[string]json.RawMessage)
	if err := json.Unmarshal(text, &config); err != nil && filepath.Ext(path) == ".json" {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	} else if err != nil { // a bare template
		config = make(map[string]json.RawMessage)
		for _, folder := range []string{filepath.Dir(path), tokenizerFolder} {
			beside := filepath.Join(folder, tokenizerConfigFile)
			found, err := readBounded(beside)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = json.Unmarshal(found, &config)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", beside, err)
			}
			break
		}
		quoted, err := json.Marshal(string(text))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		config["chat_template"] = quoted
	}
	if len(config["chat_template"]) == 0 {
		return nil, nil, fmt.Errorf("%s: it holds no chat_template: want a file with one, or a Jinja template", path)
	}
	whole, err := json.Marshal(config)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	compiled, variables, err := template.ReadConfig(bytes.NewReader(whole), "")
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return compiled, variables, nil
}

// readBounded reads a file of at most 16 MiB: more than any template has.
func readBounded(path string) ([]byte, error) {
	const limit = 16 << 20
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && len(data) > limit {
		err = errors.New("larger than 16 MiB: this is no chat template")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// TakesBareResults returns the error of a template that refuses results whose calls
// are not shown, as a rule that drops the calls alone leaves them.
func TakesBareResults(r chat.Renderer) error {
	whole, ok := r.(*huggingface.Renderer)
	if !ok {
		return nil
	}
	_, err := whole.RenderWhole([]chat.Message{
		{Role: chat.User, Content: "What is it?"},
		{Role: chat.ToolRole, Content: "It is.", ToolCallID: "call00000", Name: "search"},
	}, nil)
	return err
}
