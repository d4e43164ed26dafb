package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/token"
)

// ChatML is the renderer of the ChatML format with Hermes-style tool calls, over any
// tokenizer:
//
//	<|im_start|>assistant
//	<think>
//	reasoning
//	</think>
//
//	content
//	<tool_call>
//	{"name": "search", "arguments": {"query": "ada"}}
//	</tool_call><|im_end|>
//	<|im_start|>user
//	<tool_response>
//	result
//	</tool_response><|im_end|>
//
// The delimiters are control tokens where the tokenizer has them, and text where
// it has none. Tool schemas stand in the system message, as Qwen's templates have them.
//
// Delimiters and content are tokenised apart, so that the ids of a delimiter do
// not depend on what it encloses.
type ChatML struct {
	tokenizer token.Tokenizer
	tags      map[string][]int32 // delimiters by their text
	head      map[Role][]int32   // from <|im_start|> to the content
	tail      map[Role][]int32   // from the content to the newline after <|im_end|>
}

var (
	_ Renderer = (*ChatML)(nil)
	_ encoder  = (*ChatML)(nil)
)

// tags are the delimiters, control tokens where the tokenizer has them.
var tags = []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"}

// NewChatML returns the renderer over a tokenizer.
func NewChatML(tokenizer token.Tokenizer) (*ChatML, error) {
	c := &ChatML{tokenizer: tokenizer, tags: make(map[string][]int32), head: make(map[Role][]int32), tail: make(map[Role][]int32)}
	controls, _ := tokenizer.(token.Controls)
	for _, tag := range tags {
		if controls != nil {
			if id, ok := controls.Control(tag); ok {
				c.tags[tag] = []int32{id}
				continue
			}
		}
		ids, err := tokenizer.Encode(tag)
		if err != nil {
			return nil, fmt.Errorf("chatml: %q: %w", tag, err)
		}
		c.tags[tag] = ids
	}
	var failed error
	for _, role := range []Role{System, User, Assistant, ToolRole} {
		head, tail := writing{c: c}, writing{c: c}
		head.tag("<|im_start|>")
		if role == ToolRole {
			head.text("user\n")
			head.tag("<tool_response>")
			head.text("\n")
			tail.text("\n")
			tail.tag("</tool_response>")
		} else {
			head.text(string(role) + "\n")
		}
		tail.tag("<|im_end|>")
		tail.text("\n")
		c.head[role], c.tail[role] = head.ids, tail.ids
		failed = errors.Join(failed, head.err, tail.err)
	}
	if failed != nil {
		return nil, fmt.Errorf("chatml: %w", failed)
	}
	return c, nil
}

// Start writes the messages, the schemas of the tools behind the first system
// message. Where there is none, one that holds the schemas is written before all.
func (c *ChatML) Start(messages []Message, tools []Tool) ([]int32, error) {
	if len(tools) == 0 {
		return c.Extend(nil, messages)
	}
	schemas, err := Hermes{}.WriteTools(tools)
	if err != nil {
		return nil, fmt.Errorf("chatml: %w", err)
	}
	if len(messages) > 0 && messages[0].Role == System {
		messages = slices.Clone(messages)
		messages[0].Content += "\n\n" + schemas
		return c.Extend(nil, messages)
	}
	return c.Extend(nil, slices.Insert(slices.Clone(messages), 0, Message{Role: System, Content: schemas}))
}

// Extend appends messages.
func (c *ChatML) Extend(seen []int32, messages []Message) ([]int32, error) {
	return extend(c, seen, messages)
}

// encode returns the ids of one whole message.
func (c *ChatML) encode(m Message) ([]int32, error) {
	head, ok := c.head[m.Role]
	if !ok {
		return nil, fmt.Errorf("chatml: unknown role %q", m.Role)
	}
	w := writing{c: c, ids: slices.Clone(head)}
	switch {
	case m.Role == Assistant:
		w.assistant(m)
	case len(m.ToolCalls) > 0:
		return nil, fmt.Errorf("chatml: %s message has tool calls", m.Role)
	default:
		w.text(m.Content)
	}
	if w.err != nil {
		return nil, fmt.Errorf("chatml: %s message: %w", m.Role, w.err)
	}
	return append(w.ids, c.tail[m.Role]...), nil
}

// writing gathers the ids of a message; the first error stays.
type writing struct {
	c   *ChatML
	ids []int32
	err error
}

func (w *writing) tag(tag string) { w.ids = append(w.ids, w.c.tags[tag]...) }

func (w *writing) text(text string) {
	ids, err := w.c.tokenizer.Encode(text)
	w.ids = append(w.ids, ids...)
	if w.err == nil {
		w.err = err
	}
}

// assistant writes what stands between the delimiters of an assistant message.
func (w *writing) assistant(m Message) {
	if m.Reasoning != "" {
		w.tag("<think>")
		w.text("\n" + m.Reasoning + "\n")
		w.tag("</think>")
		w.text("\n\n")
	}
	w.text(m.Content)
	for i, call := range m.ToolCalls {
		if i > 0 || m.Content != "" {
			w.text("\n")
		}
		w.tag("<tool_call>")
		w.text("\n" + hermesCall(call) + "\n")
		w.tag("</tool_call>")
	}
}

// EncodeText returns the ids of text.
func (c *ChatML) EncodeText(text string) ([]int32, error) { return c.tokenizer.Encode(text) }

// GenerationPrefix returns the ids of "<|im_start|>assistant\n".
func (c *ChatML) GenerationPrefix() []int32 { return c.head[Assistant] }

// GenerationSuffix returns the newline after <|im_end|>, and <|im_end|> itself
// for a reply that was cut before it.
func (c *ChatML) GenerationSuffix(sampled []int32) []int32 {
	end := c.tags["<|im_end|>"]
	if hasSuffix(sampled, end) {
		return c.tail[Assistant][len(end):]
	}
	return c.tail[Assistant]
}

// Stop returns the one sequence <|im_end|>.
func (c *ChatML) Stop() [][]int32 { return [][]int32{c.tags["<|im_end|>"]} }

// Parse reads reasoning and tool calls. A malformed call leaves the whole reply as
// content.
func (c *ChatML) Parse(ids []int32) Message {
	if end := c.tags["<|im_end|>"]; hasSuffix(ids, end) {
		ids = ids[:len(ids)-len(end)]
	}
	m := Message{Role: Assistant, Content: c.tokenizer.Decode(ids)}
	if rest, ok := strings.CutPrefix(m.Content, "<think>\n"); ok {
		if reasoning, content, ok := strings.Cut(rest, "\n</think>\n\n"); ok {
			m.Reasoning, m.Content = reasoning, content
		}
	}
	m.Content, m.ToolCalls, m.MalformedCalls = Hermes{}.Parse(m.Content)
	return m
}

func hasSuffix(ids, suffix []int32) bool {
	return len(ids) >= len(suffix) && slices.Equal(ids[len(ids)-len(suffix):], suffix)
}
