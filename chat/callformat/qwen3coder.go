package callformat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// qwen3Coder is the format of Qwen3-Coder and Qwen 3.5, which writes values bare:
//
//	<tool_call>
//	<function=search>
//	<parameter=query>
//	ada
//	</parameter>
//	</function>
//	</tool_call>
//
// Whether 7 is a number or a string only the tool's schema tells: without one every
// value is a string.
type qwen3Coder struct {
	types map[string]map[string][]string // of tool and parameter
}

func newQwen3Coder(tools []chat.Tool) (qwen3Coder, error) {
	f := qwen3Coder{types: make(map[string]map[string][]string)}
	for _, tool := range tools {
		if len(tool.Parameters) == 0 {
			continue
		}
		var schema struct {
			Properties map[string]struct {
				Type json.RawMessage `json:"type"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(tool.Parameters, &schema); err != nil {
			return f, fmt.Errorf("call format qwen3-coder: tool %s: parameters: %w", tool.Name, err)
		}
		types := make(map[string][]string)
		for name, property := range schema.Properties {
			var one string
			if json.Unmarshal(property.Type, &one) == nil {
				types[name] = []string{one}
				continue
			}
			var several []string
			if len(property.Type) > 0 && json.Unmarshal(property.Type, &several) != nil {
				return f, fmt.Errorf("call format qwen3-coder: tool %s: parameter %s: type %s, want a name or a list of names", tool.Name, name, property.Type)
			}
			types[name] = several
		}
		f.types[tool.Name] = types
	}
	return f, nil
}

func (qwen3Coder) Name() string { return "qwen3-coder" }

func (f qwen3Coder) Parse(text string) (string, []chat.ToolCall, []string) {
	content, rest, found := strings.Cut(text, "<tool_call>")
	if !found {
		return text, nil, nil
	}
	var calls []chat.ToolCall
	var malformed []string
	whole := true
	for found {
		var body, between string
		body, rest, found = strings.Cut(rest, "</tool_call>")
		body = strings.TrimSpace(body)
		call, ok := f.readCall(body)
		if !ok || !found {
			malformed = append(malformed, body)
		} else {
			calls = append(calls, call)
		}
		between, rest, found = strings.Cut(rest, "<tool_call>")
		whole = whole && strings.TrimSpace(between) == ""
	}
	if len(malformed) > 0 {
		return text, nil, malformed
	}
	if !whole { // text between or behind calls: nothing of it is a call to run
		for _, element := range strings.Split(text, "<tool_call>")[1:] {
			body, _, _ := strings.Cut(element, "</tool_call>")
			malformed = append(malformed, strings.TrimSpace(body))
		}
		return text, nil, malformed
	}
	return strings.TrimRight(content, "\n"), calls, nil
}

// readCall reads what stands between the tags of a call.
func (f qwen3Coder) readCall(body string) (chat.ToolCall, bool) {
	body, ok := strings.CutPrefix(body, "<function=")
	if !ok {
		return chat.ToolCall{}, false
	}
	body, ok = strings.CutSuffix(body, "</function>")
	if !ok {
		return chat.ToolCall{}, false
	}
	name, rest, ok := strings.Cut(body, ">")
	if !ok || name == "" || strings.ContainsAny(name, " \n<") {
		return chat.ToolCall{}, false
	}
	arguments := "{"
	seen := make(map[string]bool)
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		if rest, ok = strings.CutPrefix(rest, "<parameter="); !ok {
			return chat.ToolCall{}, false
		}
		var key, value string
		if key, rest, ok = strings.Cut(rest, ">"); !ok || key == "" || seen[key] {
			return chat.ToolCall{}, false
		}
		if value, rest, ok = strings.Cut(rest, "</parameter>"); !ok {
			return chat.ToolCall{}, false
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		quotedKey, err := marshal(key)
		if err != nil {
			return chat.ToolCall{}, false
		}
		if len(seen) > 0 {
			arguments += ", "
		}
		seen[key] = true
		arguments += quotedKey + ": " + f.literal(name, key, value)
	}
	return chat.ToolCall{Name: name, Arguments: arguments + "}"}, true
}

// literal returns a bare value as JSON: as the schema types it, or as a string where
// the schema is unknown or does not fit.
func (f qwen3Coder) literal(tool, key, value string) string {
	types := f.types[tool][key]
	if len(types) > 0 && !slices.Contains(types, "string") {
		bare := strings.TrimSpace(value)
		switch bare { // as Python writes them
		case "True":
			bare = "true"
		case "False":
			bare = "false"
		case "None":
			bare = "null"
		}
		if json.Valid([]byte(bare)) && slices.ContainsFunc(types, func(kind string) bool { return isLiteral(kind, bare) }) {
			return bare
		}
	}
	quoted, err := marshal(value)
	if err != nil {
		panic(err) // a string always encodes
	}
	return quoted
}

// isLiteral tells whether valid JSON is of a schema type.
func isLiteral(kind, text string) bool {
	switch kind {
	case "object":
		return text[0] == '{'
	case "array":
		return text[0] == '['
	case "boolean":
		return text == "true" || text == "false"
	case "null":
		return text == "null"
	case "integer":
		return strings.Trim(text, "-0123456789") == ""
	case "number":
		return text[0] == '-' || text[0] >= '0' && text[0] <= '9'
	}
	return false
}

// WriteTools uses the words of Qwen 3.5's chat template.
func (qwen3Coder) WriteTools(tools []chat.Tool) (string, error) {
	text := "# Tools\n\nYou have access to the following functions:\n\n<tools>"
	for _, tool := range tools {
		schema, err := tool.Schema("")
		if err != nil {
			return "", err
		}
		text += "\n" + schema
	}
	return text + "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n" +
		"<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n" +
		"<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>", nil
}

func (qwen3Coder) WriteCalls(content string, calls []chat.ToolCall) (string, error) {
	for i, call := range calls {
		if i > 0 || content != "" {
			content += "\n"
		}
		content += "<tool_call>\n<function=" + call.Name + ">\n"
		keys, values, err := fields(call.Arguments)
		if err != nil {
			return "", fmt.Errorf("call of %s: %w", call.Name, err)
		}
		for i, key := range keys {
			text, isString := stringOf(values[i])
			if !isString {
				text = string(values[i])
			}
			if strings.Contains(text, "</parameter>") || strings.Contains(text, "</tool_call>") {
				return "", fmt.Errorf("call of %s: argument %q: its text holds a tag that ends it", call.Name, key)
			}
			content += "<parameter=" + key + ">\n" + text + "\n</parameter>\n"
		}
		content += "</function>\n</tool_call>"
	}
	return content, nil
}

func (qwen3Coder) WriteResults(results []chat.Message) string {
	return chat.Hermes{}.WriteResults(results)
}

// fields reads a JSON object in the order of its keys.
func fields(text string) (keys []string, values []json.RawMessage, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("arguments %s: want a JSON object", chat.Excerpt(text))
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("arguments: %w", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, fmt.Errorf("arguments: %w", err)
		}
		keys, values = append(keys, key.(string)), append(values, value)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, fmt.Errorf("arguments: %w", err)
	}
	if strings.TrimSpace(text[d.InputOffset():]) != "" {
		return nil, nil, fmt.Errorf("arguments %s: text behind the JSON object", chat.Excerpt(text))
	}
	return keys, values, nil
}

// stringOf reads a JSON string. Null is none.
func stringOf(value json.RawMessage) (string, bool) {
	if value[0] != '"' {
		return "", false
	}
	var text string
	err := json.Unmarshal(value, &text)
	return text, err == nil
}
