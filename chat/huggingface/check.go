package huggingface

import (
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// CheckExtension compares every prompt of a conversation as it grows with the
// template's rendering of it in one go, and tells where they first differ and why: as
// a rule the template rewrites what came before, so that it drops the reasoning of
// earlier replies. Where they differ, training on grown prompts is training on what
// the model saw, and a server that renders in one go would show it something else.
func (r *Renderer) CheckExtension(messages []chat.Message, tools []chat.Tool) error {
	opening := slices.IndexFunc(messages, func(m chat.Message) bool { return m.Role == chat.Assistant })
	if opening < 0 {
		opening = len(messages)
	}
	grown, err := r.Start(messages[:opening], tools)
	if err != nil {
		return err
	}
	ends := make([]int, opening, len(messages)) // ends[i] is where message i ends in grown
	for i := range ends {
		ends[i] = len(grown)
	}
	for at := opening; ; {
		if at > 0 && (at == len(messages) || messages[at].Role == chat.Assistant) && messages[at-1].Role != chat.Assistant {
			if err := r.compare(messages, tools, at, grown, ends); err != nil {
				return fmt.Errorf("huggingface: the template does not extend the conversation: %w", err)
			}
		}
		if at == len(messages) {
			return nil
		}
		n := together(messages[at:])
		if grown, err = r.Extend(grown, messages[at:at+n]); err != nil {
			return fmt.Errorf("at message %d: %w", at, err)
		}
		for range n {
			ends = append(ends, len(grown))
		}
		at += n
	}
}

// RenderWhole returns the ids of a conversation rendered in one go, ending with the
// generation prefix: what transformers' apply_chat_template(tokenize=True,
// add_generation_prompt=True) returns for what Written returns.
func (r *Renderer) RenderWhole(messages []chat.Message, tools []chat.Tool) ([]int32, error) {
	m := newMasks(r.tokenizer, messages, tools)
	written, asked, err := r.Written(m.messages(messages), m.tools(tools))
	if err != nil {
		return nil, fmt.Errorf("huggingface: %w", err)
	}
	text, err := r.render(written, asked, true)
	if err != nil {
		return nil, fmt.Errorf("huggingface: %w", err)
	}
	return m.encode(text)
}

// compare compares the prompt before message at.
func (r *Renderer) compare(messages []chat.Message, tools []chat.Tool, at int, grown []int32, ends []int) error {
	whole, err := r.RenderWhole(messages[:at], tools)
	if err != nil {
		return fmt.Errorf("messages 0 to %d in one go: %w", at-1, err)
	}
	prompt := slices.Concat(grown, r.prefixIDs)
	if slices.Equal(whole, prompt) {
		return nil
	}
	n := 0
	for n < min(len(whole), len(prompt)) && whole[n] == prompt[n] {
		n++
	}
	k := 0 // the message in which they differ
	for k < at-1 && ends[k] <= n {
		k++
	}
	return fmt.Errorf("message %d (%s), in the prompt before message %d: %s: as it grows %s, in one go %s",
		k, messages[k].Role, at, r.reason(messages, k, whole, prompt, n), r.around(prompt, n), r.around(whole, n))
}

// reason tells why message k differs from token n on.
func (r *Renderer) reason(messages []chat.Message, k int, whole, grown []int32, n int) string {
	rest, own := r.tokenizer.Decode(whole[n:]), r.tokenizer.Decode(grown[n:])
	switch m := messages[k]; {
	case rest == own:
		return "its text is the same and its tokens are others, as it joins the text before it"
	case m.Role == chat.Assistant && thinks(own) && !thinks(rest):
		if m.Reasoning == "" {
			return "the template drops the empty reasoning of an earlier reply"
		}
		return "the template drops the reasoning of an earlier reply"
	case n < len(grown) && grown[n] == r.end:
		return "the template writes what follows into a turn that was ended"
	case m.Role == chat.Assistant:
		return "the template rewrites an earlier reply"
	}
	return "the template rewrites what was seen"
}

// around quotes ids from a few before place n on.
func (r *Renderer) around(ids []int32, n int) string {
	return fmt.Sprintf("%q", chat.Excerpt(r.tokenizer.Decode(ids[max(0, min(n, len(ids))-4):])))
}

func thinks(text string) bool { return strings.HasPrefix(strings.TrimLeft(text, "\n"), "<think>") }
