package assembly

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/token"
	"github.com/infinirl/infinirl/token/bpe"
)

// Tokenizer returns the tokenizer of a name: bytes, or the path of a tokenizer.json or
// of a folder with one.
func Tokenizer(name string) (token.Tokenizer, error) {
	if name == "bytes" {
		return token.Bytes{}, nil
	}
	if isFolder(name) {
		name = filepath.Join(name, tokenizerFile)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tokenizer, err := bpe.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tokenizer, nil
}

// Scorer gives log-probs under a model: one file, a directory with one, or a checkpoint of
// a run, whose actor it is then.
func Scorer(dir string, temperature float64) (learner.Scorer, error) {
	model, err := loadModel(dir)
	if err != nil {
		return nil, err
	}
	return embedded.NewReference(model, embedded.Config{Temperature: temperature}), nil
}
