// Package chat holds conversations as the model's peers exchange them: messages
// with roles, parallel tool calls and tool results, and the codecs that turn one
// message into token ids exactly once.
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

// Codec turns messages into token ids once, and sampled ids back into a message.
// A prompt is the concatenation of encoded messages and the generation prefix, so
// that a longer conversation always extends the ids of a shorter one.
type Codec interface {
	// Encode returns the ids of one whole message with its delimiters.
	Encode(Message) ([]int32, error)
	// EncodeText returns the ids of text as it stands inside a message.
	EncodeText(text string) ([]int32, error)
	// GenerationPrefix returns the ids that open an assistant turn. They are part
	// of the prompt, never sampled.
	GenerationPrefix() []int32
	// GenerationSuffix returns the ids that complete an assistant turn after its
	// sampled ids: the end token if sampling was cut short, template glue that
	// follows the end token, or nothing. They are never sampled.
	GenerationSuffix(sampled []int32) []int32
	// DecodeAssistant parses sampled ids (without the generation prefix, with or
	// without the end token). Text that is no valid call comes back as content
	// without tool calls: what to answer is the environment's decision.
	DecodeAssistant(ids []int32) Message
	// Stop lists the id sequences that end an assistant turn; they are sampled.
	Stop() [][]int32
}
