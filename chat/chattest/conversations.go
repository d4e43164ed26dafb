package chattest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/infinirl/infinirl/chat"
)

// conversations is how many each law sees.
const conversations = 10

// conversation is one that starts with opening, and goes on with rest: replies and
// what comes between them.
type conversation struct{ opening, rest []chat.Message }

// each calls f with the conversations of a subject, always the same.
func (s Subject) each(f func(conversation) error) error {
	for seed := range uint64(conversations) {
		c := s.conversation(rand.New(rand.NewPCG(seed, 7)))
		if err := f(c); err != nil {
			return fmt.Errorf("conversation %d: %w", seed, err)
		}
	}
	return nil
}

func (s Subject) text(r *rand.Rand) string { return s.Texts[r.IntN(len(s.Texts))] }

// conversation writes one at random.
func (s Subject) conversation(r *rand.Rand) conversation {
	var c conversation
	if r.IntN(2) == 0 {
		c.opening = append(c.opening, chat.Message{Role: chat.System, Content: s.text(r)})
	}
	c.opening = append(c.opening, chat.Message{Role: chat.User, Content: s.text(r)})
	replies := s.replies()
	for turn := range 1 + r.IntN(4) {
		if turn > 0 && c.rest[len(c.rest)-1].Role == chat.Assistant {
			c.rest = append(c.rest, chat.Message{Role: chat.User, Content: s.text(r)})
		}
		reply := replies[r.IntN(len(replies))]
		c.rest = append(c.rest, reply)
		for _, call := range reply.ToolCalls {
			c.rest = append(c.rest, chat.Message{Role: chat.ToolRole, Content: s.text(r), ToolCallID: call.ID, Name: call.Name})
		}
	}
	if last := len(c.rest) - 1; c.rest[last].Role != chat.Assistant {
		c.rest = append(c.rest, chat.Message{Role: chat.Assistant, Content: s.text(r)})
	}
	return c
}

// replies returns one reply of every kind that the renderer can write, for every
// text and call.
func (s Subject) replies() []chat.Message {
	var out []chat.Message
	reasonings := []string{""}
	if s.Reasoning {
		reasonings = append(reasonings, s.Texts...)
	}
	for _, reasoning := range reasonings {
		for _, text := range s.Texts {
			out = append(out, chat.Message{Role: chat.Assistant, Reasoning: reasoning, Content: text})
		}
	}
	for i := range s.Calls {
		calls := [][]chat.ToolCall{{s.numbered(i, 0)}}
		if s.ParallelCalls {
			calls = append(calls, []chat.ToolCall{s.numbered(i, 0), s.numbered(i+1, 1), s.numbered(i, 2)})
		}
		for _, calls := range calls {
			m := chat.Message{Role: chat.Assistant, ToolCalls: calls}
			out = append(out, m)
			if s.Reasoning {
				m.Reasoning = s.Texts[i%len(s.Texts)]
				out = append(out, m)
			}
			if s.TextBesideCalls {
				m.Content = s.Texts[(i+1)%len(s.Texts)]
				out = append(out, m)
			}
		}
	}
	return out
}

// numbered returns a call with an id of the form that the strictest templates want.
func (s Subject) numbered(i, n int) chat.ToolCall {
	call := s.Calls[i%len(s.Calls)]
	call.ID = fmt.Sprintf("call%05d", n)
	return call
}

// same tells whether two replies say the same. Ids of calls are not sampled, and of
// arguments the white space may differ.
func same(a, b chat.Message) bool { return reflect.DeepEqual(bare(a), bare(b)) }

func bare(m chat.Message) chat.Message {
	m.ToolCalls = slices.Clone(m.ToolCalls)
	m.NoContent = false
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		call.ID = ""
		var v any
		if json.Unmarshal([]byte(call.Arguments), &v) == nil {
			if data, err := json.Marshal(v); err == nil {
				call.Arguments = string(data)
			}
		}
	}
	return m
}

// copied returns messages that share nothing with the given ones.
func copied(messages []chat.Message) []chat.Message {
	out := slices.Clone(messages)
	for i := range out {
		out[i].ToolCalls = slices.Clone(out[i].ToolCalls)
		out[i].MalformedCalls = slices.Clone(out[i].MalformedCalls)
	}
	return out
}
