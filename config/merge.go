package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/configs"
	"github.com/infinirl/infinirl/train"
)

// Shipped returns the shipped configuration of that name.
func Shipped(name string) (Config, error) {
	var cfg Config
	text, err := configs.Read(name)
	if err != nil {
		return cfg, err
	}
	// The file of the default environment is complete; the others only say what differs.
	defaults, err := configs.Read(DefaultEnv)
	if err != nil {
		return cfg, err
	}
	if err := cfg.MergeBytes(defaults, DefaultEnv+".yaml"); err != nil {
		return cfg, err
	}
	err = cfg.MergeBytes(text, name+".yaml")
	cfg.chosen = nil // the defaults of every method
	return cfg, err
}

// DefaultEnv is the environment of a run that names none. Its shipped
// configuration is complete.
const DefaultEnv = "search"

// MaxSize bounds a configuration, which has a few kilobytes.
const MaxSize = 1 << 20

// MergeBytes reads YAML over the configuration: keys that the text names replace
// theirs, the others stay. An unknown key is an error; where names the source.
func (c *Config) MergeBytes(data []byte, where string) error {
	c.own()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	err := decoder.Decode(c)
	if errors.Is(err, io.EOF) { // an empty file changes nothing
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %s", where, oneLine(err))
	}
	var more any
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one YAML document: want one", where)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("%s: %s", where, oneLine(err))
	}
	chosen, err := keys(&document, "")
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	c.chosen = slices.Concat(c.chosen, chosen)
	return nil
}

// keys lists the keys of a document that have a value, as a.b. One that has none where
// one is needed would silently leave the default: that is an error.
func keys(n *yaml.Node, path string) ([]string, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		var all []string
		for _, child := range n.Content {
			more, err := keys(child, path)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	case yaml.MappingNode:
		var all []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if path != "" {
				key = path + "." + key
			}
			more, err := keys(n.Content[i+1], key)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	case yaml.ScalarNode:
		if n.Tag == "!!null" && strings.Contains(path, ".") && path != "condense.keep_last" && path != "pretrain.model" {
			return nil, fmt.Errorf("line %d: %s: no value: want one, or leave the key out", n.Line, path)
		}
	}
	return []string{path}, nil
}

// Set applies one override of the form a.b=value.
func (c *Config) Set(assignment string) error {
	key, value, found := strings.Cut(assignment, "=")
	if !found || key == "" {
		return fmt.Errorf("--set %s: want key=value, e.g. train.steps=10", assignment)
	}
	var text strings.Builder
	path := strings.Split(key, ".")
	for depth, name := range path {
		if !isName(name) {
			return fmt.Errorf("--set %s: the key has the part %q: want names with dots between them, e.g. train.steps=10", assignment, name)
		}
		fmt.Fprintf(&text, "%s%s:", strings.Repeat(" ", depth), name)
		if depth < len(path)-1 {
			text.WriteByte('\n')
		}
	}
	switch {
	case strings.ContainsAny(value, "\r\n"): // which could begin a key of its own
		return fmt.Errorf("--set %s: a line end in the value", assignment)
	case value == "":
		value = `""`
	case len(path) == 1 && isNothing(value): // deeper, keys tells
		return fmt.Errorf("--set %s: no value: want key=value, e.g. train.steps=10", assignment)
	}
	fmt.Fprintf(&text, " %s\n", value)
	return c.MergeBytes([]byte(text.String()), "--set "+assignment)
}

// isName tells whether a part of a key is one that YAML reads as it stands: neither
// nothing nor the start of a comment.
func isName(part string) bool {
	return part != "" && !strings.ContainsFunc(part, func(r rune) bool {
		return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// isNothing tells whether a YAML value changes nothing: null, no text but a comment, or
// a mapping without keys.
func isNothing(value string) bool {
	var v any
	err := yaml.Unmarshal([]byte(value), &v)
	m, mapping := v.(map[string]any)
	return err == nil && (v == nil || mapping && len(m) == 0)
}

// YAML returns the configuration as a file that MergeBytes reads back.
func (c Config) YAML() ([]byte, error) { return yaml.Marshal(c) }

// oneLine shortens a YAML error to its first finding: "line N: what".
func oneLine(err error) string {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	message = strings.TrimSpace(strings.TrimPrefix(message, "construct errors:"))
	message, _, _ = strings.Cut(message, "\n")
	return inWords(message)
}

// ReadRun returns the configuration of a run directory.
func ReadRun(dir string) (Config, error) {
	var cfg Config
	path := filepath.Join(dir, train.ConfigName)
	text, err := bounded.ReadFile(path, MaxSize)
	if err != nil {
		return cfg, fmt.Errorf("%s is not a run directory: %w", dir, err)
	}
	// A key that the file lacks, written by an older version, has its default.
	if err := cfg.MergeBytes(text, path); err != nil {
		return cfg, err
	}
	defaults, err := Shipped(cfg.Env)
	if err != nil {
		return cfg, fmt.Errorf("%s: env: %w", path, err)
	}
	cfg = defaults
	if err := cfg.MergeBytes(text, path); err != nil {
		return cfg, err
	}
	cfg.chosen, cfg.mayIdle = nil, 0 // the file holds all keys, whoever chose them
	if err := cfg.Validate(); err != nil {
		return cfg, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}
