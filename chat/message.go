// Package chat holds conversations as the model's peers exchange them: messages
// with roles, parallel tool calls and tool results, and the renderers that turn
// every message into token ids exactly once.
package chat

import "encoding/json"

// Role names the author of a message.
type Role string

// The four roles of the OpenAI messages form.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role Role
	// Content is the text. NoContent tells a null or absent content from an empty one.
	Content   string
	NoContent bool
	// Reasoning is the hidden thinking some models return beside the content.
	Reasoning string
	// ToolCalls are the calls of an assistant message; several are parallel calls.
	ToolCalls []ToolCall
	// MalformedCalls are the texts that stand where a call should and are none: JSON
	// that is cut off, a call without a name. What to answer is the environment's
	// decision; the texts stay in Content too, so that nothing said is lost.
	MalformedCalls []string
	// ToolCallID and Name tell which call a tool message answers. Ids repeat in
	// recorded runs, so pairing is by position (condense), never by id alone.
	ToolCallID string
	Name       string
	// Observation marks a user message that holds the environment's answer to the
	// assistant message before it, as protocols without a tool role have them. It
	// is condensed as a tool result; a genuine user message is not.
	Observation bool
}

// ToolCall is one request of the assistant to run a tool.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is a JSON object, kept byte for byte as it was written.
	Arguments string
}

// Tool is the schema of one tool that the assistant may call.
type Tool struct {
	Name        string
	Description string
	// Parameters is a JSON Schema object; property order is kept.
	Parameters json.RawMessage
}
