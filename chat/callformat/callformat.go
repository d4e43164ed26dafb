// Package callformat holds the forms in which models write tool calls as text, and
// reads replies in them.
//
// Chat templates know how to write a call and not how to read one; some do not even
// write it. A Format does both, and also what such a template lacks: it tells of the
// tools and writes their results into plain messages.
package callformat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// Format is a form of calls. Its text stands behind the reasoning of a reply.
type Format interface {
	// Name is what ByName takes.
	Name() string
	// Parse splits the text of a reply into content and calls. If anything that looks
	// like a call is none, the whole text is content, there are no calls, and malformed
	// holds the texts that should be calls.
	Parse(text string) (content string, calls []chat.ToolCall, malformed []string)
	// WriteTools returns what a system message tells of the tools.
	WriteTools(tools []chat.Tool) (string, error)
	// WriteCalls returns the text of a reply with calls: Parse gives back both.
	WriteCalls(content string, calls []chat.ToolCall) (string, error)
	// WriteResults returns the user message that holds the results of parallel calls.
	WriteResults(results []chat.Message) string
}

// Names lists the formats that ByName knows.
func Names() []string { return []string{"hermes", "qwen3-coder", "llama3-json", "search-r1", "none"} }

// ByName returns a format. The schemas of tools tell formats that write values bare
// (qwen3-coder) which of them are strings; other formats need none.
func ByName(name string, tools []chat.Tool) (Format, error) {
	switch name {
	case "hermes":
		return chat.Hermes{}, nil
	case "qwen3-coder":
		return newQwen3Coder(tools)
	case "llama3-json":
		return llama3JSON{}, nil
	case "search-r1":
		return searchR1{}, nil
	case "none":
		return none{}, nil
	}
	return nil, fmt.Errorf("call format %q: want one of %s", name, strings.Join(Names(), ", "))
}

// The tags around reasoning, in every format.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Opened tells whether a generation prefix leaves reasoning open, so that a reply
// begins inside of it.
func Opened(prefix string) bool {
	return strings.LastIndex(prefix, thinkOpen) > strings.LastIndex(prefix, thinkClose)
}

// Parse reads a reply: reasoning, then content and calls. opened tells that the
// generation prefix has opened the reasoning. Reasoning that does not end is all
// there is of a reply that was cut.
func Parse(f Format, text string, opened bool) chat.Message {
	m := chat.Message{Role: chat.Assistant}
	rest, found := strings.CutPrefix(strings.TrimLeft(text, "\n"), thinkOpen)
	switch {
	case found:
	case opened:
		rest, found = text, true
	default:
		rest = text
	}
	if found {
		reasoning, after, _ := strings.Cut(rest, thinkClose)
		m.Reasoning = strings.Trim(reasoning, "\n")
		rest = strings.TrimLeft(after, "\n")
	}
	m.Content, m.ToolCalls, m.MalformedCalls = f.Parse(rest)
	return m
}

// WriteReasoning returns content behind its reasoning, as Parse reads it.
func WriteReasoning(reasoning, content string) string {
	return thinkOpen + "\n" + reasoning + "\n" + thinkClose + "\n\n" + content
}

// none is the format of conversations without tools.
type none struct{}

func (none) Name() string { return "none" }

func (none) Parse(text string) (string, []chat.ToolCall, []string) { return text, nil, nil }

func (none) WriteTools([]chat.Tool) (string, error) {
	return "", fmt.Errorf("call format none has no tools: want one of %s", strings.Join(Names()[:len(Names())-1], ", "))
}

func (f none) WriteCalls(string, []chat.ToolCall) (string, error) { return f.WriteTools(nil) }

func (none) WriteResults(results []chat.Message) string { return joinResults(results) }

// joinResults is the text of results that a format does not mark.
func joinResults(results []chat.Message) string {
	texts := make([]string, len(results))
	for i, m := range results {
		texts[i] = m.Content
	}
	return strings.Join(texts, "\n")
}

// marshal returns v as JSON without escaping <, > and &.
func marshal(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
