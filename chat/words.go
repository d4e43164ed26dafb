package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/token"
)

// The control words of the word-level renderer.
const (
	wordSystem    = "<|system|>"
	wordUser      = "<|user|>"
	wordAssistant = "<|assistant|>"
	wordTool      = "<|tool|>"
	wordEnd       = "<|end|>"
)

// WordControls returns the control words that a vocabulary needs for NewWords.
func WordControls() []string {
	return []string{wordSystem, wordUser, wordAssistant, wordTool, wordEnd}
}

// Words is the renderer over a closed word-level vocabulary. A message is its role's
// control word, its words, and <|end|>:
//
//	<|user|> who employs ada vale ? <|end|> <|assistant|> open 3 employer ada vale <|end|>
//
// An assistant message is either text or one call. A call is the tool's name and
// its arguments in the order of the schema's properties, every argument taking
// exactly the number of words that its property states as "x-words" (default 1).
type Words struct {
	vocabulary *token.Vocabulary
	roles      map[Role]int32
	end        int32
	tools      map[string][]parameter
}

var (
	_ Renderer = (*Words)(nil)
	_ encoder  = (*Words)(nil)
)

// parameter is one property of a tool's schema.
type parameter struct {
	name  string
	kind  string // JSON Schema type: string, integer, number or boolean
	words int
}

// NewWords returns the renderer for a vocabulary that holds WordControls and for the
// tools that the assistant may call. A parameter's type is string (the default),
// integer, number or boolean; a tool's name is one word.
func NewWords(vocabulary *token.Vocabulary, tools []Tool) (*Words, error) {
	w := &Words{vocabulary: vocabulary, tools: make(map[string][]parameter, len(tools))}
	var control [5]int32
	for i, name := range WordControls() {
		id, ok := vocabulary.Control(name)
		if !ok {
			return nil, fmt.Errorf("words: the vocabulary lacks the control word %s", name)
		}
		control[i] = id
	}
	w.roles = map[Role]int32{System: control[0], User: control[1], Assistant: control[2], ToolRole: control[3]}
	w.end = control[4]
	for _, tool := range tools {
		if ids, err := vocabulary.Encode(tool.Name); err != nil || len(ids) != 1 {
			return nil, fmt.Errorf("words: tool name %q is not one word of the vocabulary", tool.Name)
		}
		if _, ok := w.tools[tool.Name]; ok {
			return nil, fmt.Errorf("words: tool %q is given twice", tool.Name)
		}
		parameters, err := parseParameters(tool.Parameters)
		if err != nil {
			return nil, fmt.Errorf("words: tool %q: %w", tool.Name, err)
		}
		w.tools[tool.Name] = parameters
	}
	return w, nil
}

// Start writes the messages. The tools are part of the model: they stand in no
// prompt, and one that NewWords was not told of is an error.
func (w *Words) Start(messages []Message, tools []Tool) ([]int32, error) {
	for _, tool := range tools {
		if _, known := w.tools[tool.Name]; !known {
			return nil, fmt.Errorf("words: tool %q is not one that this vocabulary was made for", tool.Name)
		}
	}
	return w.Extend(nil, messages)
}

// Extend appends messages.
func (w *Words) Extend(seen []int32, messages []Message) ([]int32, error) {
	return extend(w, seen, messages)
}

// encode returns the ids of one whole message.
func (w *Words) encode(m Message) ([]int32, error) {
	role, ok := w.roles[m.Role]
	if !ok {
		return nil, fmt.Errorf("words: unknown role %q", m.Role)
	}
	text := m.Content
	switch {
	case m.Reasoning != "":
		return nil, fmt.Errorf("words: %s message has reasoning, which it cannot write", m.Role)
	case len(m.ToolCalls) == 0:
	case m.Role != Assistant:
		return nil, fmt.Errorf("words: %s message has tool calls", m.Role)
	case len(m.ToolCalls) > 1:
		return nil, fmt.Errorf("words: %d parallel calls, want at most one", len(m.ToolCalls))
	case text != "":
		return nil, fmt.Errorf("words: assistant message has text beside its call")
	default:
		var err error
		if text, err = w.writeCall(m.ToolCalls[0]); err != nil {
			return nil, fmt.Errorf("words: %w", err)
		}
	}
	ids, err := w.vocabulary.Encode(text)
	if err != nil {
		return nil, fmt.Errorf("words: %s message: %w", m.Role, err)
	}
	return append(slices.Insert(ids, 0, role), w.end), nil
}

// EncodeText returns one id a word.
func (w *Words) EncodeText(text string) ([]int32, error) { return w.vocabulary.Encode(text) }

// GenerationPrefix returns the id of <|assistant|>.
func (w *Words) GenerationPrefix() []int32 { return []int32{w.roles[Assistant]} }

// GenerationSuffix returns <|end|> for a reply that was cut before its end.
func (w *Words) GenerationSuffix(sampled []int32) []int32 {
	if n := len(sampled); n > 0 && sampled[n-1] == w.end {
		return nil
	}
	return []int32{w.end}
}

// Stop returns the one sequence <|end|>.
func (w *Words) Stop() [][]int32 { return [][]int32{{w.end}} }

// Parse reads a call if the ids spell exactly one, and is content otherwise. Words
// that begin with the name of a tool and are no call are malformed as one.
func (w *Words) Parse(ids []int32) Message {
	if n := len(ids); n > 0 && ids[n-1] == w.end {
		ids = ids[:n-1]
	}
	m := Message{Role: Assistant}
	if call, ok := w.readCall(ids); ok {
		m.ToolCalls = []ToolCall{call}
		return m
	}
	m.Content = w.vocabulary.Decode(ids)
	if len(ids) > 0 && w.isTool(ids[0]) {
		m.MalformedCalls = []string{m.Content}
	}
	return m
}

