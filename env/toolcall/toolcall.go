// Package toolcall writes and reads the messages of agents that make one tool
// call a turn.
package toolcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// New returns the assistant message that calls a tool with the fields of
// arguments, a struct, in their order. It panics when they are no JSON.
func New(name string, arguments any) chat.Message {
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("toolcall: arguments of %s: %v", name, err))
	}
	return chat.Message{
		Role:      chat.Assistant,
		NoContent: true,
		ToolCalls: []chat.ToolCall{{Name: name, Arguments: string(text)}},
	}
}

// Arguments reads the arguments of a call into the struct that into points to. A
// field it does not have, a wrong type and anything after the object are errors.
func Arguments(call chat.ToolCall, into any) error {
	decoder := json.NewDecoder(bytes.NewReader([]byte(call.Arguments)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("arguments of %s: %w", call.Name, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("arguments of %s: more than one JSON value", call.Name)
	}
	return nil
}

// Result answers a call.
func Result(call chat.ToolCall, text string) chat.Message {
	return chat.Message{Role: chat.ToolRole, Content: text, ToolCallID: call.ID, Name: call.Name}
}

// Refuse answers an action that is not exactly one call: every call it makes, so
// that none stays without a result, or the text if it makes none.
func Refuse(action chat.Message, text string) []chat.Message {
	if len(action.ToolCalls) == 0 {
		return []chat.Message{Result(chat.ToolCall{}, text)}
	}
	var results []chat.Message
	for _, call := range action.ToolCalls {
		results = append(results, Result(call, text))
	}
	return results
}

// What a condenser with rule summary says in an environment of one call a turn.
const (
	SummaryRequest = "summary ?"
	SummaryNote    = "summary : "
)

// Window is what an agent that makes one call a turn goes by.
type Window struct {
	Task string // the first user message
	// Summarise tells that a summary is asked for instead of a call.
	Summarise bool
	// Summary is the newest one, if no call came after it.
	Summary string
	// Call is the last call and Result its result; HasCall tells whether there is one.
	Call    chat.ToolCall
	HasCall bool
	Result  string
}

// Read finds the task, the last call and its result among messages.
func Read(messages []chat.Message) (Window, error) {
	var w Window
	hasTask, answered := false, true
	for i, m := range messages {
		switch m.Role {
		case chat.User:
			w.Summarise = m.Content == SummaryRequest
			note, isNote := strings.CutPrefix(m.Content+" ", SummaryNote)
			switch {
			case !hasTask:
				w.Task, hasTask = m.Content, true
			case isNote:
				w.Summary = strings.TrimSpace(note)
			}
		case chat.Assistant:
			if len(m.ToolCalls) != 1 {
				return Window{}, fmt.Errorf("message %d makes %d calls, want one", i, len(m.ToolCalls))
			}
			w.Call, w.HasCall, answered = m.ToolCalls[0], true, false
			w.Summary = ""
		case chat.ToolRole:
			w.Result, answered = m.Content, true
		}
	}
	if !hasTask {
		return Window{}, fmt.Errorf("no task among the %d messages of the window", len(messages))
	}
	if !answered {
		return Window{}, fmt.Errorf("call of %s has no result in the window", w.Call.Name)
	}
	return w, nil
}
