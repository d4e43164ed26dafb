package huggingface

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/callformat"
)

// Words that no template writes of its own.
const (
	probeText      = "quillfeather"
	probeReasoning = "marrowbone"
	probeResult    = "thistledown"
	probeSchema    = "copperplate"
)

// probe returns a reply of a shape. Its calls are such as every format can write.
func probe(s shape) chat.Message {
	m := chat.Message{Role: chat.Assistant}
	if s.content {
		m.Content = probeText
	}
	if s.reasoning {
		m.Reasoning = probeReasoning
	}
	for i := range s.calls {
		m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: fmt.Sprintf("call%05d", i), Name: "search", Arguments: fmt.Sprintf(`{"query": "query%d"}`, i)})
	}
	return m
}

// probeMessage returns a message of a role.
func probeMessage(role chat.Role) chat.Message {
	m := chat.Message{Role: role, Content: probeResult}
	if role == chat.ToolRole {
		m.ToolCallID, m.Name = "call00000", "search"
	}
	return m
}

var probeTools = []chat.Tool{{Name: "search", Description: "Finds.", Parameters: json.RawMessage(
	`{"type": "object", "properties": {"query": {"type": "string", "description": "` + probeSchema + `"}}, "required": ["query"]}`)}}

// learn finds out how the template writes. It tries nothing more once a probe has spent
// what a rendering may: the others would, one by one.
func (r *Renderer) learn(o Options) error {
	err := r.probeAll(o)
	if r.spent != nil {
		return r.spent
	}
	r.learnt = true
	return err
}

func (r *Renderer) probeAll(o Options) error {
	r.bases, r.refused = make(map[chat.Role]*base), make(map[chat.Role]error)
	for _, role := range []chat.Role{chat.User, chat.Assistant, chat.ToolRole, chat.System} {
		for _, b := range bases(role) {
			err := r.tryBase(b, role)
			if err == nil {
				r.bases[role] = b
				break
			}
			if r.refused[role] == nil {
				r.refused[role] = err
			}
		}
	}
	for _, role := range []chat.Role{chat.User, chat.Assistant} { // without others it may do
		if r.bases[role] != nil {
			continue
		}
		with, err := r.render([]chat.Message{question}, nil, true)
		if without, _ := r.render([]chat.Message{question}, nil, false); err == nil && with == without {
			return fmt.Errorf("%w (the template takes no notice of add_generation_prompt)", r.refused[role])
		}
		return r.refused[role]
	}
	if err := r.learnReply(); err != nil {
		return err
	}
	return r.learnFormat(o)
}

// tryBase tells whether messages of a role are written behind a base, and parallel
// results too.
func (r *Renderer) tryBase(b *base, role chat.Role) error {
	if b.messages != nil {
		var err error
		if b.text, err = r.render(b.messages, nil, false); err != nil {
			return err
		}
	}
	messages := []chat.Message{probeMessage(role)}
	if role == chat.ToolRole {
		second := probeMessage(role)
		second.ToolCallID = "call00001"
		messages = append(messages, second)
	}
	for n := range messages {
		text, err := r.behindBase(b, messages[:n+1])
		if err != nil {
			return err
		}
		if strings.Count(text, probeResult) != n+1 {
			return fmt.Errorf("the template does not write the content of %d %s messages", n+1, role)
		}
	}
	return nil
}

// learnReply finds what stands before and behind a reply.
func (r *Renderer) learnReply() error {
	prompts := [][]chat.Message{{question}, {question, answer, question}}
	if b := r.bases[chat.ToolRole]; b != nil {
		results := []chat.Message{probeMessage(chat.ToolRole)}
		short := b.messages
		if short == nil {
			short = b.called(results)
		}
		prompts = append(prompts, slices.Concat(short, results))
	}
	for i, messages := range prompts {
		before, err := r.render(messages, nil, false)
		if err != nil && i > 0 {
			continue
		}
		if err != nil {
			return err
		}
		after, err := r.render(messages, nil, true)
		if err != nil {
			return err
		}
		prefix, ok := strings.CutPrefix(after, before)
		switch {
		case !ok:
			return fmt.Errorf("the template cannot be extended by a reply: with a generation prompt it writes what stands before otherwise: %s", difference(before, after))
		case i == 0:
			r.prefix = prefix
		case prefix != r.prefix:
			return fmt.Errorf("the template opens replies in two ways, with %q and %q", r.prefix, prefix)
		}
	}
	var err error
	if r.prefixIDs, err = r.tokenizer.EncodeRendered(r.prefix); err != nil {
		return fmt.Errorf("the generation prefix: %w", err)
	}
	r.opened = callformat.Opened(r.prefix)

	// A reply is rendered as one that a result follows where that can be: the last
	// reply of a conversation, and those before the last question, some templates
	// write otherwise than the model has sampled them.
	followers := [][]chat.Message{nil}
	if r.bases[chat.ToolRole] != nil {
		followers = [][]chat.Message{{probeMessage(chat.ToolRole)}, nil}
	}
	var failed []error
	for _, follower := range followers {
		err := r.learnEnd(follower)
		if err == nil {
			return nil
		}
		failed = append(failed, err)
	}
	return failed[len(failed)-1]
}

