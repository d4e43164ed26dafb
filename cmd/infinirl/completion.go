package main

import (
	_ "embed"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/infinirl/infinirl/ablation"
	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/configs"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

func (completionCommand) Help() string {
	return `Prints a script that makes a shell complete commands, flags, their values and the
names of files. To have it in every session:

  bash   echo 'source <(infinirl completion bash)' >> ~/.bashrc
  zsh    echo 'source <(infinirl completion zsh)' >> ~/.zshrc   (after compinit)
  fish   infinirl completion fish > ~/.config/fish/completions/infinirl.fish

Example:
  infinirl completion bash`
}

var (
	//go:embed completion/infinirl.bash
	bashCompletion string
	//go:embed completion/infinirl.zsh
	zshCompletion string
	//go:embed completion/infinirl.fish
	fishCompletion string
)

func (c *completionCommand) Run(std streams) error {
	script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	_, err := io.WriteString(std.out, script)
	return err
}

// The scripts call infinirl with completeWord and the words of the line, the last of
// which, maybe empty, is to be completed. The answer is a candidate a line, a tab and
// what it means, and fileNames where names of files may stand.
const (
	completeWord = "__complete"
	fileNames    = ":files"
)

// candidate is what a word can be completed to.
type candidate struct{ word, help string }

// printCandidates answers a script and returns the exit status.
func printCandidates(w io.Writer, model *kong.Application, words []string) int {
	candidates, files := completeLine(model.Node, words)
	var out strings.Builder
	for _, c := range candidates {
		help, _, _ := strings.Cut(c.help, "\n")
		fmt.Fprintf(&out, "%s\t%s\n", c.word, help)
	}
	if files {
		out.WriteString(fileNames + "\n")
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return 1
	}
	return 0
}

// completeLine returns what the last of words can become, and whether that may be a file.
func completeLine(root *kong.Node, words []string) (candidates []candidate, files bool) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	node, flags := root, slices.Clone(root.Flags)
	var waiting *kong.Flag // for its value
	positional, literal := 0, false
	for _, word := range words[:len(words)-1] {
		name, _, hasValue := strings.Cut(word, "=")
		flag := flagOf(flags, name)
		child := childOf(node, word)
		switch {
		case waiting != nil:
			waiting = nil
		case literal:
			positional++
		case word == "--":
			literal = true
		case flag != nil:
			if !hasValue && !flag.IsBool() {
				waiting = flag
			}
		case strings.HasPrefix(word, "-") && word != "-":
		case child != nil:
			node, positional = child, 0
			flags = append(flags, child.Flags...)
		default:
			positional++
		}
	}
	switch name, value, hasValue := strings.Cut(last, "="); {
	case waiting != nil:
		return valuesOf(waiting.Value, last, "")
	case !literal && strings.HasPrefix(last, "--") && hasValue:
		if flag := flagOf(flags, name); flag != nil {
			return valuesOf(flag.Value, value, name+"=")
		}
		return nil, false
	case !literal && strings.HasPrefix(last, "-") && last != "-":
		for _, flag := range flags {
			if word := "--" + flag.Name; !flag.Hidden && strings.HasPrefix(word, last) {
				candidates = append(candidates, candidate{word, flag.Help})
			}
		}
		return candidates, false
	}
	for _, child := range node.Children {
		if !child.Hidden && !literal && strings.HasPrefix(child.Name, last) {
			candidates = append(candidates, candidate{child.Name, child.Help})
		}
	}
	if n := len(node.Positional); n > 0 {
		argument := node.Positional[min(positional, n-1)]
		if positional < n || argument.IsCumulative() {
			return valuesOf(argument, last, "")
		}
	}
	return candidates, false
}

func flagOf(flags []*kong.Flag, word string) *kong.Flag {
	for _, flag := range flags {
		if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// valuesOf are those that a flag or an argument can have and that begin with start, each
// after prefix. A text that has no list may name a file.
func valuesOf(value *kong.Value, start, prefix string) (candidates []candidate, files bool) {
	var list []candidate
	known := true
	if value.Target.Type() == reflect.TypeFor[methodNames]() { // a list
		if comma := strings.LastIndexByte(start, ','); comma >= 0 {
			start, prefix = start[comma+1:], prefix+start[:comma+1]
		}
	}
	switch {
	case value.Enum != "":
		for _, word := range value.EnumSlice() {
			list = append(list, candidate{word: word})
		}
	case value.Flag != nil && value.Name == "env":
		for _, word := range configs.Names() {
			list = append(list, candidate{word: word})
		}
	case value.Flag != nil && !value.IsBool() && (value.Name == "estimator" || value.Name == "compare"):
		for _, word := range advantage.Names() {
			estimator, _ := advantage.Lookup(word)
			list = append(list, candidate{word, estimator.Summary})
		}
	case value.Flag != nil && value.Name == "methods":
		for _, over := range []string{ablation.OverCredit, ablation.OverCondense} {
			methods, _ := ablation.Methods(over)
			for _, m := range methods {
				list = append(list, candidate{word: m.Name})
			}
		}
	case value.Flag != nil && value.Name == "learner":
		list = []candidate{{word: config.EngineEmbedded}, {word: config.EngineTinker}}
	case value.Flag != nil && value.Name == "tinker-profile":
		for _, word := range assembly.TinkerProfiles() {
			list = append(list, candidate{word: word})
		}
	case value.Flag != nil && value.Name == "rule":
		for _, word := range condense.Rules() {
			list = append(list, candidate{word: word})
		}
	case value.Flag != nil && value.Name == "set":
		for _, key := range config.Keys() {
			list = append(list, candidate{word: key + "="})
		}
	case value.IsBool():
		list = []candidate{{word: "true"}, {word: "false"}}
	default:
		known = numeric(value)
	}
	for _, c := range list {
		if strings.HasPrefix(c.word, start) {
			candidates = append(candidates, candidate{prefix + c.word, c.help})
		}
	}
	return candidates, !known
}

// numeric tells whether a value is a number, or many.
func numeric(value *kong.Value) bool {
	kind := value.Target.Type()
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	return kind.Kind() >= reflect.Int && kind.Kind() <= reflect.Float64
}
