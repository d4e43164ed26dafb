package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/train"
)

// settings are the flags of every command that takes a configuration.
type settings struct {
	Config string   `help:"Configuration file: keys that differ from the defaults (see infinirl config)." placeholder:"FILE" type:"path"`
	Env    string   `help:"Environment: search, keytodoor, errands or errands-luck. Its shipped configuration gives the defaults." placeholder:"NAME"`
	Set    []string `help:"Override one key, e.g. train.steps=10. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	Seed   *uint64  `help:"Seed of everything random." placeholder:"N"`
}

// load returns the configuration: the environment's shipped one, then the file,
// then the overrides.
func (s settings) load(overrides ...string) (config.Config, error) {
	cfg, err := s.merge(append(slices.Clone(s.Set), overrides...))
	if err == nil {
		if err = cfg.Validate(); err != nil && s.Config != "" {
			err = fmt.Errorf("%s: %w", s.Config, err)
		}
	}
	return cfg, badInput(err)
}

func (s settings) merge(overrides []string) (config.Config, error) {
	name := s.Env
	var file []byte
	if s.Config != "" {
		var err error
		if file, err = os.ReadFile(s.Config); err != nil {
			return config.Config{}, err
		}
		// The file may name the environment whose defaults it builds on.
		var probe config.Config
		if err := probe.MergeBytes(file, s.Config); err != nil {
			return probe, err
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
	if err := cfg.MergeBytes(file, s.Config); err != nil {
		return cfg, err
	}
	if s.Env != "" {
		cfg.Env = s.Env
	}
	if s.Seed != nil {
		cfg.Seed = *s.Seed
	}
	for _, assignment := range overrides {
		if strings.HasPrefix(assignment, "env=") {
			return cfg, fmt.Errorf("--set %s: want --env, which also chooses the defaults", assignment)
		}
		if err := cfg.Set(assignment); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// isTerminal tells whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress shows a long command's progress on standard error.
func (s streams) progress() *train.Progress { return train.NewProgress(s.err, isTerminal(s.err)) }
