// Package chattest is the conformance suite of chat.Renderer: laws that every renderer
// keeps, so that what a model sees, samples and is trained on are the same tokens.
package chattest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/infinirl/infinirl/chat"
)

// Subject is a renderer, with what the suite has to know to write conversations.
type Subject struct {
	Renderer chat.Renderer
	// Tools are the tools of the conversations, and Calls calls of them. Without any
	// the conversations have no calls.
	Tools []chat.Tool
	Calls []chat.ToolCall
	// Texts are contents that the renderer can write in any message, without white
	// space around them.
	Texts []string
	// Malformed are replies with a call that is none, as Parse has them in Content.
	Malformed []string

	// What the renderer can write.
	ParallelCalls   bool // several calls in a reply
	TextBesideCalls bool
	Reasoning       bool // with or without text; with calls if it has those
	// ToolsInPrompt tells that Start writes the schemas of the tools.
	ToolsInPrompt bool
}

// Factory makes a subject. Every law has its own.
type Factory func() (Subject, error)

// law is what a renderer keeps; name says it.
type law struct {
	name  string
	holds func(Subject) error
}

var laws = []law{
	{"what was seen stays", seenStays},
	{"an extension depends on its messages alone", messagesAlone},
	{"a conversation is its prompt, replies and extensions", concatenation},
	{"pieces join to the whole", piecesJoin},
	{"a reply is parsed as what was written", roundTrip},
	{"the suffix completes a reply", suffixCompletes},
	{"a stop sequence ends each reply, and nothing before its end", stopEnds},
	{"malformed calls come back as such", malformedKept},
	{"tools are written", toolsWritten},
	{"messages, tools and ids are not changed", inputsStay},
	{"goroutines do not disturb each other", concurrent},
}

// Check returns the laws that a renderer breaks, joined.
func Check(factory Factory) error {
	var broken []error
	for _, l := range laws {
		broken = append(broken, l.check(factory))
	}
	return errors.Join(broken...)
}

// Run checks every law in a subtest. The last says most under the race detector.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			if err := l.check(factory); err != nil {
				t.Error(err)
			}
		})
	}
}

func (l law) check(factory Factory) (err error) {
	s, err := factory()
	if err != nil {
		return fmt.Errorf("chattest: the factory: %w", err)
	}
	if len(s.Texts) == 0 {
		return errors.New("chattest: a subject without texts")
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: panic: %v", l.name, r)
		}
	}()
	if err := l.holds(s); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}
