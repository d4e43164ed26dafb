// Package template renders conversations with the Jinja chat templates of Hugging
// Face models, as transformers' apply_chat_template does, and extends prompts
// without rendering again what a model has already seen.
package template

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/chat"
)

// Template is a compiled chat template. It is safe for concurrent use.
type Template struct{ compiled *jinja.Template }

// Options are what a template is told beside the messages.
type Options struct {
	Tools []chat.Tool
	// AddGenerationPrompt ends the text with what opens an assistant turn.
	AddGenerationPrompt bool
	// Variables are further variables, such as bos_token, eos_token and
	// enable_thinking: strings, booleans, integers or nil.
	Variables map[string]any
}

// Compile parses a template.
func Compile(source string) (*Template, error) {
	rewritten, err := rewrite(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	compiled, err := jinja.Compile(rewritten)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return &Template{compiled}, nil
}

// maxConfig bounds a tokenizer_config.json: the added tokens of the largest known make
// a megabyte.
const maxConfig = 64 << 20

// ReadConfig compiles the template of a tokenizer_config.json: of several, the one
// called name, by default "default". It returns the special tokens that templates
// refer to as variables.
func ReadConfig(r io.Reader, name string) (*Template, map[string]any, error) {
	data, err := bounded.ReadAll(r, maxConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("tokenizer config: %w", err)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, nil, fmt.Errorf("tokenizer config: %w", err)
	}
	variables := make(map[string]any)
	for _, key := range []string{"bos_token", "eos_token", "pad_token", "unk_token"} {
		var token struct {
			Content *string `json:"content"`
		}
		var text string
		switch {
		case json.Unmarshal(config[key], &text) == nil:
			variables[key] = text
		case json.Unmarshal(config[key], &token) == nil && token.Content != nil:
			variables[key] = *token.Content
		}
	}
	source, err := templateSource(config["chat_template"], name)
	if err != nil {
		return nil, nil, fmt.Errorf("tokenizer config: chat_template: %w", err)
	}
	t, err := Compile(source)
	return t, variables, err
}

// templateSource reads a template: a text, or a list of named ones.
func templateSource(raw json.RawMessage, name string) (string, error) {
	if len(raw) == 0 {
		return "", fmt.Errorf("there is none")
	}
	var source string
	if json.Unmarshal(raw, &source) == nil {
		return source, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("want a text or a list of named templates: %w", err)
	}
	if name == "" {
		name = "default"
	}
	var names []string
	for _, t := range named {
		if t.Name == name {
			return t.Template, nil
		}
		names = append(names, t.Name)
	}
	return "", fmt.Errorf("none is called %q, there are %s", name, strings.Join(names, ", "))
}

// Render writes a conversation. A template that raises an exception is an error, and so
// is one that loops or recurses without end or would take more memory than any template
// has use for (guard.go): time and memory are counted before they are spent.
func (t *Template) Render(messages []chat.Message, o Options) (text string, err error) {
	data := make(map[string]jinja.Value, len(o.Variables)+4)
	for name, v := range o.Variables {
		data[name] = jinja.FromGoValue(v)
	}
	list := make([]jinja.Value, len(messages))
	for i, m := range messages {
		if list[i], err = messageValue(m); err != nil {
			return "", fmt.Errorf("chat template: message %d: %w", i, err)
		}
	}
	data["messages"] = jinja.NewList(list)
	data["tools"] = jinja.None()
	if len(o.Tools) > 0 {
		tools := make([]jinja.Value, len(o.Tools))
		for i, tool := range o.Tools {
			raw, err := json.Marshal(tool)
			if err != nil {
				return "", fmt.Errorf("chat template: tool %s: %w", tool.Name, err)
			}
			if tools[i], err = jsonValue(raw); err != nil {
				return "", fmt.Errorf("chat template: tool %s: %w", tool.Name, err)
			}
		}
		data["tools"] = jinja.NewList(tools)
	}
	data["add_generation_prompt"] = jinja.NewBool(o.AddGenerationPrompt)
	g, err := newGuard(data)
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	builtins(data, g)
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("chat template: it uses a value as what it is not: %v", r)
		}
	}()
	text, err = t.compiled.RenderValues(data)
	if err != nil {
		return "", fmt.Errorf("chat template: %s", oneLine(err.Error()))
	}
	return text, nil
}

