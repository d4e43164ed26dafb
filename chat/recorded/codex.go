package recorded

import (
	"cmp"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// The rollout files of Codex, ~/.codex/sessions/…/rollout-*.jsonl, as version 0.128
// writes them, and others that begin with session_meta
// (codex-rs/protocol/src/protocol.rs, RolloutItem, and models.rs, ResponseItem): one
// event a line. The items of the Responses API among them (response_item) are the
// conversation, and what the model made of them is sampled. The instructions of
// session_meta are the system prompt. Turns that were rolled back are left out,
// compactions are passed over. Other events tell the same for people.

var codexEvents = []string{"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}

func isCodex(o object) bool {
	kind, _ := o.text("type")
	return o.has("payload") && slices.Contains(codexEvents, kind)
}

func matchCodex(d document) bool { return isCodex(d.first) }

func readCodex(d document) ([]Run, error) {
	var run Run
	log := codexLog{run: &run}
	for _, v := range d.items {
		if err := log.event(v); err != nil {
			return nil, err
		}
	}
	if len(log.messages) == 0 {
		return nil, noRuns{d.errorf("no response_item in the session: nothing was said")}
	}
	run.Messages = log.messages
	if log.system != nil {
		run.Messages = slices.Insert(run.Messages, 0, *log.system)
	}
	return []Run{run}, nil
}

// codexLog turns events into messages.
type codexLog struct {
	responses
	run    *Run
	system *Message
	turns  []int // index of the user message that each turn begins with
}

func (l *codexLog) event(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	kind, err := o.needText("type")
	if err != nil {
		return err
	}
	inner, err := o.need("payload")
	if err != nil {
		return err
	}
	payload, err := inner.object()
	if err != nil {
		return err
	}
	switch kind {
	case "session_meta":
		return l.session(payload)
	case "response_item":
		return l.item(inner, payload)
	case "event_msg":
		return l.message(payload)
	case "compacted":
		l.run.notice(compactions)
	case "turn_context", "world_state":
	default:
		l.run.notice("events of type " + chat.Excerpt(kind) + " were passed over")
	}
	return nil
}

// session reads what the first line tells. The file of a fork goes on with the lines
// of its parent, whose session it is not.
func (l *codexLog) session(o object) error {
	if l.run.ID != "" {
		return nil
	}
	l.run.ID = cmp.Or(scalarField(o, "id"), scalarField(o, "session_id"))
	v, ok := o.get("base_instructions")
	if !ok {
		return nil
	}
	if v.kind() == '{' {
		inner, err := v.object()
		if err != nil {
			return err
		}
		if v, ok = inner.get("text"); !ok {
			return nil
		}
	}
	text, err := v.text()
	if err == nil && text != "" {
		l.system = &Message{Message: chat.Message{Role: chat.System, Content: text}, at: v}
	}
	return err
}

// message reads an event that was written for people: where a turn begins, and when
// turns were rolled back.
func (l *codexLog) message(o object) error {
	kind, err := o.text("type")
	if err != nil {
		return err
	}
	switch kind {
	case "user_message":
		last := -1
		if n := len(l.turns); n > 0 {
			last = l.turns[n-1]
		}
		for i := len(l.messages) - 1; i > last; i-- {
			if l.messages[i].Role == chat.User {
				l.turns = append(l.turns, i)
				break
			}
		}
	case "thread_rolled_back":
		v, err := o.need("num_turns")
		if err != nil {
			return err
		}
		n, err := v.number()
		if err != nil {
			return err
		}
		if n < 1 || int(n) > len(l.turns) {
			return v.errorf("%g turns rolled back: want 1 to the %d turns before", n, len(l.turns))
		}
		first := len(l.turns) - int(n)
		for range l.turns[first:] {
			l.run.notice("turns that were rolled back were left out")
		}
		l.messages, l.turns, l.open = l.messages[:l.turns[first]], l.turns[:first], false
	}
	return nil
}

// item reads an item of the Responses API.
func (l *codexLog) item(v value, o object) error {
	kind, err := o.needText("type")
	if err != nil {
		return err
	}
	switch kind {
	case "message":
		return l.said(v, o)
	case "reasoning":
		return l.reasoning(v, o)
	case "function_call", "custom_tool_call":
		return l.responses.item(v)
	case "function_call_output", "custom_tool_call_output":
		output, err := o.need("output")
		if err != nil {
			return err
		}
		if output.kind() == '{' { // with a flag of success beside it
			inner, err := output.object()
			if err != nil {
				return err
			}
			if output, err = inner.need("content"); err != nil {
				return err
			}
		}
		text, err := l.run.eventText(output)
		if err != nil {
			return err
		}
		l.result(v, o, text)
	case "local_shell_call", "web_search_call", "tool_search_call":
		return l.call(v, o, strings.TrimSuffix(kind, "_call"))
	case "tool_search_output":
		tools, err := o.need("tools")
		if err != nil {
			return err
		}
		text, err := arguments(tools)
		if err != nil {
			return err
		}
		l.result(v, o, text)
	case "image_generation_call":
		if err := l.call(v, o, "image_generation"); err != nil {
			return err
		}
		l.result(v, o, l.run.images(1))
	case "compaction", "compaction_summary", "context_compaction":
		l.run.notice(compactions)
	case "ghost_snapshot":
	default:
		l.run.notice("items of type " + chat.Excerpt(kind) + " were passed over")
	}
	return nil
}

func (l *codexLog) result(v value, o object, text string) {
	l.open = false
	m := Message{Message: chat.Message{Role: chat.ToolRole, Content: text}, at: v}
	m.ToolCallID = cmp.Or(scalarField(o, "call_id"), scalarField(o, "id"))
	l.messages = append(l.messages, m)
}

// call adds a call of a tool that Codex or the server brings along.
func (l *codexLog) call(v value, o object, name string) error {
	c := chat.ToolCall{ID: cmp.Or(scalarField(o, "call_id"), scalarField(o, "id")), Name: name, Arguments: "{}"}
	for _, key := range []string{"action", "arguments"} {
		if given, ok := o.get(key); ok {
			var err error
			if c.Arguments, err = arguments(given); err != nil {
				return err
			}
		}
	}
	a := l.assistant(v)
	a.ToolCalls = append(a.ToolCalls, c)
	return nil
}

// said reads a message.
func (l *codexLog) said(v value, o object) error {
	content, ok := o.get("content")
	role, err := o.needText("role")
	if err != nil {
		return err
	}
	text := ""
	if ok && roles[role] == chat.Assistant {
		text, err = saidText(content)
	} else if ok {
		text, err = l.run.eventText(content)
	}
	if err != nil {
		return err
	}
	switch known, ok := roles[role]; {
	case !ok:
		return v.errorf("unknown role %q", chat.Excerpt(role))
	case known != chat.Assistant:
		l.open = false
		l.messages = append(l.messages, Message{Message: chat.Message{Role: known, Content: text}, at: v})
	default:
		a := l.assistant(v)
		if a.Content != "" && text != "" {
			a.Content += "\n"
		}
		a.Content, a.NoContent = a.Content+text, false
	}
	return nil
}

// reasoning adds what the model thought to its turn, as far as it can be read.
func (l *codexLog) reasoning(v value, o object) error {
	text := ""
	for _, key := range []string{"content", "summary"} {
		parts, ok := o.get(key)
		if !ok || text != "" {
			continue
		}
		items, err := parts.array()
		if err != nil {
			return err
		}
		var texts []string
		for _, item := range items {
			part, err := item.object()
			if err != nil {
				return err
			}
			s, err := part.needText("text")
			if err != nil {
				return err
			}
			texts = append(texts, s)
		}
		text = strings.Join(texts, "\n")
		if text != "" && key == "summary" {
			l.run.notice("reasoning is known by its summary alone")
		}
	}
	if text == "" {
		l.run.notice("reasoning that is encrypted was left out")
		return nil
	}
	a := l.assistant(v)
	if a.Reasoning != "" {
		a.Reasoning += "\n"
	}
	a.Reasoning += text
	return nil
}
