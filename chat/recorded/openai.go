package recorded

import (
	"encoding/json"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// matchMessages accepts {"messages": [...]} and an array of messages.
func matchMessages(d document) bool {
	_, _, ok := d.conversation()
	return ok || d.first.has("role")
}

func readMessages(d document) ([]Run, error) { return readTurns(d, "") }

// holders are the fields of an object that may hold its messages.
var holders = []string{"request", "inputs", "input", "values", "state", "body", "kwargs"}

// conversation returns the list of messages of an object, and the object that holds
// it: the object itself, or the request in it.
func (d document) conversation() (holder object, list value, ok bool) {
	outer, here := d.object.get("messages")
	if here && (outer.kind() != '[' || d.object.filled("messages")) {
		return d.object, outer, true
	}
	for _, name := range holders {
		if inner, ok := d.object.child(name); ok {
			if list, ok := inner.get("messages"); ok && list.kind() == '[' {
				return inner, list, true
			}
		}
	}
	if here { // and empty
		return d.object, outer, true
	}
	return object{}, value{}, false
}

// readTurns reads a conversation, the system prompt and the reply that may stand
// beside it; between stands between two texts of one message.
func readTurns(d document, between string) ([]Run, error) {
	if d.items != nil {
		messages, err := turns(d.items, between)
		return []Run{{Messages: messages}}, err
	}
	holder, list, _ := d.conversation()
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	if holder.start != d.start {
		inner, err := header(holder)
		if err != nil {
			return nil, err
		}
		run.complete(inner)
	}
	if system, ok := holder.get("system"); ok {
		text, err := system.parts()
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, Message{Message: chat.Message{Role: chat.System, Content: text}, at: system})
	}
	items, err := list.array()
	if err != nil {
		return nil, err
	}
	messages, err := turns(items, between)
	if err != nil {
		return nil, err
	}
	run.Messages = append(run.Messages, messages...)
	return run.reply(d.object, between)
}

// complete takes what the header of an inner object tells and the outer does not.
func (r *Run) complete(inner Run) {
	if r.ID == "" {
		r.ID = inner.ID
	}
	if r.Group == "" {
		r.Group = inner.Group
	}
	if !r.HasScore {
		r.Score, r.HasScore = inner.Score, inner.HasScore
	}
	if r.Tools == nil {
		r.Tools = inner.Tools
	}
}

// messageList reads an array of OpenAI messages.
func messageList(v value) ([]Message, error) {
	items, err := v.array()
	if err != nil {
		return nil, err
	}
	return turns(items, "")
}

// turns reads messages.
func turns(items []value, between string) ([]Message, error) {
	messages := make([]Message, 0, len(items))
	for _, item := range items {
		more, err := turn(item, between)
		if err != nil {
			return nil, err
		}
		messages = append(messages, more...)
	}
	return messages, nil
}

// roles maps the names of roles to the four of package chat.
var roles = map[string]chat.Role{
	"system": chat.System, "developer": chat.System,
	"user": chat.User, "human": chat.User,
	"assistant": chat.Assistant, "ai": chat.Assistant, "gpt": chat.Assistant, "model": chat.Assistant,
	"tool": chat.ToolRole, "function": chat.ToolRole, "observation": chat.ToolRole,
}

// message reads one OpenAI message.
func message(v value) (Message, error) {
	messages, err := turn(v, "")
	if err != nil {
		return Message{at: v}, err
	}
	if len(messages) != 1 {
		return Message{at: v}, v.errorf("one message expected, its content holds %d", len(messages))
	}
	return messages[0], nil
}

// turn reads one message. Tool results among its content become messages of their
// own, in the order of the content; between stands between two texts.
func turn(v value, between string) ([]Message, error) {
	o, err := v.object()
	if err != nil {
		return nil, err
	}
	name, err := o.needText("role")
	if err != nil {
		return nil, err
	}
	role, ok := roles[name]
	if !ok {
		at, _ := o.get("role")
		return nil, at.errorf("unknown role %q", chat.Excerpt(name))
	}
	m := Message{Message: chat.Message{Role: role, NoContent: true}, at: v}
	if m.Name, err = o.text("name"); err != nil {
		return nil, err
	}
	if m.ToolCallID, err = o.label("tool_call_id"); err != nil {
		return nil, err
	}
	var parts []part
	if content, ok := o.get("content"); ok {
		if parts, err = m.contentParts(content); err != nil {
			return nil, err
		}
	}
	if role == chat.Assistant {
		return m.spoken(o, parts, between)
	}
	messages, err := m.told(parts, between)
	if err != nil {
		return nil, err
	}
	return messages, messages[len(messages)-1].userSide(o)
}

