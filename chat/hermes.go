package chat

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Hermes is the call format of Nous Research's Hermes models, which Qwen 2.5 and 3
// share: a call is a JSON object between tags.
//
//	<tool_call>
//	{"name": "search", "arguments": {"query": "ada"}}
//	</tool_call>
//
// Results stand between <tool_response> tags in a user message. It is one of the
// formats of package callformat; ChatML writes it too.
type Hermes struct{}

// Name returns "hermes".
func (Hermes) Name() string { return "hermes" }

// Parse splits a reply into the text before its calls and the calls. Where anything
// between the tags is no call, all of the reply is content, and what stands inside
// the tags is malformed; so it is where text follows a call.
func (Hermes) Parse(text string) (content string, calls []ToolCall, malformed []string) {
	if content, calls, ok := ParseToolCalls(text); ok {
		return content, calls, nil
	}
	return text, nil, elements(text)
}

// WriteTools tells a model which tools there are and how to call them, in the words
// of Qwen2.5's chat template.
func (Hermes) WriteTools(tools []Tool) (string, error) {
	var b strings.Builder
	b.WriteString("# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>")
	for _, tool := range tools {
		schema, err := tool.Schema("")
		if err != nil {
			return "", err
		}
		b.WriteString("\n" + schema)
	}
	b.WriteString("\n</tools>\n\nFor each function call, return a json object with function name and arguments " +
		"within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>")
	return b.String(), nil
}

// WriteCalls returns the calls behind the content, each on lines of its own.
func (Hermes) WriteCalls(content string, calls []ToolCall) (string, error) {
	for i, call := range calls {
		if i > 0 || content != "" {
			content += "\n"
		}
		content += "<tool_call>\n" + hermesCall(call) + "\n</tool_call>"
	}
	return content, nil
}

// WriteResults returns the user message that holds the results of parallel calls.
func (Hermes) WriteResults(results []Message) string {
	texts := make([]string, len(results))
	for i, m := range results {
		texts[i] = "<tool_response>\n" + m.Content + "\n</tool_response>"
	}
	return strings.Join(texts, "\n")
}

// hermesCall is what stands between the tags. Arguments that are no JSON are written
// as a JSON string: models do write such.
func hermesCall(call ToolCall) string {
	arguments := call.Arguments
	if !json.Valid([]byte(arguments)) {
		arguments = quote(arguments)
	}
	return "{\"name\": " + quote(call.Name) + ", \"arguments\": " + arguments + "}"
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

// elements returns what stands inside the <tool_call> elements of a text, of which
// the last may lack its end.
func elements(text string) []string {
	var bodies []string
	for {
		_, rest, found := strings.Cut(text, "<tool_call>")
		if !found {
			return bodies
		}
		body, after, _ := strings.Cut(rest, "</tool_call>")
		bodies, text = append(bodies, strings.TrimSpace(body)), after
	}
}
