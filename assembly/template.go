package assembly

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/huggingface"
	"github.com/infinirl/infinirl/token"
)

// Names of files in the folder of a Hugging Face model.
const (
	tokenizerFile = "tokenizer.json"
	configFile    = "config.json"
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
	compiled, variables, err := huggingface.ReadTemplate(name, folderOf(path))
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
