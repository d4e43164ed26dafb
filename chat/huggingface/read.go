package huggingface

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/chat/template"
)

// ReadTemplate reads the template at a path with its variables, which are the special
// tokens. The path is that of a Jinja template, of a tokenizer_config.json or of the folder
// of a model. The variables of a bare template stand in the tokenizer_config.json beside it,
// else in the folder of the tokenizer.
func ReadTemplate(path, tokenizerFolder string) (*template.Template, map[string]any, error) {
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
	if absent(config["chat_template"]) {
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

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// absent tells that a file has no such field, or null in it.
func absent(field json.RawMessage) bool {
	return len(field) == 0 || bytes.Equal(field, []byte("null"))
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
