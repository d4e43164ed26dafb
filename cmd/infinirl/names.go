package main

import (
	"errors"

	"github.com/alecthomas/kong"
)

// The names that flags and arguments take. None of them may be empty, which a script
// passes by mistake where a variable is not set.
type (
	name       string // of an environment
	inputPath  string // of a file to read; - is standard input
	outputPath string // of a file to write; - is standard output
	path       string // of a file or folder, absolute
)

var (
	errEmptyName = errors.New("the name is empty")
	errEmptyFile = errors.New("the name of the file is empty")
)

// set fills in a name that is not empty.
func set[T ~string](to *T, text []byte, empty error) error {
	if len(text) == 0 {
		return empty
	}
	*to = T(text)
	return nil
}

func (n *name) UnmarshalText(text []byte) error { return set(n, text, errEmptyName) }

func (p *inputPath) UnmarshalText(text []byte) error { return set(p, text, errEmptyFile) }

func (p *outputPath) UnmarshalText(text []byte) error { return set(p, text, errEmptyFile) }

func (p *path) UnmarshalText(text []byte) error {
	if len(text) > 0 {
		text = []byte(kong.ExpandPath(string(text)))
	}
	return set(p, text, errEmptyName)
}
