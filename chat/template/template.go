// Package template renders conversations with the Jinja chat templates of Hugging
// Face models, as transformers' apply_chat_template does. Package huggingface makes of
// a template a renderer, whose prompts only grow.
package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ardanlabs/jinja"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/chat"
)

// Template is a compiled chat template. It is safe for concurrent use.
type Template struct {
	compiled *jinja.Template
	source   string
}

// Source returns the text of the template.
func (t *Template) Source() string { return t.source }

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
	return &Template{compiled, source}, nil
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
	if err != nil && g.spent {
		return "", fmt.Errorf("chat template: %w", spentError(oneLine(err.Error())))
	}
	if err != nil {
		return "", fmt.Errorf("chat template: %s", oneLine(err.Error()))
	}
	return text, nil
}

// ErrSpent is wrapped by the errors of a rendering that has spent all the time or memory
// that it may: to try again would take as long.
var ErrSpent = errors.New("chat template: over the bounds of a rendering")

// spentError says which bound.
type spentError string

func (e spentError) Error() string { return string(e) }

func (spentError) Is(target error) bool { return target == ErrSpent }

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
