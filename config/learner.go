package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/infinirl/infinirl/lm"
)

// Engines that train and sample.
const (
	EngineEmbedded = "embedded" // on this machine
	EngineTinker   = "tinker"   // on a server that speaks the Tinker protocol
)

// Learner chooses where the weights are: who samples from them and who trains them.
type Learner struct {
	Engine string  `yaml:"engine"`
	LoRA   lm.LoRA `yaml:"lora"`
	Tinker Tinker  `yaml:"tinker"`
}

// Tinker is what has to be known of a server that speaks the Tinker protocol. Its key is
// no part of a configuration, which is written into run directories.
type Tinker struct {
	URL     string `yaml:"url"`
	Profile string `yaml:"profile"`
	Model   string `yaml:"model"`
	Rank    int    `yaml:"rank"`
	// CriticTokens are the two that stand for success and failure where a server has no
	// values.
	CriticTokens []string `yaml:"critic_tokens"`
}

// validate names the first key that cannot work.
func (l Learner) validate() error {
	switch l.Engine {
	case EngineEmbedded:
		if err := l.LoRA.Validate(); err != nil {
			return fmt.Errorf("learner.%w", err)
		}
		return nil
	case EngineTinker:
	default:
		return fmt.Errorf("learner.engine: %q: want %s or %s", l.Engine, EngineEmbedded, EngineTinker)
	}
	t := l.Tinker
	if err := checkURL(t.URL); err != nil {
		return fmt.Errorf("learner.tinker.url: %w", err)
	}
	switch {
	case t.Model == "":
		return errors.New("learner.tinker.model: want the base model, as the server names it, e.g. Qwen/Qwen3-8B")
	case t.Rank < 0 || t.Rank > 4096:
		return fmt.Errorf("learner.tinker.rank: %d: want 0 to 4096", t.Rank)
	case len(t.CriticTokens) != 2:
		return fmt.Errorf("learner.tinker.critic_tokens: %q: want two, for success and failure", t.CriticTokens)
	}
	return nil
}

// checkURL holds that a text is the address of a server.
func checkURL(text string) error {
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q: want http://… or https://…", text)
	}
	return nil
}

// idleLearner returns an error that names the first key of a learner that somebody has
// set and that can have no effect.
func (c Config) idleLearner() error {
	remote, adapts := c.Learner.Engine == EngineTinker, c.Learner.LoRA.Enabled()
	for _, key := range c.chosen {
		switch {
		case strings.HasPrefix(key, "learner.tinker.") && !remote:
			return fmt.Errorf("%s: without effect: learner.engine is %s", key, c.Learner.Engine)
		case strings.HasPrefix(key, "learner.lora.") && remote:
			return fmt.Errorf("%s: without effect: the server adapts: want learner.tinker.rank", key)
		case (key == "learner.lora.alpha" || key == "learner.lora.targets") && !adapts:
			return fmt.Errorf("%s: without effect: learner.lora.rank is 0", key)
		case key == "base" && remote && c.Base != "":
			return fmt.Errorf("%s: without effect: the weights are the server's: want learner.tinker.model", key)
		case key == "threads" && remote && c.Threads != 0:
			return fmt.Errorf("%s: without effect: the server computes", key)
		}
	}
	return nil
}
