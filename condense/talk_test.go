package condense_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/token"
	"github.com/infinirl/infinirl/trajectory"
)

// triples is a tokenizer of three bytes a token, about as dense as real ones are,
// with the delimiters of ChatML as control tokens.
type triples struct{}

func (triples) Encode(text string) ([]int32, error) {
	ids := make([]int32, 0, len(text)/3+1)
	for len(text) > 0 {
		n := min(3, len(text))
		id := int32(n) << 24
		for i := range n {
			id |= int32(text[i]) << (8 * i)
		}
		ids, text = append(ids, id), text[n:]
	}
	return ids, nil
}

func (triples) Decode(ids []int32) string {
	var text []byte
	for _, id := range ids {
		switch id {
		case 0:
			text = append(text, "<|im_start|>"...)
		case 1:
			text = append(text, "<|im_end|>"...)
		}
		for i := range id >> 24 {
			text = append(text, byte(id>>(8*i)))
		}
	}
	return string(text)
}

func (triples) Size() int { return 1 << 26 }

func (triples) Control(name string) (int32, bool) {
	i := slices.Index([]string{"<|im_start|>", "<|im_end|>"}, name)
	return int32(i), i >= 0
}

// newRenderer returns ChatML over a tokenizer.
func newRenderer(t testing.TB, tokenizer token.Tokenizer) *chat.ChatML {
	t.Helper()
	renderer, err := chat.NewChatML(tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	return renderer
}

// talk writes a conversation: s, u, a and t are messages of system, user,
// assistant and tool with as many letters of content as the number says, a/2 makes
// two calls, and o is an observation in a user message.
//
//	s:100 u:40 a:30/2 t:500 t:80 a:30
func talk(text string) []chat.Message {
	var messages []chat.Message
	for i, word := range strings.Fields(text) {
		var role string
		var size, calls int
		role, rest, _ := strings.Cut(word, ":")
		sizeText, callsText, _ := strings.Cut(rest, "/")
		fmt.Sscan(sizeText, &size)
		fmt.Sscan(callsText, &calls)
		m := chat.Message{Content: strings.Repeat(string(rune('a'+i%26)), size)}
		switch role {
		case "s":
			m.Role = chat.System
		case "u":
			m.Role = chat.User
		case "o":
			m.Role, m.Observation = chat.User, true
		case "t":
			m.Role, m.ToolCallID = chat.ToolRole, "call_0"
		case "a":
			m.Role = chat.Assistant
			for k := range calls {
				// The ids repeat, as they do in recorded runs.
				m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: "call_0", Name: fmt.Sprintf("tool%d", k), Arguments: `{"x":1}`})
			}
		default:
			panic("talk: " + word)
		}
		messages = append(messages, m)
	}
	return messages
}

// played is a conversation that was cut, with what the sampler saw.
type played struct {
	*trajectory.Trajectory
	messages []chat.Message
	prompts  [][]int32 // before each reply, summaries among them
	replies  [][]int32
	err      error // that ended it early
}

// fakeSummary is a summary of n tokens at most that depends on the prompt.
func fakeSummary(renderer *chat.ChatML, prompt []int32, n int) []int32 {
	sum := int32(0)
	for _, id := range prompt {
		sum = sum*31 + id
	}
	text := fmt.Sprintf("so far %x", uint32(sum))
	ids, _ := triples{}.Encode(text)
	return append(ids[:min(len(ids), n-1)], renderer.Stop()[0]...)
}

