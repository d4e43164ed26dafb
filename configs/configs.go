// Package configs holds the configurations that ship with the program.
package configs

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names lists the shipped configurations, in alphabetical order.
func Names() []string {
	entries, err := fs.Glob(files, "*.yaml")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	for i, e := range entries {
		entries[i] = strings.TrimSuffix(e, ".yaml")
	}
	return entries
}

// Read returns the text of a shipped configuration.
func Read(name string) ([]byte, error) {
	data, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no configuration named %q: want %s", name, strings.Join(Names(), " or "))
	}
	return data, nil
}