// contentParts returns the parts of a content. What a tool returned may be any
// object: its JSON is the text.
func (m *Message) contentParts(content value) ([]part, error) {
	if m.Role == chat.ToolRole {
		return content.toolContent()
	}
	return content.content()
}

// told returns the messages of a content that is shown to the model: m, and the tool
// results in it.
func (m Message) told(parts []part, between string) ([]Message, error) {
	var messages []Message
	text := speech{Message: m}
	for _, p := range parts {
		if p.kind != resultPart || m.Role == chat.ToolRole {
			s, err := p.show()
			if err != nil {
				return nil, err
			}
			text.write(s, between)
			continue
		}
		if !text.NoContent {
			messages, text = append(messages, text.message()), speech{Message: m}
		}
		result, err := toolResult(p)
		if err != nil {
			return nil, err
		}
		messages = append(messages, result)
	}
	if !text.NoContent || len(messages) == 0 {
		messages = append(messages, text.message())
	}
	return messages, nil
}

// toolResult reads a tool result that stands among the content of a message.
func toolResult(p part) (Message, error) {
	m := Message{Message: chat.Message{Role: chat.ToolRole, NoContent: true}, at: p.v}
	o, err := p.v.object()
	if err != nil {
		return m, err
	}
	for _, name := range []string{"tool_use_id", "tool_call_id", "id"} {
		if m.ToolCallID == "" {
			if m.ToolCallID, err = o.label(name); err != nil {
				return m, err
			}
		}
	}
	content, ok := o.first("content", "output", "text")
	if !ok {
		_, ok := o.get("content")
		m.NoContent = !ok
		return m, nil
	}
	parts, err := m.contentParts(content)
	if err != nil {
		return m, err
	}
	text := speech{Message: m}
	for _, p := range parts {
		s, err := p.show()
		if err != nil {
			return m, err
		}
		text.write(s, "")
	}
	return text.message(), nil
}

// spoken returns what the model said: one message, or several where the server ran
// tools in between.
func (m Message) spoken(o object, parts []part, between string) ([]Message, error) {
	var err error
	if m.NotSampled, err = o.notSampled(); err != nil {
		return nil, err
	}
	said := speech{Message: m}
	var messages []Message
	for _, p := range parts {
		if p.kind != resultPart {
			if err := said.say(p, between); err != nil {
				return nil, err
			}
			continue
		}
		result, err := toolResult(p)
		if err != nil {
			return nil, err
		}
		messages = append(messages, said.message(), result)
		said = speech{Message: m}
	}
	if refusal, ok := o.first("refusal"); ok {
		text, err := refusal.text()
		if err != nil {
			return nil, err
		}
		if err := said.say(part{text: text, v: refusal}, between); err != nil {
			return nil, err
		}
	}
	if audio, ok := o.child("audio"); ok && said.NoContent {
		if err := said.say(part{kind: markerPart, text: "audio", v: audio.value}, between); err != nil {
			return nil, err
		}
	}
	if err := said.fieldCalls(o); err != nil {
		return nil, err
	}
	if len(messages) == 0 || !said.empty() {
		messages = append(messages, said.message())
	}
	first := &messages[0]
	reasoning, err := o.reasoning()
	switch {
	case err != nil:
		return nil, err
	case reasoning == "" || within(reasoning, first.Reasoning):
	case first.Reasoning == "" || within(first.Reasoning, reasoning) && !strings.Contains(first.Content, thinkEnd):
		first.Reasoning = reasoning
	case !within(first.Reasoning, reasoning):
		first.Reasoning = reasoning + "\n\n" + first.Reasoning
	}
	return messages, messages[len(messages)-1].recordedIDs(o)
}

// fieldCalls reads the calls that stand beside the content. Those that stand among
// it too are taken once.
func (m *Message) fieldCalls(o object) error {
	var calls []chat.ToolCall
	list, ok := o.get("tool_calls")
	if ok {
		var err error
		if calls, err = callList(list); err != nil {
			return err
		}
	}
	if legacy, ok := o.get("function_call"); ok {
		inner, isObject := o.child("function_call")
		if _, named := inner.first("name"); !isObject || named || len(calls) == 0 { // servers write an empty one too
			c, err := call(legacy)
			if err != nil {
				return err
			}
			calls = union(calls, []chat.ToolCall{c})
		}
	}
	m.ToolCalls = union(calls, m.ToolCalls)
	return nil
}

