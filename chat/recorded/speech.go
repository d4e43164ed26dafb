package recorded

import (
	"bytes"
	"strings"
)

// speech is a message in the making, whose texts grow.
type speech struct {
	Message
	content, reasoning []byte
}

// message returns the message as it is.
func (s *speech) message() Message {
	s.Content, s.Reasoning = string(s.content), string(s.reasoning)
	return s.Message
}

// empty reports whether nothing has been said.
func (s *speech) empty() bool {
	return s.NoContent && len(s.reasoning) == 0 && len(s.ToolCalls) == 0
}

// afterCall is the notice of what a message cannot hold in its order.
const afterCall = "text or reasoning after a call, placed before it"

// refused is an error that also is ErrRefused.
type refused struct{ error }

func (refused) Is(target error) bool { return target == ErrRefused }

// say appends a part of what the model said; between stands between two texts.
// Something that is no text cannot stand in sampled tokens.
func (s *speech) say(p part, between string) error {
	if len(s.ToolCalls) > 0 && strings.TrimSpace(p.text) != "" && (p.kind == textPart || p.kind == reasoningPart) {
		p.v.file.note(afterCall)
	}
	switch p.kind {
	case reasoningPart:
		s.think(p.text)
	case hiddenPart:
		p.hidden()
	case callPart:
		c, err := call(p.v)
		if err != nil {
			return err
		}
		s.ToolCalls = append(s.ToolCalls, c)
	case resultPart, markerPart:
		if !s.NotSampled {
			name := p.text
			if p.kind == resultPart {
				name = "a tool result"
			}
			return refused{p.v.errorf("%s in what the model said cannot be told in tokens: leave out the run, or give the message \"weight\": 0", name)}
		}
		text, err := p.show()
		if err != nil {
			return err
		}
		s.write(text, between)
	default:
		s.write(p.text, between)
	}
	return nil
}

const thinkEnd = "\n</think>\n\n"

// write appends text to the content.
func (s *speech) write(text, between string) {
	if len(s.content) > 0 && !bytes.HasSuffix(s.content, []byte(thinkEnd)) {
		s.content = append(s.content, between...)
	}
	s.content = append(s.content, text...)
	s.NoContent = false
}

// think appends reasoning. What the model thought after it had said something
// stands in the content, in tags.
func (s *speech) think(text string) {
	switch {
	case text == "":
	case len(s.content) > 0:
		if !bytes.HasSuffix(s.content, []byte("\n")) {
			s.content = append(s.content, '\n')
		}
		s.content = append(s.content, "<think>\n"+text+thinkEnd...)
	case len(s.reasoning) > 0:
		s.reasoning = append(s.reasoning, "\n\n"+text...)
	default:
		s.reasoning = append(s.reasoning, text...)
	}
}
