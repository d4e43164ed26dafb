package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/train"
)

// settings are the flags of every command that takes a configuration.
type settings struct {
	Config absolutePath    `help:"Configuration file: keys that differ from the defaults (see infinirl config)." placeholder:"FILE"`
	Env    environmentName `help:"Environment: search, keytodoor, errands, errands-luck, or tasks: your own. Its shipped configuration gives the defaults." placeholder:"NAME"`
	Set    []string        `help:"Override one key, e.g. train.steps=10. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	Seed   *uint64         `help:"Seed of everything random." placeholder:"N"`
	own
	remote
}

// own are tasks of the user's own. Each flag is short for a key.
type own struct {
	File          absolutePath `help:"Tasks of your own: a JSON Lines file (tasks.file). It chooses --env tasks." placeholder:"FILE" name:"tasks"`
	Tokenizer     absolutePath `help:"Folder of the Hugging Face model whose tokenizer and chat template write the conversations (chat.tokenizer)." placeholder:"DIR"`
	EnvCommand    commandWords `help:"Program with its arguments that plays the tasks (tasks.env_command). There is no shell; arguments with spaces: a YAML list." placeholder:"COMMAND"`
	EnvURL        givenText    `help:"HTTP endpoint that plays the tasks (tasks.env_url)." placeholder:"URL" name:"env-url"`
	RewardCommand commandWords `help:"Program with its arguments that grades answers (tasks.reward_command)." placeholder:"COMMAND"`
	RewardURL     givenText    `help:"HTTP endpoint that grades answers (tasks.reward_url)." placeholder:"URL" name:"reward-url"`
	Corpus        absolutePath `help:"Documents that the tools search and open read: JSON Lines, or a folder of text (tasks.corpus)." placeholder:"PATH"`
}

// remote is a server that trains and samples.
type remote struct {
	Learner       givenText `help:"Who trains and samples: embedded, or tinker for a server that speaks the Tinker protocol (learner.engine). Its key is the environment variable TINKER_API_KEY." placeholder:"ENGINE"`
	TinkerURL     givenText `help:"Address of the server (learner.tinker.url)." placeholder:"URL" name:"tinker-url"`
	TinkerProfile givenText `help:"What kind of server it is: hosted, skyrl-jax or skyrl-fsdp (learner.tinker.profile)." placeholder:"NAME"`
}

// assignments are what the flags are short for, as --set has it.
func (s settings) assignments() []string {
	var all []string
	for _, f := range []struct{ key, value string }{
		{"tasks.file", string(s.File)}, {"chat.tokenizer", string(s.Tokenizer)},
		{"tasks.env_url", string(s.EnvURL)}, {"tasks.reward_url", string(s.RewardURL)}, {"tasks.corpus", string(s.Corpus)},
		{"learner.engine", string(s.Learner)}, {"learner.tinker.url", string(s.TinkerURL)}, {"learner.tinker.profile", string(s.TinkerProfile)},
	} {
		if f.value != "" {
			all = append(all, assign(f.key, f.value))
		}
	}
	for _, f := range []struct {
		key   string
		words commandWords
	}{{"tasks.env_command", s.EnvCommand}, {"tasks.reward_command", s.RewardCommand}} {
		if len(f.words) > 0 {
			all = append(all, assign(f.key, f.words))
		}
	}
	return all
}

// assign is key=value for a text or a list of texts: JSON is YAML.
func assign(key string, value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts can be written
	}
	return key + "=" + string(text)
}

// given tells whether any flag says something of the configuration.
func (s settings) given() bool {
	return s.Config != "" || s.Env != "" || len(s.Set) > 0 || s.Seed != nil || len(s.assignments()) > 0
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
	if s.File != "" {
		if name != "" && name != config.OwnTasks {
			return config.Config{}, fmt.Errorf("--tasks %s: the environment is %s, which has its own: want --env %s, or none", s.File, name, config.OwnTasks)
		}
		name = config.OwnTasks
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
	cfg.Env = name
	if s.Seed != nil {
		cfg.Seed = *s.Seed
	}
	for _, assignment := range append(s.assignments(), overrides...) {
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

// progress shows a long command's progress on standard error.
func (s streams) progress() *train.Progress { return train.NewProgress(s.err, true) }