// union appends to calls those of more that are not among them: forms that repeat
// calls in several places are taken once. Calls are the same by id, and where one has
// none by name and arguments; each is the same as one other only.
func union(calls, more []chat.ToolCall) []chat.ToolCall {
	if len(calls) == 0 {
		return more
	}
	type key struct{ name, arguments string }
	byID, bare, all := make(map[string][]int), make(map[key][]int), make(map[key][]int) // places in calls
	says := func(c chat.ToolCall) key { return key{name: c.Name, arguments: sorted(c.Arguments)} }
	for i, c := range calls {
		if c.ID != "" {
			byID[c.ID] = append(byID[c.ID], i)
		} else {
			bare[says(c)] = append(bare[says(c)], i)
		}
		all[says(c)] = append(all[says(c)], i)
	}
	taken := make([]bool, len(calls))
	for _, c := range more {
		known, isKnown := byID[c.ID]
		switch {
		case isKnown:
			known = untaken(known, taken)
			byID[c.ID] = known
		case c.ID != "":
			known = untaken(bare[says(c)], taken)
			bare[says(c)] = known
		default:
			known = untaken(all[says(c)], taken)
			all[says(c)] = known
		}
		if len(known) == 0 {
			calls = append(calls, c)
			continue
		}
		taken[known[0]] = true
		if calls[known[0]].ID == "" {
			calls[known[0]].ID = c.ID
		}
	}
	return calls
}

// untaken drops the places at the front that are taken.
func untaken(places []int, taken []bool) []int {
	for len(places) > 0 && taken[places[0]] {
		places = places[1:]
	}
	return places
}

// sorted returns arguments with their keys in order, for comparing; what is no JSON
// stays as it is.
func sorted(arguments string) string {
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	var v any
	if !json.Valid([]byte(arguments)) || d.Decode(&v) != nil {
		return arguments
	}
	text, err := json.Marshal(v)
	if err != nil {
		return arguments
	}
	return string(text)
}

// userSide marks what is no word of a person: the result of a tool that the user
// called, and the user's calls, which stand as JSON after the text.
func (m *Message) userSide(o object) error {
	if requestor, _ := o.text("requestor"); requestor == "user" && m.Role == chat.ToolRole {
		m.Role, m.Observation = chat.User, true
		o.file.note("results of the user's own tool calls, shown as observations")
	}
	list, ok := o.get("tool_calls")
	if !ok || m.Role != chat.User || list.kind() != '[' {
		return nil
	}
	calls, err := list.array()
	if err != nil || len(calls) == 0 {
		return err
	}
	text := speech{Message: *m, content: []byte(m.Content)}
	for _, call := range calls {
		text.write(call.canonical(), "\n")
	}
	*m = text.message()
	m.Observation = true
	o.file.note("tool calls of the user, shown as observations")
	return nil
}

// callList reads tool calls.
func callList(v value) ([]chat.ToolCall, error) {
	items, err := v.array()
	if err != nil {
		return nil, err
	}
	var calls []chat.ToolCall
	for _, item := range items {
		c, err := call(item)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// call reads one tool call: {"id", "function": {"name", "arguments"}}, or name and
// arguments (args, input) without the wrapping. Arguments in a string stay as the
// model wrote them, an object is written in the one layout of chat.CanonicalJSON.
func call(v value) (chat.ToolCall, error) {
	o, err := v.object()
	if err != nil {
		return chat.ToolCall{}, err
	}
	var c chat.ToolCall
	if c.ID, err = o.label("id"); err != nil {
		return c, err
	}
	for _, name := range []string{"function", "custom"} {
		if inner, ok := o.child(name); ok {
			o = inner
			break
		}
	}
	if c.Name, err = o.needText("name"); err != nil {
		return c, err
	}
	c.Arguments = "{}"
	for _, key := range []string{"arguments", "args", "input", "parameters"} {
		if arguments, ok := o.get(key); ok {
			c.Arguments = arguments.scalar()
			break
		}
	}
	return c, nil
}
