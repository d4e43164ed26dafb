package assembly

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/callformat"
	"github.com/infinirl/infinirl/chat/huggingface"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/errands"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/env/search"
)

// worlds are the synthetic worlds, the default one first.
var worlds = []func() curriculum.World{search.World, keytodoor.World, errands.World, errands.WithLuck}

// World returns the world of a name; the error lists the names there are.
func World(name string) (curriculum.World, error) {
	var names []string
	for _, of := range worlds {
		world := of()
		if world.Tasks.Name() == name {
			return world, nil
		}
		names = append(names, world.Tasks.Name())
	}
	return curriculum.World{}, fmt.Errorf("environment %q: want one of %s, or %s: your own", name, strings.Join(names, ", "), config.OwnTasks)
}

// played is what is played, and how it is written.
type played struct {
	tasks    env.Tasks
	renderer chat.Renderer
	// vocabulary is the number of ids that the renderer knows.
	vocabulary int
	// words tells that they are the words of a synthetic world, which has no ids beside them.
	words bool
}

// open finds what is played. The words of a synthetic world are the default there; any
// other model needs its tokenizer.
func (r *Run) open(ctx context.Context) (p played, err error) {
	cfg := r.cfg
	var world curriculum.World
	if cfg.Env != config.OwnTasks {
		if world, err = World(cfg.Env); err != nil {
			return p, fmt.Errorf("env: %w", err)
		}
		if err := cfg.Pretrain.Validate(world.Levels()); err != nil {
			return p, err
		}
		p = played{world.Tasks, world.Renderer, world.VocabularySize, true}
	}
	words := cfg.Chat.Template == config.Words
	switch {
	case words && cfg.Env == config.OwnTasks:
		return p, fmt.Errorf("chat.template: %s: they are those of a synthetic world, and the tasks are your own", config.Words)
	case words && cfg.Chat.Tokenizer != "":
		return p, fmt.Errorf("chat.template: %s: they need no tokenizer: want chat.tokenizer left out, or another template", config.Words)
	case p.words && !words && cfg.Learner.Engine == config.EngineTinker && cfg.Chat.Tokenizer == "":
		return p, fmt.Errorf("chat.tokenizer: want the folder of the model's tokenizer; or chat.template=%s for a model on the server whose ids are the words of environment %s", config.Words, cfg.Env)
	}
	if cfg.Chat.Tokenizer != "" {
		if p.renderer, p.vocabulary, err = renderer(cfg.Chat); err != nil {
			return p, fmt.Errorf("chat.%w", err)
		}
		p.words = false
	}
	if p.words {
		if err := cfg.IdleChat(); err != nil {
			return p, err
		}
	}
	if p.renderer == nil {
		return p, fmt.Errorf("chat.tokenizer: want the folder of the model's tokenizer: its %s, and its chat template", tokenizerFile)
	}
	if cfg.Env == config.OwnTasks {
		if p.tasks, err = r.ownTasks(ctx, p.renderer); err != nil {
			return p, fmt.Errorf("tasks.%w", err)
		}
	}
	for _, option := range written[cfg.Condense.Rule] {
		if text, ok := cfg.Condense.Options[option].(string); ok {
			if _, err := p.renderer.EncodeText(text); err != nil {
				return p, fmt.Errorf("condense.%s: %w: want words of environment %s", option, err, cfg.Env)
			}
		}
	}
	return p, nil
}

// written are the options of condensing rules that stand in prompts as they are.
var written = map[string][]string{
	condense.ToolClear: {"placeholder"},
	condense.Summary:   {"summary_request", "summary_note"},
}

// renderer is that of a model which is not of a world's words, with its number of ids.
// Errors begin with the key at fault.
func renderer(c config.Chat) (r chat.Renderer, vocabulary int, err error) {
	if c.CallFormat != "" {
		if _, err := callformat.ByName(c.CallFormat, nil); err != nil {
			return nil, 0, fmt.Errorf("call_format: %w", err)
		}
	}
	if isFile(filepath.Join(c.Tokenizer, configFile)) && c.Template != config.ChatML {
		r, vocabulary, err = folderRenderer(c)
	} else {
		r, vocabulary, err = tokenizerRenderer(c)
	}
	if err == nil && !c.Tools {
		r = silent{r}
	}
	return r, vocabulary, err
}

// tokenizerRenderer is that of a tokenizer whose model is elsewhere, or of one that is to
// write ChatML.
func tokenizerRenderer(c config.Chat) (r chat.Renderer, vocabulary int, err error) {
	tokenizer, err := Tokenizer(c.Tokenizer)
	if err != nil {
		return nil, 0, fmt.Errorf("tokenizer: %w", err)
	}
	if c.Template == config.ChatML {
		r, err = chat.NewChatML(tokenizer)
	} else {
		r, err = ChatTemplate{Name: c.Template, CallFormat: c.CallFormat, Variables: c.Variables}.renderer(c.Tokenizer, tokenizer)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("template: %w", err)
	}
	return r, tokenizer.Size(), nil
}

// folderRenderer is that of the folder of a Hugging Face model, whose replies end where the
// model's do, with its own template or another.
func folderRenderer(c config.Chat) (chat.Renderer, int, error) {
	folder, err := huggingface.ReadFolder(c.Tokenizer)
	if err != nil {
		return nil, 0, fmt.Errorf("tokenizer: %w", err)
	}
	if c.Template != OwnTemplate {
		template, variables, err := huggingface.ReadTemplate(c.Template, c.Tokenizer)
		if err != nil {
			return nil, 0, fmt.Errorf("template: %w", err)
		}
		folder.Template = template
		maps.Copy(folder.Variables, variables)
	}
	r, err := folder.Renderer(huggingface.Options{Variables: c.Variables, CallFormat: c.CallFormat})
	if err != nil {
		return nil, 0, fmt.Errorf("template: %w", err)
	}
	return r, folder.VocabSize, nil
}

// silent leaves the schemas of tools out of prompts.
type silent struct{ chat.Renderer }

func (s silent) Start(messages []chat.Message, _ []chat.Tool) ([]int32, error) {
	return s.Renderer.Start(messages, nil)
}