// DecodeMessages is the inverse of a prompt: the messages of concatenated encoded
// messages. A generation prefix at the end is no message and is left out.
func (w *Words) DecodeMessages(ids []int32) ([]Message, error) {
	var messages []Message
	for at := 0; at < len(ids); {
		role := Role("")
		for r, id := range w.roles {
			if id == ids[at] {
				role = r
			}
		}
		if role == "" {
			return nil, fmt.Errorf("words: token %d is %q, want the control word of a role", at, w.vocabulary.Word(ids[at]))
		}
		if role == Assistant && at == len(ids)-1 {
			break
		}
		length := slices.Index(ids[at:], w.end)
		if length < 0 {
			return nil, fmt.Errorf("words: the %s message at token %d has no %s", role, at, wordEnd)
		}
		body := ids[at+1 : at+length]
		if role == Assistant {
			messages = append(messages, w.Parse(body))
		} else {
			messages = append(messages, Message{Role: role, Content: w.vocabulary.Decode(body)})
		}
		at += length + 1
	}
	return messages, nil
}

// writeCall returns the words of a call.
func (w *Words) writeCall(call ToolCall) (string, error) {
	parameters, ok := w.tools[call.Name]
	if !ok {
		return "", fmt.Errorf("call of unknown tool %q", call.Name)
	}
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil {
		return "", fmt.Errorf("call of %s: arguments %q: %w", call.Name, call.Arguments, err)
	}
	text := call.Name
	for _, p := range parameters {
		raw, ok := arguments[p.name]
		if !ok {
			return "", fmt.Errorf("call of %s: argument %q is missing", call.Name, p.name)
		}
		delete(arguments, p.name)
		value := string(raw)
		if p.kind == "string" {
			if err := json.Unmarshal(raw, &value); err != nil {
				return "", fmt.Errorf("call of %s: argument %q is %s, want a string", call.Name, p.name, raw)
			}
		} else if !literalOf(p.kind, value) {
			return "", fmt.Errorf("call of %s: argument %q is %s, want %s", call.Name, p.name, raw, p.kind)
		}
		if n := len(strings.Fields(value)); n != p.words {
			return "", fmt.Errorf("call of %s: argument %q is %q, want %d words", call.Name, p.name, value, p.words)
		}
		text += " " + value
	}
	for name := range arguments {
		return "", fmt.Errorf("call of %s: unknown argument %q", call.Name, name)
	}
	return text, nil
}

// readCall parses ids as one call.
func (w *Words) readCall(ids []int32) (ToolCall, bool) {
	if len(ids) == 0 {
		return ToolCall{}, false
	}
	name := w.vocabulary.Word(ids[0])
	parameters, ok := w.tools[name]
	if !ok {
		return ToolCall{}, false
	}
	arguments := []byte{'{'}
	rest := ids[1:]
	for i, p := range parameters {
		if len(rest) < p.words {
			return ToolCall{}, false
		}
		for _, id := range rest[:p.words] {
			if _, control := w.vocabulary.Control(w.vocabulary.Word(id)); control {
				return ToolCall{}, false
			}
		}
		value := w.vocabulary.Decode(rest[:p.words])
		rest = rest[p.words:]
		if p.kind == "string" {
			value = quote(value)
		} else if !literalOf(p.kind, value) {
			return ToolCall{}, false
		}
		if i > 0 {
			arguments = append(arguments, ',')
		}
		arguments = append(arguments, quote(p.name)...)
		arguments = append(arguments, ':')
		arguments = append(arguments, value...)
	}
	if len(rest) > 0 {
		return ToolCall{}, false
	}
	return ToolCall{Name: name, Arguments: string(append(arguments, '}'))}, true
}

// literalOf reports whether text is a JSON literal of a schema type.
func literalOf(kind, text string) bool {
	switch kind {
	case "boolean":
		return text == "true" || text == "false"
	case "integer":
		return json.Valid([]byte(text)) && strings.Trim(text, "-0123456789") == ""
	default: // number
		var n json.Number
		return text[0] != '"' && json.Unmarshal([]byte(text), &n) == nil && n != ""
	}
}

// parseParameters reads the properties of a JSON Schema object in their order.
func parseParameters(schema json.RawMessage) ([]parameter, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	var object struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &object); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	if len(object.Properties) == 0 {
		return nil, nil
	}
	var parameters []parameter
	d := json.NewDecoder(bytes.NewReader(object.Properties))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("parameters: properties is not an object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("parameters: properties: %w", err)
		}
		property := struct {
			Type  string `json:"type"`
			Words int    `json:"x-words"`
		}{Type: "string", Words: 1}
		if err := d.Decode(&property); err != nil {
			return nil, fmt.Errorf("parameters: property %q: %w", key, err)
		}
		p := parameter{name: key.(string), kind: property.Type, words: property.Words}
		switch p.kind {
		case "string":
			if p.words < 1 {
				return nil, fmt.Errorf("parameters: property %q: x-words is %d, want at least 1", p.name, p.words)
			}
		case "integer", "number", "boolean":
			if p.words != 1 {
				return nil, fmt.Errorf("parameters: property %q: x-words is %d, want 1 for %s", p.name, p.words, p.kind)
			}
		default:
			return nil, fmt.Errorf("parameters: property %q: type %q, want string, integer, number or boolean", p.name, p.kind)
		}
		parameters = append(parameters, p)
	}
	return parameters, nil
}

// isTool tells whether an id is the name of a tool.
func (w *Words) isTool(id int32) bool {
	_, known := w.tools[w.vocabulary.Word(id)]
	return known
}

// Spell returns the words of ids, control words spelled out.
func (w *Words) Spell(ids []int32) string { return w.vocabulary.Decode(ids) }
