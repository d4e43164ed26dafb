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

var errEmptyName = errors.New("the name is empty")

// set fills in a name that is not empty.
func set[T ~string](to *T, text []byte) error {
	if len(text) == 0 {
		return errEmptyName
	}
	*to = T(text)
	return nil
}

func (n *name) UnmarshalText(text []byte) error { return set(n, text) }

func (p *inputPath) UnmarshalText(text []byte) error { return set(p, text) }

func (p *outputPath) UnmarshalText(text []byte) error { return set(p, text) }

func (p *path) UnmarshalText(text []byte) error {
	if len(text) > 0 {
		text = []byte(kong.ExpandPath(string(text)))
	}
	return set(p, text)
}