// learnEnd finds how a reply ends when messages follow.
func (r *Renderer) learnEnd(follower []chat.Message) error {
	r.behind, r.follower = nil, ""
	if follower != nil {
		text, err := r.behindBase(r.bases[chat.ToolRole], follower)
		if err != nil {
			return err
		}
		r.behind, r.follower = follower, text
	}
	text, err := r.replyText(probe(shape{content: true}))
	if err != nil {
		return err
	}
	body, ok := strings.CutPrefix(text, r.prefix)
	if !ok {
		return fmt.Errorf("the template writes replies otherwise than it opens them: %s", difference(r.prefix, text))
	}
	_, tail, ok := strings.Cut(body, probeText)
	if !ok {
		return errors.New("the template does not write the content of an assistant message")
	}
	ids, err := r.tokenizer.EncodeRendered(tail)
	if err != nil {
		return fmt.Errorf("the end of a turn: %w", err)
	}
	if len(ids) == 0 {
		return errors.New("the template has no end of turn: nothing stands behind a reply")
	}
	spelled := r.tokenizer.Decode(ids[:1])
	if id, control := r.tokenizer.Control(spelled); !control || id != ids[0] {
		return fmt.Errorf("the template has no end of turn: behind a reply stands %q, want it to begin with a control token of the tokenizer", tail)
	}
	// In the middle of a conversation it must end as it does here.
	history, err := r.render([]chat.Message{question, probe(shape{content: true}), question}, nil, false)
	if err != nil {
		return err
	}
	if _, rest, _ := strings.Cut(history, probeText); !strings.HasPrefix(rest, tail) {
		return fmt.Errorf("the template has no stable end of turn: %s", difference(tail, rest))
	}
	r.tail, r.suffixIDs, r.end = tail, ids, ids[0]
	return nil
}

// learnFormat finds the format of calls, and what of a reply the template writes.
func (r *Renderer) learnFormat(o Options) error {
	one := shape{calls: 1}
	if o.CallFormat == "" {
		var fit []string
		for _, name := range callformat.Names() {
			f, err := callformat.ByName(name, probeTools)
			if err != nil {
				return err
			}
			if r.writes(f, form{}, one) == nil {
				fit = append(fit, name)
			}
		}
		if len(fit) != 1 {
			what := "the template writes calls in none of the formats known: as a rule it knows no tools"
			if len(fit) > 0 {
				what = "the template writes calls in several of the formats known: " + strings.Join(fit, ", ")
			}
			return fmt.Errorf("call format: %s: want one chosen, by chat.call_format in a configuration, --call-format of condense, Options.CallFormat in Go: hermes is the commonest, none is for no tools; all: %s",
				what, strings.Join(callformat.Names(), ", "))
		}
		o.CallFormat = fit[0]
	}
	var err error
	if r.format, err = callformat.ByName(o.CallFormat, o.Tools); err != nil {
		return err
	}
	f, err := callformat.ByName(o.CallFormat, probeTools)
	if err != nil {
		return err
	}
	r.native = r.bases[chat.ToolRole] != nil && r.writesTools() && r.writes(f, form{}, one) == nil
	r.forms = make(map[shape]form)
	for _, content := range []bool{false, true} {
		for _, reasoning := range []bool{false, true} {
			for calls := range 3 {
				s := shape{content, reasoning, calls}
				r.forms[s] = r.learnForm(f, s)
			}
		}
	}
	return r.forms[shape{content: true}].err
}

// learnForm returns the form of a shape that leaves most to the template.
func (r *Renderer) learnForm(f callformat.Format, s shape) form {
	var failed error
	for _, calls := range []bool{false, true} {
		for _, reasoning := range []bool{false, true} {
			if calls && s.calls == 0 || !calls && s.calls > 0 && !r.native || reasoning && !s.reasoning {
				continue
			}
			written := form{reasoning: reasoning, calls: calls}
			err := r.writes(f, written, s)
			if err == nil {
				return written
			}
			failed = err
		}
	}
	return form{err: failed}
}

// writes tells whether a reply of a shape is written whole: what is read back is what
// was written.
func (r *Renderer) writes(f callformat.Format, written form, s shape) error {
	want := probe(s)
	m, err := written.write(f, want)
	if err != nil {
		return err
	}
	text, err := r.replyText(m)
	if err != nil {
		return err
	}
	body, opened := strings.CutPrefix(text, r.prefix)
	body, ended := strings.CutSuffix(body, r.tail)
	if !opened || !ended {
		return fmt.Errorf("the template writes a reply with %s between other texts than %q and %q: %q", s, r.prefix, r.tail, chat.Excerpt(text))
	}
	got := callformat.Parse(f, body, r.opened)
	for i, call := range got.ToolCalls {
		got.ToolCalls[i].ID = fmt.Sprintf("call%05d", i)
		got.ToolCalls[i].Arguments = plain(call.Arguments)
	}
	for i, call := range want.ToolCalls {
		want.ToolCalls[i].Arguments = plain(call.Arguments)
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the template and the call format %s do not write a reply with %s whole: %q", f.Name(), s, chat.Excerpt(body))
	}
	return nil
}

// plain returns JSON without white space.
func plain(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	data, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return string(data)
}

// writesTools tells whether the template writes the schemas of tools, whether or not
// there is a system message.
func (r *Renderer) writesTools() bool {
	for _, messages := range [][]chat.Message{{question}, {{Role: chat.System, Content: "Be brief."}, question}} {
		text, err := r.render(messages, probeTools, false)
		if err != nil || !strings.Contains(text, probeTools[0].Name) || !strings.Contains(text, probeSchema) {
			return false
		}
	}
	return true
}

func (s shape) String() string {
	var parts []string
	if s.reasoning {
		parts = append(parts, "reasoning")
	}
	if s.content {
		parts = append(parts, "text")
	}
	switch s.calls {
	case 1:
		parts = append(parts, "a call")
	case 2:
		parts = append(parts, "parallel calls")
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}