// messageValue is a message as templates see it: arguments of calls as objects, if
// they are JSON.
func messageValue(m chat.Message) (jinja.Value, error) {
	v := jinja.NewDict()
	d := v.AsDict()
	d.Set("role", jinja.NewString(string(m.Role)))
	if m.NoContent {
		d.Set("content", jinja.None())
	} else {
		d.Set("content", jinja.NewString(m.Content))
	}
	if m.Reasoning != "" {
		d.Set("reasoning_content", jinja.NewString(m.Reasoning))
	}
	if len(m.ToolCalls) > 0 {
		calls := make([]jinja.Value, len(m.ToolCalls))
		for i, call := range m.ToolCalls {
			function := jinja.NewDict()
			function.AsDict().Set("name", jinja.NewString(call.Name))
			arguments, err := jsonValue([]byte(call.Arguments))
			if err != nil {
				arguments = jinja.NewString(call.Arguments)
			}
			function.AsDict().Set("arguments", arguments)
			calls[i] = jinja.NewDict()
			c := calls[i].AsDict()
			c.Set("type", jinja.NewString("function"))
			if call.ID != "" {
				c.Set("id", jinja.NewString(call.ID))
			}
			c.Set("function", function)
		}
		d.Set("tool_calls", jinja.NewList(calls))
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", jinja.NewString(m.ToolCallID))
	}
	if m.Name != "" {
		d.Set("name", jinja.NewString(m.Name))
	}
	return v, nil
}

// jsonValue reads one JSON value. Objects keep the order of their keys.
func jsonValue(text []byte) (jinja.Value, error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	v, err := nextValue(d)
	if err != nil {
		return jinja.Undefined(), err
	}
	if _, err := d.Token(); err != io.EOF {
		return jinja.Undefined(), fmt.Errorf("text after the JSON value")
	}
	return v, nil
}

func nextValue(d *json.Decoder) (jinja.Value, error) {
	t, err := d.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	switch t := t.(type) {
	case string:
		return jinja.NewString(t), nil
	case bool:
		return jinja.NewBool(t), nil
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return jinja.NewInt(n), nil
		}
		f, err := t.Float64()
		return jinja.NewFloat(f), err
	case json.Delim:
		if t == '[' {
			var items []jinja.Value
			for d.More() {
				item, err := nextValue(d)
				if err != nil {
					return item, err
				}
				items = append(items, item)
			}
			_, err := d.Token()
			return jinja.NewList(items), err
		}
		v := jinja.NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return v, err
			}
			item, err := nextValue(d)
			if err != nil {
				return item, err
			}
			v.AsDict().Set(key.(string), item)
		}
		_, err := d.Token()
		return v, err
	}
	return jinja.None(), nil
}

// Tokenizer encodes rendered text, in which control tokens are spelled out.
type Tokenizer interface {
	EncodeRendered(text string) ([]int32, error)
}

// Extender gives prompts of conversations that grow, token by token what the model
// has seen before.
type Extender struct {
	Template  *Template
	Tokenizer Tokenizer
	// End is the id that ends a turn, such as that of <|im_end|>.
	End     int32
	Options Options
}

// Prompt renders and encodes a conversation that was not seen before.
func (e Extender) Prompt(messages []chat.Message) ([]int32, error) {
	o := e.Options
	o.AddGenerationPrompt = true
	text, err := e.Template.Render(messages, o)
	if err != nil {
		return nil, err
	}
	return e.encode(text)
}

func (e Extender) encode(text string) ([]int32, error) {
	ids, err := e.Tokenizer.EncodeRendered(text)
	if err != nil {
		return nil, fmt.Errorf("chat template: encode a prompt: %w", err)
	}
	return ids, nil
}

// Extend returns the prompt of a conversation of which seen holds the first known
// messages, as they were prompted and sampled: seen ends with the turn of the last
// of them. What it holds stays as it is, also where the template would now render
// it otherwise. Where the template writes what is new into turns that were already
// seen, no prompt can extend them and the error says so.
func (e Extender) Extend(seen []int32, messages []chat.Message, known int) ([]int32, error) {
	if known < 1 || known > len(messages) {
		return nil, fmt.Errorf("chat template: %d of %d messages were seen, want at least 1 and no more than all", known, len(messages))
	}
	text, err := e.Template.Render(messages[:known], e.Options)
	if err != nil {
		return nil, err
	}
	ids, err := e.encode(text)
	if err != nil {
		return nil, err
	}
	before := e.turns(ids)
	after, err := e.Prompt(messages)
	if err != nil {
		return nil, err
	}
	turns := e.turns(after)
	if n, want := e.count(seen), e.count(ids); n != want {
		return nil, fmt.Errorf("chat template: %d turns were seen, the template renders %d messages as %d", n, known, want)
	}
	// The last turn seen, if it is no reply, must still be the same: templates write
	// neighbouring tool results into one turn.
	last := e.count(seen) - 1
	if messages[known-1].Role != chat.Assistant && (last >= len(turns) || !slices.Equal(before[last], turns[last])) {
		return nil, fmt.Errorf("chat template: it writes message %d into the turn of message %d, which was already seen: it cannot extend the prompt", known, known-1)
	}
	prompt, err := chat.Extend(seen, after, e.End)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return prompt, nil
}

func (e Extender) count(ids []int32) int {
	n := 0
	for _, id := range ids {
		if id == e.End {
			n++
		}
	}
	return n
}

// turns splits ids behind every end token.
func (e Extender) turns(ids []int32) [][]int32 {
	var turns [][]int32
	for {
		n := slices.Index(ids, e.End)
		if n < 0 {
			return append(turns, ids)
		}
		turns, ids = append(turns, ids[:n+1]), ids[n+1:]
	}
}
