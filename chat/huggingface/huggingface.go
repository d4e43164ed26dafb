// Package huggingface renders conversations by the chat template and the tokenizer of
// a Hugging Face model, so that a prompt only ever grows.
//
// A chat template writes a whole conversation; a Renderer has to write what comes
// next. What comes next is what the template adds to a short conversation that is
// always the same: a user message is rendered behind a question and an answer, tool
// results behind a question and calls, and of the text only what follows that of the
// short conversation is taken. New learns from the template how it opens a reply, how
// it ends one and what of a message it writes at all; a template that cannot be
// extended in this way, or that drops what it is given, is an error there and then.
// CheckExtension tells where growing and rendering in one go part for a conversation.
package huggingface

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/callformat"
	"github.com/infinirl/infinirl/chat/template"
	"github.com/infinirl/infinirl/token"
)

// Tokenizer encodes rendered text, in which control tokens are spelled out.
// bpe.Tokenizer is one.
type Tokenizer interface {
	token.Tokenizer
	token.Controls
	// EncodeRendered returns ids in which spelled control tokens are control tokens.
	EncodeRendered(text string) ([]int32, error)
	// Special tells whether an id is a control token that no message may bring about,
	// such as <|im_end|>. Others, such as <think>, are words that a message may hold.
	Special(id int32) bool
}

// Options are what a renderer is told beside template and tokenizer.
type Options struct {
	// Variables of the template, such as bos_token, eos_token, enable_thinking and
	// date_string.
	Variables map[string]any
	// CallFormat is a name of callformat.Names. Empty, it is the one that reads what
	// the template writes.
	CallFormat string
	// Tools tell the call format qwen3-coder which values are strings. Which tools a
	// conversation has Start is told.
	Tools []chat.Tool
	// Ends are control tokens that end a reply beside the one that the template writes,
	// such as <|eom_id|> or the <|endoftext|> of a base model.
	Ends []string
}

// Renderer is the renderer of a Hugging Face model.
type Renderer struct {
	template  *template.Template
	tokenizer Tokenizer
	variables map[string]any
	format    callformat.Format
	// native tells that the template writes tools, calls and results. If not, the call
	// format writes all of them into plain messages.
	native bool
	opened bool // the generation prefix leaves reasoning open

	learnt bool  // all probes are over
	spent  error // of the first probe that spent what a rendering may

	bases    map[chat.Role]*base // what messages of a role are rendered behind
	refused  map[chat.Role]error // why the template has no such messages
	behind   []chat.Message      // what is rendered behind a reply to end it
	follower string              // the text of these
	forms    map[shape]form      // how replies are written

	prefix, tail         string // of a reply: the text before and behind it
	prefixIDs, suffixIDs []int32
	end                  int32   // the first of suffixIDs, which is sampled
	ends                 []int32 // what else ends a reply
}

var _ chat.Renderer = (*Renderer)(nil)

// New returns the renderer of a template and a tokenizer.
func New(t *template.Template, tokenizer Tokenizer, o Options) (*Renderer, error) {
	r := &Renderer{template: t, tokenizer: tokenizer, variables: maps.Clone(o.Variables)}
	if _, dated := o.Variables["date_string"]; !dated && strings.Contains(t.Source(), "strftime_now") {
		return nil, errors.New("huggingface: the template writes today's date: set the variable date_string, so that tomorrow's prompts are the same")
	}
	for _, name := range o.Ends {
		id, ok := tokenizer.Control(name)
		if !ok {
			return nil, fmt.Errorf("huggingface: end %q: want a control token of the tokenizer", name)
		}
		r.ends = append(r.ends, id)
	}
	if err := r.learn(o); err != nil {
		return nil, fmt.Errorf("huggingface: %w", err)
	}
	return r, nil
}

// CallFormat returns the name of the format in which replies are read.
func (r *Renderer) CallFormat() string { return r.format.Name() }

// Start renders the messages in one go, with the tools where the template has them. Of
// replies among them a template may drop the reasoning, as it does in transformers.
func (r *Renderer) Start(messages []chat.Message, tools []chat.Tool) ([]int32, error) {
	if len(messages) == 0 && len(tools) == 0 {
		return nil, nil
	}
	m := newMasks(r.tokenizer, messages, tools)
	text, err := r.start(m.messages(messages), m.tools(tools))
	if err != nil {
		return nil, fmt.Errorf("huggingface: %w", err)
	}
	return m.encode(text)
}