// play cuts a conversation under a condenser. Every prompt is asked for twice: the
// second time nothing may change.
func play(t testing.TB, messages []chat.Message, renderer *chat.ChatML, config condense.Config) played {
	t.Helper()
	condenser, err := condense.New(config)
	if err != nil {
		t.Fatal(err)
	}
	r := trajectory.NewRecorder("t", "g", renderer, condenser)
	p := played{messages: messages}
	for _, m := range messages {
		if m.Role != chat.Assistant {
			if err := r.Observe(m); err != nil {
				t.Fatal(err)
			}
			continue
		}
		sampled, err := chat.Reply(renderer, m)
		if err != nil {
			t.Fatal(err)
		}
		for summary := true; summary; {
			prompt, err := r.Prompt(len(sampled))
			if err != nil {
				status, ok := trajectory.StatusOf(err)
				if !ok {
					t.Fatal(err)
				}
				p.Trajectory, p.err = r.Close(status), err
				return p
			}
			ask := r.Asked()
			summary = ask != nil
			before := len(r.Trajectory().Segments)
			again, err := r.Prompt(len(sampled))
			if err != nil || !slices.Equal(again, prompt) || len(r.Trajectory().Segments) != before {
				t.Fatalf("asked again: %d tokens and %d segments, first %d and %d; %v",
					len(again), len(r.Trajectory().Segments), len(prompt), before, err)
			}
			reply := sampled
			if summary {
				reply = fakeSummary(renderer, prompt, ask.Tokens)
				_, err = r.Reply(reply, nil, trajectory.Versions{})
			} else {
				err = r.ReplyMessage(m, sampled)
			}
			if err != nil {
				t.Fatal(err)
			}
			p.prompts = append(p.prompts, prompt)
			p.replies = append(p.replies, reply)
		}
	}
	p.Trajectory = r.Close(trajectory.Finished)
	return p
}

// kept returns which messages a record keeps.
func kept(r condense.Record) map[int]bool {
	keep := make(map[int]bool)
	for _, k := range r.Keep {
		for i := k.Start; i < k.End; i++ {
			keep[i] = true
		}
	}
	return keep
}

// verify checks what has to hold of every conversation under every rule.
func (p played) verify(c condense.Config) error {
	rows, err := p.Samples()
	if err != nil {
		return err
	}
	if err := p.verifyPrompts(c, rows); err != nil {
		return err
	}
	for k, s := range p.Segments {
		if err := p.verifyRecord(c, s.Record); err != nil {
			return fmt.Errorf("segment %d, %s: %w", k, s.Record.JSON(), err)
		}
	}
	if err := p.verifyHysteresis(c); err != nil {
		return err
	}
	if p.err != nil {
		var overflow *condense.OverflowError
		if errors.As(p.err, &overflow) && overflow.Window+overflow.Reserve <= c.High {
			return fmt.Errorf("an overflow that fits: %w", p.err)
		}
		return nil
	}
	total := 0
	for _, e := range p.Entries {
		total += len(e.IDs)
	}
	if total <= c.High && (len(rows) > 1 || len(rows) == 1 && (p.Segments[0].Record.Rule != condense.None || p.Segments[0].Record.Kept() != p.Segments[0].Record.Messages)) {
		return fmt.Errorf("%d tokens fit under high %d and were touched", total, c.High)
	}
	return nil
}

