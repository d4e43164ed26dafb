package callformat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// llama3JSON is the format of Llama 3.1 and later, whose whole reply is the call:
//
//	{"name": "search", "parameters": {"query": "ada"}}
//
// It may stand behind <|python_tag|>; several are separated by semicolons.
type llama3JSON struct{}

const pythonTag = "<|python_tag|>"

func (llama3JSON) Name() string { return "llama3-json" }

func (llama3JSON) Parse(text string) (string, []chat.ToolCall, []string) {
	rest, tagged := strings.CutPrefix(strings.TrimSpace(text), pythonTag)
	rest = strings.TrimSpace(rest)
	if !tagged && !looksLikeCall(rest) {
		return text, nil, nil
	}
	whole := rest
	var calls []chat.ToolCall
	for {
		d := json.NewDecoder(strings.NewReader(rest))
		var call struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Arguments  json.RawMessage `json:"arguments"` // models write this too
		}
		if err := d.Decode(&call); err != nil || call.Name == "" || call.Parameters != nil && call.Arguments != nil {
			return text, nil, []string{whole}
		}
		arguments := string(call.Parameters) + string(call.Arguments)
		if arguments == "" {
			arguments = "{}"
		}
		calls = append(calls, chat.ToolCall{Name: call.Name, Arguments: arguments})
		rest = strings.TrimSpace(rest[d.InputOffset():])
		if rest == "" {
			return "", calls, nil
		}
		var separated bool
		if rest, separated = strings.CutPrefix(rest, ";"); !separated {
			return text, nil, []string{whole}
		}
	}
}

// looksLikeCall tells whether text begins as a call does: an answer may be JSON too.
func looksLikeCall(text string) bool {
	rest, ok := strings.CutPrefix(text, "{")
	return ok && strings.HasPrefix(strings.TrimSpace(rest), `"name"`)
}

// WriteTools uses the words of Llama 3.2's chat template.
func (llama3JSON) WriteTools(tools []chat.Tool) (string, error) {
	text := "You have access to the following functions. To call a function, please respond with JSON for a function call." +
		`Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.` + "Do not use variables."
	for _, tool := range tools {
		schema, err := tool.Schema("    ")
		if err != nil {
			return "", err
		}
		text += "\n\n" + schema
	}
	return text, nil
}

func (llama3JSON) WriteCalls(content string, calls []chat.ToolCall) (string, error) {
	if content != "" {
		return "", fmt.Errorf("call format llama3-json: a reply is calls or text, not both")
	}
	texts := make([]string, len(calls))
	for i, call := range calls {
		name, err := marshal(call.Name)
		if err != nil {
			return "", err
		}
		arguments := call.Arguments
		if !json.Valid([]byte(arguments)) {
			if arguments, err = marshal(arguments); err != nil {
				return "", err
			}
		}
		texts[i] = `{"name": ` + name + `, "parameters": ` + arguments + "}"
	}
	return strings.Join(texts, "; "), nil
}

func (llama3JSON) WriteResults(results []chat.Message) string { return joinResults(results) }
