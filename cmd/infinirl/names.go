package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"
)

// The names that flags and arguments take. None of them may be empty, which a script
// passes by mistake where a variable is not set.
type (
	environmentName string
	modelName       string   // of a model on a server, or its path
	inputPath       string   // of a file to read; - is standard input
	outputPath      string   // of a file to write; - is standard output
	absolutePath    string   // of a file or folder, absolute
	fieldName       string   // of a recording, dotted
	givenText       string   // any, with a default where the flag is not given
	commandWords    []string // a program with its arguments
	methodNames     []string // with commas between them
)

var (
	errEmptyName = errors.New("the name is empty")
	errEmptyFile = errors.New("the name of the file is empty")
	errEmptyText = errors.New("the value is empty: leave the flag out for its default")
)

// fillName fills in a name that is not empty.
func fillName[T ~string](to *T, text []byte, empty error) error {
	if len(text) == 0 {
		return empty
	}
	*to = T(text)
	return nil
}

func (n *environmentName) UnmarshalText(text []byte) error { return fillName(n, text, errEmptyName) }

func (n *modelName) UnmarshalText(text []byte) error { return fillName(n, text, errEmptyName) }

func (p *inputPath) UnmarshalText(text []byte) error { return fillName(p, text, errEmptyFile) }

func (p *outputPath) UnmarshalText(text []byte) error { return fillName(p, text, errEmptyFile) }

func (n *fieldName) UnmarshalText(text []byte) error { return fillName(n, text, errEmptyName) }

func (t *givenText) UnmarshalText(text []byte) error { return fillName(t, text, errEmptyText) }

// UnmarshalText takes names between commas.
func (m *methodNames) UnmarshalText(text []byte) error {
	for name := range strings.SplitSeq(string(text), ",") {
		if name == "" {
			return errEmptyName
		}
		*m = append(*m, name)
	}
	return nil
}

// UnmarshalText takes words between spaces, or a YAML list. There is no shell: quotes would
// be part of the words, and mean something else than whoever wrote them thinks.
func (c *commandWords) UnmarshalText(text []byte) error {
	words := strings.Fields(string(text))
	switch {
	case len(words) == 0:
		return errEmptyText
	case strings.HasPrefix(words[0], "["):
		words = nil
		if err := yaml.Unmarshal(text, &words); err != nil || len(words) == 0 || words[0] == "" {
			return fmt.Errorf("%s: want a list of a program and its arguments, as in [sh, -c, \"exit 1\"]", text)
		}
	case strings.ContainsAny(string(text), `"'`):
		return fmt.Errorf("%s: there is no shell that reads quotes: want a YAML list, as in [sh, -c, \"exit 1\"]", text)
	}
	*c = words
	return nil
}

func (p *absolutePath) UnmarshalText(text []byte) error {
	if len(text) > 0 {
		text = []byte(kong.ExpandPath(string(text)))
	}
	return fillName(p, text, errEmptyName)
}