// verifyPrompts checks that the rows hold every reply once, trainable exactly where
// it was sampled, after the very prompt that the sampler saw, within the budget,
// and that records read back give the same prompts.
func (p played) verifyPrompts(c condense.Config, rows []trajectory.Sample) error {
	turn := 0
	for k, row := range rows {
		if row.InvIter != len(rows)-1-k {
			return fmt.Errorf("segment %d of %d has inv_iter %d", k, len(rows), row.InvIter)
		}
		if n := len(row.Prompt) + len(row.Response); n > c.High {
			return fmt.Errorf("segment %d has %d tokens, high is %d", k, n, c.High)
		}
		record, err := condense.ParseRecord(row.Condense)
		if err != nil {
			return err
		}
		if record.Digest() != p.Segments[k].Record.Digest() {
			return fmt.Errorf("segment %d: a record read back is another", k)
		}
		derived, err := record.Prompt(nil, p)
		if err != nil {
			return err
		}
		if first := p.Entries[p.Segments[k].Start]; !slices.Equal(append(derived, first.IDs[:first.Start]...), row.Prompt) {
			return fmt.Errorf("segment %d: a record read back gives another prompt", k)
		}
		ids := slices.Concat(row.Prompt, row.Response)
		trained := record.Kind == "" || option(c, "train_summary") == true
		for i := 0; i < len(row.Response); {
			at := len(row.Prompt) + i
			if turn == len(p.replies) {
				return fmt.Errorf("segment %d: more tokens than were sampled", k)
			}
			reply := p.replies[turn]
			if !slices.Equal(ids[:at], p.prompts[turn]) {
				i++
				if trained && row.Mask[i-1] {
					return fmt.Errorf("segment %d: trainable token %d outside of a reply", k, i-1)
				}
				continue
			}
			if !slices.Equal(ids[at:at+len(reply)], reply) || slices.Contains(row.Mask[i:i+len(reply)], !trained) {
				return fmt.Errorf("segment %d: reply %d is not trained as it was sampled", k, turn)
			}
			i += len(reply)
			turn++
		}
	}
	if turn != len(p.replies) {
		return fmt.Errorf("%d replies are in the rows, %d were sampled", turn, len(p.replies))
	}
	return nil
}

// verifyRecord checks that system messages and task stay, and that a cut never
// falls between a call and its results, nor between results of one message.
func (p played) verifyRecord(c condense.Config, r condense.Record) error {
	keep := kept(r)
	for i, replaced := range r.Replacements() {
		m := p.Entries[i].Message
		result := m.Role == chat.ToolRole || m.Observation
		clear := c.Rule == condense.ToolClear && (result || option(c, "clear_tool_inputs") == true && len(m.ToolCalls) > 0)
		if cut := replaced.Kind == condense.Cut; cut && !(c.CutOversize && result) || !cut && !clear {
			return fmt.Errorf("message %d, %s, is replaced: %+v", i, m.Role, replaced)
		}
	}
	task := true
	round, sibling := -1, -1 // the call message whose results follow, the last of them
	for i := range r.Messages {
		m := p.Entries[i].Message
		result := m.Role == chat.ToolRole || m.Observation
		switch {
		case m.Role == chat.System || m.Role == chat.User && task && !result:
			if !keep[i] {
				return fmt.Errorf("message %d, %s, was dropped", i, m.Role)
			}
		case m.Role == chat.Assistant:
			round, sibling, task = i, -1, false
		case result && keep[i] != keep[round] && (option(c, "mode") != condense.Result || !keep[i] || c.Rule != condense.ToolFIFO):
			return fmt.Errorf("result %d kept: %v, its call %d kept: %v", i, keep[i], round, keep[round])
		case result && sibling >= 0 && keep[i] != keep[sibling]:
			return fmt.Errorf("results %d and %d of one call message: kept %v and %v", sibling, i, keep[sibling], keep[i])
		case result:
			sibling = i
		}
	}
	return nil
}

// verifyHysteresis checks that a window that came down to low takes high-low
// tokens, less one reply, until it is condensed again.
func (p played) verifyHysteresis(c condense.Config) error {
	for k := 1; k+1 < len(p.Segments); k++ {
		r, next := p.Segments[k].Record, p.Segments[k+1].Record
		if r.Kind != "" || c.Rule == condense.Summary {
			continue
		}
		reply := p.Entries[p.Segments[k].Start]
		nextReply := p.Entries[p.Segments[k+1].Start]
		if r.TokensAfter+reply.End > c.Low {
			continue
		}
		if grown := next.TokensBefore - r.TokensAfter; grown+nextReply.End <= c.High-c.Low {
			return fmt.Errorf("segment %d was cut after %d more tokens, high-low is %d", k, grown, c.High-c.Low)
		}
	}
	return nil
}

// option is what a configuration says of one of the rules' own options.
func option(c condense.Config, name string) any {
	if value, set := c.Options[name]; set {
		return value
	}
	rule, err := condense.Lookup(c.Rule)
	if err != nil {
		return nil
	}
	return rule.Options[name]
}
