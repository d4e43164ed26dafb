package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/terminal"
	"github.com/infinirl/infinirl/train"
)

// settings are the flags of every command that takes a configuration.
type settings struct {
	Config absolutePath    `help:"Configuration file: keys that differ from the defaults (see infinirl config)." placeholder:"FILE"`
	Env    environmentName `help:"Environment: search, keytodoor, errands or errands-luck. Its shipped configuration gives the defaults." placeholder:"NAME"`
	Set    []string        `help:"Override one key, e.g. train.steps=10. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	Seed   *uint64         `help:"Seed of everything random." placeholder:"N"`
}

// load returns the configuration: the environment's shipped one, then the file,
// then the overrides.
func (s settings) load(overrides ...string) (config.Config, error) {
	cfg, err := s.merge(append(slices.Clone(s.Set), overrides...))
	return s.validated(cfg, err)
}

// loadForAll is load for a command that runs several methods or stages: a key without
// effect in one may have an effect in another.
func (s settings) loadForAll() (config.Config, error) {
	cfg, err := s.merge(s.Set)
	return s.validated(cfg.MayIdle(), err)
}

func (s settings) validated(cfg config.Config, err error) (config.Config, error) {
	if err == nil {
		if err = config.Explain(cfg.Validate()); err != nil && s.Config != "" {
			err = fmt.Errorf("%s: %w", s.Config, err)
		}
	}
	return cfg, badInput(err)
}

// readConfig reads a file, or a pipe as shells make of <(command).
func readConfig(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := bounded.ReadAll(file, config.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

func (s settings) merge(overrides []string) (config.Config, error) {
	name := string(s.Env)
	var file []byte
	if s.Config != "" {
		var err error
		if file, err = readConfig(string(s.Config)); err != nil {
			return config.Config{}, err
		}
		// The file may name the environment whose defaults it builds on.
		var probe config.Config
		if err := probe.MergeBytes(file, string(s.Config)); err != nil {
			return probe, err
		}
		if name != "" && probe.Env != "" && name != probe.Env {
			return config.Config{}, fmt.Errorf("--env %s: %s says env: %s: want one of them", name, s.Config, probe.Env)
		}
		if name == "" {
			name = probe.Env
		}
	}
	if name == "" {
		name = config.DefaultEnv
	}
	cfg, err := config.Shipped(name)
	if err != nil {
		return cfg, fmt.Errorf("env: %w", err)
	}
	if err := cfg.MergeBytes(file, string(s.Config)); err != nil {
		return cfg, err
	}
	if s.Env != "" {
		cfg.Env = string(s.Env)
	}
	if s.Seed != nil {
		cfg.Seed = *s.Seed
	}
	for _, assignment := range overrides {
		if strings.HasPrefix(assignment, "env=") {
			return cfg, fmt.Errorf("--set %s: want --env, which also chooses the defaults", assignment)
		}
		if err := override(&cfg, assignment); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// override is cfg.Set, whose errors say in which line of the one-line file that an
// assignment makes the fault is: that is of no use to whoever gave the flag.
func override(cfg *config.Config, assignment string) error {
	err := cfg.Set(assignment)
	if err == nil {
		return nil
	}
	return errors.New(lineOfAssignment.ReplaceAllString(err.Error(), "$1"))
}

var lineOfAssignment = regexp.MustCompile(`^(--set (?s:.*?): )line \d+: `)

// isTerminal tells whether w is a terminal.
func isTerminal(w io.Writer) bool {
	_, ok := w.(*terminal.Screen)
	return ok
}

// progress shows a long command's progress on standard error.
func (s streams) progress() *train.Progress { return train.NewProgress(s.err, isTerminal(s.err)) }
