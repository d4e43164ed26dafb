package huggingface

import (
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/callformat"
)

// base is the short conversation behind which messages are rendered.
type base struct {
	messages []chat.Message
	text     string // of messages
	// Without messages it is a question and the calls that results answer, which some
	// templates repeat.
	parallel  bool   // a call for each result, or one for all
	reasoning string // of the reply with the calls
}

// The messages of the short conversations.
var (
	question = chat.Message{Role: chat.User, Content: "What is it?"}
	answer   = chat.Message{Role: chat.Assistant, Content: "It is."}
)

// called returns the conversation that results end.
func (b *base) called(results []chat.Message) []chat.Message {
	m := chat.Message{Role: chat.Assistant, Reasoning: b.reasoning}
	for i, result := range results {
		if i > 0 && !b.parallel {
			break
		}
		call := chat.ToolCall{ID: result.ToolCallID, Name: result.Name, Arguments: "{}"}
		if call.Name == "" {
			call.Name = "call"
		}
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return []chat.Message{question, m}
}

// bases returns the short conversations to try for a role, the most natural first.
func bases(role chat.Role) []*base {
	asked, answered := &base{messages: []chat.Message{question}}, &base{messages: []chat.Message{question, answer}}
	switch role {
	case chat.Assistant:
		return []*base{asked}
	case chat.ToolRole:
		// Some templates write a reply otherwise once another message follows, unless it
		// has reasoning; some take no parallel calls.
		const reasoning = "Let me see."
		return []*base{{parallel: true}, {parallel: true, reasoning: reasoning}, {}, {reasoning: reasoning}, answered}
	}
	return []*base{answered, asked}
}

// behindBase returns the text that a template adds for messages behind a base.
func (r *Renderer) behindBase(b *base, messages []chat.Message) (string, error) {
	short, before := b.messages, b.text
	if short == nil {
		var err error
		short = b.called(messages)
		if before, err = r.render(short, nil, false); err != nil {
			return "", err
		}
	}
	after, err := r.render(slices.Concat(short, messages), nil, false)
	if err != nil {
		return "", err
	}
	text, ok := strings.CutPrefix(after, before)
	if !ok {
		return "", fmt.Errorf("the template cannot be extended by a %s message: it rewrites what stands before: %s", messages[0].Role, difference(before, after))
	}
	return text, nil
}

// addition returns the text of messages that are no replies and are rendered
// together.
func (r *Renderer) addition(messages []chat.Message) (string, error) {
	role := messages[0].Role
	if role == chat.ToolRole && !r.native {
		messages = []chat.Message{{Role: chat.User, Content: r.format.WriteResults(messages)}}
		role = chat.User
	}
	b, ok := r.bases[role]
	switch {
	case ok:
	case r.refused[role] != nil:
		return "", r.refused[role]
	default:
		return "", fmt.Errorf("unknown role %q", role)
	}
	if len(messages[0].ToolCalls) > 0 {
		return "", fmt.Errorf("a %s message has tool calls", role)
	}
	return r.behindBase(b, messages)
}

// replyText returns the text of a reply from the generation prefix to the end of its
// turn, as the template writes it behind a question and before what follows.
func (r *Renderer) replyText(m chat.Message) (string, error) {
	text, err := r.behindBase(r.bases[chat.Assistant], append([]chat.Message{m}, r.behind...))
	if err != nil {
		return "", err
	}
	text, ok := strings.CutSuffix(text, r.follower)
	if !ok {
		return "", fmt.Errorf("the template cannot be extended behind a reply: it writes what follows otherwise, %s", difference(r.follower, text))
	}
	return text, nil
}

// reply returns the text of a reply between generation prefix and suffix.
func (r *Renderer) reply(m chat.Message) (string, error) {
	m, err := r.writeReply(m)
	if err != nil {
		return "", err
	}
	text, err := r.replyText(m)
	if err != nil {
		return "", err
	}
	body, ok := strings.CutPrefix(text, r.prefix)
	if !ok {
		return "", fmt.Errorf("the template does not write this reply behind its generation prompt: %s", difference(r.prefix, text))
	}
	if body, ok = strings.CutSuffix(body, r.tail); !ok {
		return "", fmt.Errorf("the template does not end this reply with %q", r.tail)
	}
	return body, nil
}

// shape is what a reply has.
type shape struct {
	content, reasoning bool
	calls              int // 2 for more
}

// form is how replies of a shape are written: what the template leaves out stands in
// the content, as the call format writes it.
type form struct {
	reasoning, calls bool // in the content
	err              error
}

func shapeOf(m chat.Message) shape {
	return shape{m.Content != "", m.Reasoning != "", min(len(m.ToolCalls), 2)}
}

// writeReply returns a reply as the template is given it.
func (r *Renderer) writeReply(m chat.Message) (chat.Message, error) {
	f := r.forms[shapeOf(m)]
	if f.err != nil {
		return m, f.err
	}
	return f.write(r.format, m)
}

func (f form) write(format callformat.Format, m chat.Message) (chat.Message, error) {
	m.NoContent = false // most templates fail on null
	if f.calls {
		content, err := format.WriteCalls(m.Content, m.ToolCalls)
		if err != nil {
			return m, err
		}
		m.Content, m.ToolCalls = content, nil
	}
	if f.reasoning {
		m.Content, m.Reasoning = callformat.WriteReasoning(m.Reasoning, m.Content), ""
	}
	return m, nil
}

// Written returns messages and tools as the template is given them. They are the same
// where it writes tools, calls, results and reasoning. What it would leave out stands
// in the content of messages, as the call format writes it.
func (r *Renderer) Written(messages []chat.Message, tools []chat.Tool) ([]chat.Message, []chat.Tool, error) {
	var out []chat.Message
	for at := 0; at < len(messages); {
		n := together(messages[at:])
		m := messages[at]
		switch {
		case m.Role == chat.Assistant:
			var err error
			if m, err = r.writeReply(m); err != nil {
				return nil, nil, fmt.Errorf("message %d: %w", at, err)
			}
			out = append(out, m)
		case m.Role == chat.ToolRole && !r.native:
			out = append(out, chat.Message{Role: chat.User, Content: r.format.WriteResults(messages[at : at+n])})
		default:
			out = append(out, messages[at:at+n]...)
		}
		at += n
	}
	if len(tools) == 0 || r.native {
		return out, tools, nil
	}
	text, err := r.format.WriteTools(tools)
	if err != nil {
		return nil, nil, err
	}
	if len(out) > 0 && out[0].Role == chat.System {
		out[0].Content += "\n\n" + text
	} else {
		out = slices.Insert(out, 0, chat.Message{Role: chat.System, Content: text})
	}
	return out, nil, nil
}

// difference shows where two texts part.
func difference(want, got string) string {
	n := 0
	for n < min(len(want), len(got)) && want[n] == got[n] {
		n++
	}
	from := max(0, n-20)
	return fmt.Sprintf("%q, want %q", chat.Excerpt(got[from:]), chat.Excerpt(want[from:]))
}