func (r *Renderer) start(messages []chat.Message, tools []chat.Tool) (string, error) {
	written, asked, err := r.Written(messages, tools)
	if err != nil {
		return "", err
	}
	text, err := r.render(written, asked, false)
	if err != nil {
		return "", err
	}
	if without, err := r.render(written, nil, false); len(asked) > 0 && err == nil && without == text {
		return "", errors.New("the template writes no tools into these messages")
	}
	for _, tool := range asked {
		if !strings.Contains(text, tool.Name) {
			return "", fmt.Errorf("the template does not write tool %q", tool.Name)
		}
	}
	return text, nil
}

// Extend appends messages. Neighbouring results are rendered together, every other
// message alone.
func (r *Renderer) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	m := newMasks(r.tokenizer, messages, nil)
	masked := m.messages(messages)
	for at := 0; at < len(masked); {
		n := together(masked[at:])
		ids, err := r.extend(m, masked[at:at+n])
		if err != nil {
			return nil, fmt.Errorf("huggingface: message %d: %w", at, err)
		}
		seen = append(seen, ids...)
		at += n
	}
	return seen, nil
}

// together returns how many of the messages are rendered together.
func together(messages []chat.Message) int {
	n := 1
	for messages[0].Role == chat.ToolRole && n < len(messages) && messages[n].Role == chat.ToolRole {
		n++
	}
	return n
}

// extend returns the ids of messages that are rendered together.
func (r *Renderer) extend(m masks, messages []chat.Message) ([]int32, error) {
	if messages[0].Role != chat.Assistant {
		text, err := r.addition(messages)
		if err != nil {
			return nil, err
		}
		return m.encode(text)
	}
	text, err := r.reply(messages[0])
	if err != nil {
		return nil, err
	}
	body, err := m.encode(text)
	if err != nil {
		return nil, err
	}
	// Apart, as a sampler sees them: no token joins the prefix with what is sampled.
	return slices.Concat(r.prefixIDs, body, r.suffixIDs), nil
}

// EncodeText returns the ids of text. Special tokens that it spells stay text.
func (r *Renderer) EncodeText(text string) ([]int32, error) {
	m := newMasks(r.tokenizer, []chat.Message{{Content: text}}, nil)
	return m.encode(m.text(text))
}

// GenerationPrefix returns what the template adds when asked for a generation prompt.
func (r *Renderer) GenerationPrefix() []int32 { return slices.Clone(r.prefixIDs) }

// GenerationSuffix returns what the template writes behind the text of a reply,
// without the end token if that was sampled. Behind another end it is written whole.
func (r *Renderer) GenerationSuffix(sampled []int32) []int32 {
	if n := len(sampled); n > 0 && sampled[n-1] == r.end {
		return slices.Clone(r.suffixIDs[1:])
	}
	return slices.Clone(r.suffixIDs)
}

// Stop returns the token that the template ends a reply with, and Options.Ends.
func (r *Renderer) Stop() [][]int32 {
	stops := [][]int32{{r.end}}
	for _, id := range r.ends {
		stops = append(stops, []int32{id})
	}
	return stops
}

// Parse reads a reply in the call format.
func (r *Renderer) Parse(ids []int32) chat.Message {
	if n := len(ids); n > 0 && (ids[n-1] == r.end || slices.Contains(r.ends, ids[n-1])) {
		ids = ids[:n-1]
	}
	return callformat.Parse(r.format, r.tokenizer.Decode(ids), r.opened)
}

// render renders a conversation.
func (r *Renderer) render(messages []chat.Message, tools []chat.Tool, generate bool) (string, error) {
	if r.spent != nil {
		return "", r.spent
	}
	text, err := r.template.Render(messages, template.Options{Tools: tools, AddGenerationPrompt: generate, Variables: r.variables})
	if !r.learnt && errors.Is(err, template.ErrSpent) {
		r.spent = err
	}
	return text, err
}
