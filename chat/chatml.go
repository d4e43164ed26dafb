package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/token"
)

// ChatML is the codec of the ChatML format with Hermes-style tool calls, over any
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
// it has none. Tool schemas are not written: they belong into the system message.
//
// Delimiters and content are tokenised apart, so that the ids of a delimiter do
// not depend on what it encloses.
type ChatML struct {
	tokenizer token.Tokenizer
	end       []int32          // <|im_end|>
	newline   []int32          // after it
	head      map[Role][]int32 // from <|im_start|> to the content
	tail      map[Role][]int32 // between the content and <|im_end|>
}

var _ Codec = (*ChatML)(nil)

// NewChatML returns the codec over a tokenizer.
func NewChatML(tokenizer token.Tokenizer) (*ChatML, error) {
	c := &ChatML{tokenizer: tokenizer, head: make(map[Role][]int32), tail: make(map[Role][]int32)}
	var failed error
	encode := func(text string) []int32 {
		if controls, ok := tokenizer.(token.Controls); ok {
			if id, ok := controls.Control(text); ok {
				return []int32{id}
			}
		}
		ids, err := tokenizer.Encode(text)
		if err != nil && failed == nil {
			failed = fmt.Errorf("chatml codec: %q: %w", text, err)
		}
		return ids
	}
	start := encode("<|im_start|>")
	c.end, c.newline = encode("<|im_end|>"), encode("\n")
	for _, role := range []Role{System, User, Assistant} {
		c.head[role] = slices.Concat(start, encode(string(role)+"\n"))
	}
	c.head[ToolRole] = slices.Concat(start, encode("user\n<tool_response>\n"))
	c.tail[ToolRole] = encode("\n</tool_response>")
	return c, failed
}

// Encode returns the ids of one whole message.
func (c *ChatML) Encode(m Message) ([]int32, error) {
	head, ok := c.head[m.Role]
	if !ok {
		return nil, fmt.Errorf("chatml codec: unknown role %q", m.Role)
	}
	text := m.Content
	if m.Role == Assistant {
		text = writeAssistant(m)
	} else if len(m.ToolCalls) > 0 {
		return nil, fmt.Errorf("chatml codec: %s message has tool calls", m.Role)
	}
	body, err := c.tokenizer.Encode(text)
	if err != nil {
		return nil, fmt.Errorf("chatml codec: %s message: %w", m.Role, err)
	}
	return slices.Concat(head, body, c.tail[m.Role], c.end, c.newline), nil
}

// EncodeText returns the ids of text.
func (c *ChatML) EncodeText(text string) ([]int32, error) { return c.tokenizer.Encode(text) }

// GenerationPrefix returns the ids of "<|im_start|>assistant\n".
func (c *ChatML) GenerationPrefix() []int32 { return c.head[Assistant] }

// GenerationSuffix returns the newline after <|im_end|>, and <|im_end|> itself
// for a reply that was cut before it.
func (c *ChatML) GenerationSuffix(sampled []int32) []int32 {
	if hasSuffix(sampled, c.end) {
		return c.newline
	}
	return slices.Concat(c.end, c.newline)
}

// Stop returns the one sequence <|im_end|>.
func (c *ChatML) Stop() [][]int32 { return [][]int32{c.end} }

// DecodeAssistant parses reasoning and tool calls; a malformed call leaves the
// whole reply as content.
func (c *ChatML) DecodeAssistant(ids []int32) Message {
	if hasSuffix(ids, c.end) {
		ids = ids[:len(ids)-len(c.end)]
	}
	m := Message{Role: Assistant, Content: c.tokenizer.Decode(ids)}
	if rest, ok := strings.CutPrefix(m.Content, "<think>\n"); ok {
		if reasoning, content, ok := strings.Cut(rest, "\n</think>\n\n"); ok {
			m.Reasoning, m.Content = reasoning, content
		}
	}
	if content, calls, ok := ParseToolCalls(m.Content); ok {
		m.Content, m.ToolCalls = content, calls
	}
	return m
}

// writeAssistant returns the text between the delimiters of an assistant message.
// Arguments that are no JSON are written as a JSON string.
func writeAssistant(m Message) string {
	var text strings.Builder
	if m.Reasoning != "" {
		text.WriteString("<think>\n" + m.Reasoning + "\n</think>\n\n")
	}
	text.WriteString(m.Content)
	for i, call := range m.ToolCalls {
		arguments := call.Arguments
		if !json.Valid([]byte(arguments)) { // models do write such
			arguments = quote(arguments)
		}
		if i > 0 || m.Content != "" {
			text.WriteByte('\n')
		}
		text.WriteString("<tool_call>\n{\"name\": " + quote(call.Name) + ", \"arguments\": " + arguments + "}\n</tool_call>")
	}
	return text.String()
}

// ParseToolCalls splits text that ends with Hermes-style <tool_call> elements into
// the text before them and the calls. ok is false if there are none, or if what
// they hold is no call.
func ParseToolCalls(text string) (content string, calls []ToolCall, ok bool) {
	const open, closing = "<tool_call>", "</tool_call>"
	content, rest, found := strings.Cut(text, open)
	for found {
		var body string
		if body, rest, found = strings.Cut(rest, closing); !found {
			return "", nil, false
		}
		d := json.NewDecoder(bytes.NewReader([]byte(body)))
		var call struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := d.Decode(&call); err != nil || call.Name == "" || strings.TrimSpace(body[d.InputOffset():]) != "" {
			return "", nil, false
		}
		arguments := string(call.Arguments)
		if arguments == "" {
			arguments = "{}"
		}
		calls = append(calls, ToolCall{Name: call.Name, Arguments: arguments})
		var between string
		if between, rest, found = strings.Cut(rest, open); strings.TrimSpace(between) != "" {
			return "", nil, false
		}
	}
	return strings.TrimSuffix(content, "\n"), calls, len(calls) > 0
}

func hasSuffix(ids, suffix []int32) bool {
	return len(ids) >= len(suffix) && slices.Equal(ids[len(ids)-len(suffix):], suffix)
}
