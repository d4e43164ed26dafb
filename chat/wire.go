package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Messages and tools are written in the OpenAI wire form: null content where there
// is none, calls and tools wrapped in {"type": "function", "function": ...}.
// Reading also takes content as an array of text parts, calls without wrapping, and
// arguments as an object, which is then written in the one layout of CanonicalJSON.

type wireMessage struct {
	Role        Role            `json:"role"`
	Content     json.RawMessage `json:"content"`
	Reasoning   string          `json:"reasoning_content,omitempty"`
	ToolCalls   []wireCall      `json:"tool_calls,omitempty"`
	ToolCallID  string          `json:"tool_call_id,omitempty"`
	Name        string          `json:"name,omitempty"`
	Observation bool            `json:"observation,omitempty"`
	Malformed   []string        `json:"malformed_calls,omitempty"`
}

type wireCall struct {
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"type"`
	Function *wireFunction `json:"function,omitempty"`
	wireFunction
}

type wireFunction struct {
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// MarshalJSON writes the OpenAI wire form.
func (m Message) MarshalJSON() ([]byte, error) {
	w := wireMessage{Role: m.Role, Reasoning: m.Reasoning, ToolCallID: m.ToolCallID, Name: m.Name, Observation: m.Observation, Malformed: m.MalformedCalls}
	w.Content = json.RawMessage("null")
	if !m.NoContent {
		w.Content = json.RawMessage(quote(m.Content))
	}
	for _, call := range m.ToolCalls {
		w.ToolCalls = append(w.ToolCalls, wireCall{ID: call.ID, Type: "function",
			Function: &wireFunction{Name: call.Name, Arguments: json.RawMessage(quote(call.Arguments))}})
	}
	return marshal(w)
}

// UnmarshalJSON reads the OpenAI wire form.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w wireMessage
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*m = Message{Role: w.Role, Reasoning: w.Reasoning, ToolCallID: w.ToolCallID, Name: w.Name, Observation: w.Observation, MalformedCalls: w.Malformed}
	var err error
	if m.Content, m.NoContent, err = readContent(w.Content); err != nil {
		return err
	}
	for i, call := range w.ToolCalls {
		f := call.wireFunction
		if call.Function != nil {
			f = *call.Function
		}
		if f.Name == "" {
			return fmt.Errorf("tool_calls[%d]: a call without a name", i)
		}
		arguments := string(CanonicalJSON(f.Arguments))
		if len(f.Arguments) > 0 && f.Arguments[0] == '"' {
			if err := json.Unmarshal(f.Arguments, &arguments); err != nil {
				return err
			}
		}
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: call.ID, Name: f.Name, Arguments: arguments})
	}
	return nil
}

// readContent reads a content: a string, null or absent, or an array of parts, of
// which those that are no text are an error.
func readContent(raw json.RawMessage) (text string, none bool, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", true, nil
	}
	if raw[0] != '[' {
		return text, false, json.Unmarshal(raw, &text)
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", false, fmt.Errorf("content: %w", err)
	}
	var b strings.Builder
	for i, part := range parts {
		if part.Text == nil {
			return "", false, fmt.Errorf("content[%d]: a part of type %q, want text", i, part.Type)
		}
		b.WriteString(*part.Text)
	}
	return b.String(), false, nil
}

type wireTool struct {
	Type     string        `json:"type,omitempty"`
	Function *wireToolBody `json:"function,omitempty"`
	wireToolBody
}

type wireToolBody struct {
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// MarshalJSON writes the OpenAI wire form.
func (t Tool) MarshalJSON() ([]byte, error) {
	return marshal(wireTool{Type: "function", Function: &wireToolBody{t.Name, t.Description, t.Parameters}})
}

// Schema returns the OpenAI wire form as models have seen it, in the layout of
// CanonicalJSON; with an indent in lines, as indent=4 of json.dumps writes them for four
// spaces.
func (t Tool) Schema(indent string) (string, error) {
	data, err := t.MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("tool %s: %w", t.Name, err)
	}
	return string(layOut(data, indent)), nil
}

// UnmarshalJSON reads the OpenAI wire form.
func (t *Tool) UnmarshalJSON(data []byte) error {
	var w wireTool
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	body := w.wireToolBody
	if w.Function != nil {
		body = *w.Function
	}
	*t = Tool(body)
	return nil
}

// marshal is json.Marshal without escaping <, > and &.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// quote returns s as a JSON string without escaping <, > and &.
func quote(s string) string {
	text, err := marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(text)
}
