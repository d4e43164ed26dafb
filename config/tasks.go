package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// OwnTasks is the environment of tasks of the user's own: those of a file.
const OwnTasks = "tasks"

// ChatML is the name of the template that needs no file.
const ChatML = "chatml"

// Words is the template of a synthetic world: its own words, one id each.
const Words = "words"

// Chat says how conversations are written for a model that is not of a synthetic world's
// words.
type Chat struct {
	// Tokenizer is the folder of a Hugging Face model, or its tokenizer.json.
	Tokenizer string `yaml:"tokenizer"`
	// Template is ChatML, auto for the one beside the tokenizer, or a file.
	Template   string         `yaml:"template"`
	CallFormat string         `yaml:"call_format"`
	Variables  map[string]any `yaml:"variables"`
	// Tools tells whether the schemas of the tools stand in prompts.
	Tools bool `yaml:"tools"`
}

// validate names the first key that cannot work.
func (c Chat) validate() error {
	switch {
	case c.Template == "":
		return fmt.Errorf("chat.template: %q: want auto, %s or a file", c.Template, ChatML)
	case c.Template == ChatML && c.CallFormat != "":
		return fmt.Errorf("chat.call_format: %q: %s writes calls in its own: want another chat.template", c.CallFormat, ChatML)
	case c.Template == ChatML && len(c.Variables) > 0:
		return fmt.Errorf("chat.variables: %s has none: want another chat.template", ChatML)
	}
	return nil
}

// IdleChat returns an error that names the first key of chat that somebody has set, which
// has no effect on the words of a synthetic world.
func (c Config) IdleChat() error {
	for _, key := range c.chosen {
		if strings.HasPrefix(key, "chat.") && !(key == "chat.template" && c.Chat.Template == Words) {
			return fmt.Errorf("%s: without effect: there is no chat.tokenizer, nor a base that has one", key)
		}
	}
	return nil
}

// Tasks are the user's own: a file of tasks, what plays them, what grades them and what
// tools there are.
type Tasks struct {
	File  string  `yaml:"file"`
	Split string  `yaml:"split"`
	Eval  float64 `yaml:"eval"`
	Clone float64 `yaml:"clone"`

	EnvCommand []string          `yaml:"env_command"`
	EnvURL     string            `yaml:"env_url"`
	Reuse      bool              `yaml:"reuse"`
	Headers    map[string]string `yaml:"headers"`
	Timeout    float64           `yaml:"timeout"`
	Dir        string            `yaml:"dir"`

	System        string   `yaml:"system"`
	Reward        string   `yaml:"reward"`
	RewardCommand []string `yaml:"reward_command"`
	RewardURL     string   `yaml:"reward_url"`

	Corpus   string `yaml:"corpus"`
	Index    string `yaml:"index"`
	Analyzer string `yaml:"analyzer"`
	Page     int    `yaml:"page"`

	MCP []MCP `yaml:"mcp"`

	Parallel    int     `yaml:"parallel"`
	ToolTimeout float64 `yaml:"tool_timeout"`
	MaxResult   int     `yaml:"max_result"`
}

// MCP is a server of the Model Context Protocol, a command or an address.
type MCP struct {
	Name    string            `yaml:"name"`
	Command []string          `yaml:"command,omitempty"`
	URL     string            `yaml:"url,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	Shared  bool              `yaml:"shared,omitempty"`
	Only    []string          `yaml:"only,omitempty"`
}

// own gives the configuration memory of its own for what a copy would share.
func (c *Config) own() {
	c.Condense.own()
	c.Chat.Variables = maps.Clone(c.Chat.Variables)
	c.Tasks.Headers = maps.Clone(c.Tasks.Headers)
}

// Playing tells whether an environment of the user's own plays the tasks; without one
// they are questions.
func (t Tasks) Playing() bool { return len(t.EnvCommand) > 0 || t.EnvURL != "" }

// validate names the first key that cannot work. What the parts check themselves is left
// to them.
func (t Tasks) validate() error {
	switch {
	case len(t.EnvCommand) > 0 && t.EnvURL != "":
		return errors.New("tasks.env_command and tasks.env_url: want one of them")
	case len(t.RewardCommand) > 0 && t.RewardURL != "":
		return errors.New("tasks.reward_command and tasks.reward_url: want one of them")
	case t.Timeout <= 0 || t.Timeout > 86400:
		return fmt.Errorf("tasks.timeout: %v: want seconds, above 0 and at most a day", t.Timeout)
	case t.ToolTimeout <= 0 || t.ToolTimeout > 86400:
		return fmt.Errorf("tasks.tool_timeout: %v: want seconds, above 0 and at most a day", t.ToolTimeout)
	case !(t.Eval >= 0) || !(t.Clone >= 0) || !(t.Eval+t.Clone < 1): // NaN too
		return fmt.Errorf("tasks.eval and tasks.clone: %v and %v: want shares of 0 or more, below 1 together", t.Eval, t.Clone)
	case t.Parallel < 1:
		return fmt.Errorf("tasks.parallel: %d: want calls at once, 1 or more", t.Parallel)
	case t.MaxResult < 1:
		return fmt.Errorf("tasks.max_result: %d: want tokens, 1 or more", t.MaxResult)
	}
	for key, address := range map[string]string{"env_url": t.EnvURL, "reward_url": t.RewardURL} {
		if address == "" {
			continue
		}
		if err := checkURL(address); err != nil {
			return fmt.Errorf("tasks.%s: %w", key, err)
		}
	}
	for i, server := range t.MCP {
		if (len(server.Command) > 0) == (server.URL != "") {
			return fmt.Errorf("tasks.mcp: server %d: want a command or a url", i+1)
		}
		if len(server.Headers) > 0 && server.URL == "" {
			return fmt.Errorf("tasks.mcp: server %d: headers: without effect: it has no url", i+1)
		}
	}
	return nil
}

// idleTasks returns an error that names the first key of tasks that somebody has set and
// that can have no effect.
func (c Config) idleTasks() error {
	for _, key := range c.chosen {
		if strings.HasPrefix(key, "tasks.") && c.Env != OwnTasks {
			return fmt.Errorf("%s: without effect: the environment is %s, not %s: want tasks.file too (--tasks FILE)", key, c.Env, OwnTasks)
		}
	}
	t := c.Tasks
	graded := len(t.RewardCommand) > 0 || t.RewardURL != ""
	for _, k := range []struct {
		keys []string
		idle bool
		why  string
	}{
		{[]string{"tasks.system", "tasks.reward", "tasks.reward_command", "tasks.reward_url"}, t.Playing(), "the environment of the tasks opens and grades them"},
		{[]string{"tasks.reward"}, graded, "a command or an address grades"},
		{[]string{"tasks.index", "tasks.analyzer", "tasks.page"}, t.Corpus == "", "there is no tasks.corpus"},
		{[]string{"tasks.reuse"}, len(t.EnvCommand) == 0 && len(t.RewardCommand) == 0, "there is no command"},
		{[]string{"tasks.headers"}, t.EnvURL == "" && t.RewardURL == "", "there is no address"},
		{[]string{"tasks.eval", "tasks.clone"}, t.Split != "", "tasks.split names the split of each task"},
	} {
		for _, key := range k.keys {
			if k.idle && slices.Contains(c.chosen, key) {
				return fmt.Errorf("%s: without effect: %s", key, k.why)
			}
		}
	}
	return nil
}
