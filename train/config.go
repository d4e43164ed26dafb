package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/configs"
	"github.com/infinirl/infinirl/env/suites"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/pretrain"
)

// Config is everything a run is determined by. Its keys, defaults and meanings
// are those of configs/search.yaml; no default lives in code.
type Config struct {
	Env     string `yaml:"env"`
	Seed    uint64 `yaml:"seed"`
	Base    string `yaml:"base"`
	Threads int    `yaml:"threads"`

	Condense  CondenseConfig   `yaml:"condense"`
	Rollout   RolloutConfig    `yaml:"rollout"`
	Advantage advantage.Config `yaml:"advantage"`
	PPO       ppo.Config       `yaml:"ppo"`
	Train     LoopConfig       `yaml:"train"`
	Eval      EvalConfig       `yaml:"eval"`
	Pretrain  pretrain.Config  `yaml:"pretrain"`
}

// CondenseConfig chooses the rule that cuts trajectories. Lengths in tokens.
type CondenseConfig struct {
	Rule           string `yaml:"rule"`
	Mode           string `yaml:"mode"`
	High           int    `yaml:"high"`
	Low            int    `yaml:"low"`
	KeepLast       int    `yaml:"keep_last"`
	Placeholder    string `yaml:"placeholder"`
	SummaryRequest string `yaml:"summary_request"`
	SummaryNote    string `yaml:"summary_note"`
	SummaryTokens  int    `yaml:"summary_tokens"`
	TrainSummary   bool   `yaml:"train_summary"`
}

// condenser is the configuration of the condenser itself.
func (c Config) condenser() condense.Config { return c.condenserFor(c.Condense.Rule) }

// condenserFor is the same for another rule. Rules that start afresh keep nothing.
func (c Config) condenserFor(rule string) condense.Config {
	keepLast := c.Condense.KeepLast
	if rule == condense.DiscardAll || rule == condense.Summary {
		keepLast = 0
	}
	return condense.Config{
		Rule: rule, Mode: c.Condense.Mode, High: c.Condense.High, Low: c.Condense.Low,
		KeepLast: keepLast, MaxSegments: c.Rollout.MaxSegments, Placeholder: c.Condense.Placeholder,
		SummaryRequest: c.Condense.SummaryRequest, SummaryNote: c.Condense.SummaryNote,
		SummaryTokens: c.Condense.SummaryTokens, TrainSummary: c.Condense.TrainSummary,
	}
}

// PretrainOptions are those of a base model for this configuration.
func (c Config) PretrainOptions() (pretrain.Options, error) {
	suite, err := suites.ByName(c.Env)
	return pretrain.Options{
		Suite: suite, Condense: c.condenserFor, MaxReply: c.Rollout.MaxReply, MaxTurns: c.Rollout.MaxTurns,
		Seed: c.Seed, Threads: c.Threads,
	}, err
}

// RolloutConfig says how many episodes a step plays and how.
type RolloutConfig struct {
	Groups      int     `yaml:"groups"`
	GroupSize   int     `yaml:"group_size"`
	Temperature float64 `yaml:"temperature"`
	MaxReply    int     `yaml:"max_reply"`
	MaxTurns    int     `yaml:"max_turns"`
	MaxSegments int     `yaml:"max_segments"`
	Concurrency int     `yaml:"concurrency"`
}

// LoopConfig says how the learner uses each step's trajectories.
type LoopConfig struct {
	Steps            int     `yaml:"steps"`
	StopAtSuccess    float64 `yaml:"stop_at_success"`
	Epochs           int     `yaml:"epochs"`
	Minibatches      int     `yaml:"minibatches"`
	MicroBatchTokens int     `yaml:"micro_batch_tokens"`
	ActorLR          float64 `yaml:"actor_lr"`
	CriticLR         float64 `yaml:"critic_lr"`
	FinalLR          float64 `yaml:"final_lr"`
	CriticWarmup     int     `yaml:"critic_warmup"`
	WeightDecay      float64 `yaml:"weight_decay"`
	MaxGradNorm      float64 `yaml:"max_grad_norm"`
	OldLogProbs      string  `yaml:"old_log_probs"`
	Truncated        string  `yaml:"truncated"`
	CheckpointEvery  int     `yaml:"checkpoint_every"`
	KeepCheckpoints  int     `yaml:"keep_checkpoints"`
	SaveRollouts     bool    `yaml:"save_rollouts"`
}

// EvalConfig says what the evaluations before and after training play.
type EvalConfig struct {
	Tasks       int     `yaml:"tasks"`
	Temperature float64 `yaml:"temperature"`
}

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
	return cfg, cfg.MergeBytes(text, name+".yaml")
}

// DefaultEnv is the environment of a run that names none. Its shipped
// configuration is complete.
const DefaultEnv = "search"

// MergeBytes is Merge over a text in memory.
func (c *Config) MergeBytes(text []byte, where string) error {
	return c.Merge(bytes.NewReader(text), where)
}

// Merge reads YAML over the configuration: keys that the text names replace
// theirs, the others stay. An unknown key is an error; where names the source.
func (c *Config) Merge(text io.Reader, where string) error {
	decoder := yaml.NewDecoder(text)
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
	return nil
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
		fmt.Fprintf(&text, "%s%s:", strings.Repeat(" ", depth), name)
		if depth < len(path)-1 {
			text.WriteByte('\n')
		}
	}
	if value == "" {
		value = `""`
	}
	fmt.Fprintf(&text, " %s\n", value)
	return c.Merge(strings.NewReader(text.String()), "--set "+assignment)
}

// YAML returns the configuration as a file that Merge reads back.
func (c Config) YAML() ([]byte, error) { return yaml.Marshal(c) }

// oneLine shortens a YAML error to its first finding: "line N: what".
func oneLine(err error) string {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	message = strings.TrimSpace(strings.TrimPrefix(message, "construct errors:"))
	message, _, _ = strings.Cut(message, "\n")
	return unknownField.ReplaceAllString(message, "unknown key $1")
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

// learningRateShare is 1 at the first step and falls linearly to final_lr at the last.
func (c Config) learningRateShare(step int) float64 {
	if c.Train.Steps < 2 {
		return 1
	}
	return 1 - (1-c.Train.FinalLR)*float64(step)/float64(c.Train.Steps-1)
}
