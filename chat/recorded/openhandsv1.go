package recorded

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// The events of the OpenHands software agent SDK, versions 1.x
// (openhands-sdk/openhands/sdk/event at 17555e4a, to_llm_message of each kind): an
// array, one a line, the history of an evaluation, or a folder of one file an event.
// What the agent said and called is sampled: actions of one response of the model are
// one turn, and a TokenEvent holds the ids of the turn before it. Condensations are
// passed over, and so are events that no model reads.

// silentEvents are kinds of events that no model reads.
var silentEvents = []string{
	"CondensationRequest", "PauseEvent", "InterruptEvent", "ConversationStateUpdateEvent", "ConversationErrorEvent",
	"ConversationIterationLimitEvent", "LLMCompletionLogEvent", "SecurityAnalyzerConfigurationEvent", "StreamingDeltaEvent",
}

// knownEvents are the kinds of events that have a meaning here.
var knownEvents = []string{
	"SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "UserRejectObservation", "AgentErrorEvent",
	"Condensation", "CondensationSummaryEvent", "TokenEvent",
}

func isEventV1(o object) bool {
	kind, _ := o.text("kind")
	return slices.Contains(knownEvents, kind) || slices.Contains(silentEvents, kind)
}

// historyV1 returns the events of an object that holds them.
func historyV1(o object) (value, bool) {
	for _, key := range []string{"history", "events"} {
		if v, ok := o.get(key); ok && v.kind() == '[' {
			if inner, err := open(v); err == nil && isEventV1(inner.first) {
				return v, true
			}
		}
	}
	return value{}, false
}

func matchOpenHandsV1(d document) bool {
	_, ok := historyV1(d.object)
	return ok || isEventV1(d.first)
}

func readOpenHandsV1(d document) ([]Run, error) {
	var run Run
	events := d.items
	if history, ok := historyV1(d.object); ok {
		var err error
		if run, err = header(d.object); err != nil {
			return nil, err
		}
		if err := run.outcome(d.object, "", "report", "test_result.report", "test_result"); err != nil {
			return nil, err
		}
		if events, err = history.array(); err != nil {
			return nil, err
		}
	}
	log := logV1{run: &run, users: make(map[string]bool), systems: make(map[string]bool)}
	for _, v := range events {
		if err := log.event(v); err != nil {
			return nil, err
		}
	}
	return []Run{run}, run.taskFirst(d.object)
}

// logV1 turns events into the messages that the model saw.
type logV1 struct {
	run      *Run
	last     int             // 1 + index of the last assistant message
	response string          // id of the model's response that it came from
	open     []string        // ids of its calls without a result
	users    map[string]bool // ids of calls that the user made
	systems  map[string]bool // system prompts that were told
	told     bool            // the user has spoken
}

func (l *logV1) add(v value, m Message) {
	m.at = v
	l.run.Messages = append(l.run.Messages, m)
	if m.Role == chat.Assistant {
		l.last, l.open = len(l.run.Messages), nil
	}
}

func (l *logV1) event(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	kind, err := o.needText("kind")
	if err != nil {
		return err
	}
	switch kind {
	case "SystemPromptEvent":
		return l.system(v, o)
	case "MessageEvent":
		return l.message(v, o)
	case "ActionEvent":
		return l.action(v, o)
	case "ObservationEvent":
		observation, err := o.need("observation")
		if err != nil {
			return err
		}
		text, err := l.observed(observation)
		if err != nil {
			return err
		}
		more, err := l.extended(o)
		if err != nil {
			return err
		}
		return l.result(v, o, text+more)
	case "UserRejectObservation":
		reason, err := o.text("rejection_reason")
		if err != nil {
			return err
		}
		return l.result(v, o, "Action rejected: "+cmp.Or(reason, "User rejected the action"))
	case "AgentErrorEvent":
		text, err := o.text("error")
		if err != nil {
			return err
		}
		return l.result(v, o, text)
	case "Condensation", "CondensationSummaryEvent":
		l.run.notice(compactions)
		return nil
	case "TokenEvent":
		return l.tokens(v, o)
	}
	if !slices.Contains(silentEvents, kind) {
		l.run.notice("events of kind " + chat.Excerpt(kind) + " were passed over")
	}
	return nil
}

func (l *logV1) system(v value, o object) error {
	var texts []string
	for _, key := range []string{"system_prompt", "dynamic_context"} {
		prompt, ok := o.get(key)
		if !ok {
			continue
		}
		text, err := l.run.eventText(prompt)
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	m := Message{Message: chat.Message{Role: chat.System, Content: strings.Join(texts, "\n")}}
	if l.systems[m.Content] { // a conversation that was taken up again tells it again
		return nil
	}
	l.systems[m.Content] = true
	l.add(v, m)
	tools, ok := o.get("tools")
	if !ok || l.run.Tools != nil {
		return nil
	}
	items, err := tools.array()
	if err != nil {
		return err
	}
	for _, item := range items {
		tool, err := toolV1(item)
		if err != nil {
			return err
		}
		l.run.Tools = append(l.run.Tools, tool)
	}
	return nil
}

// toolV1 reads a tool as it was sent, or as a definition, which has no schema.
func toolV1(v value) (chat.Tool, error) {
	var tool chat.Tool
	o, err := v.object()
	if err != nil {
		return tool, err
	}
	if inner, ok := o.get("function"); ok {
		if o, err = inner.object(); err != nil {
			return tool, err
		}
	}
	for _, key := range []string{"name", "title", "kind"} {
		if tool.Name == "" {
			if tool.Name, err = o.text(key); err != nil {
				return tool, err
			}
		}
	}
	if tool.Description, err = o.text("description"); err != nil {
		return tool, err
	}
	if schema, ok := o.get("parameters"); ok && schema.kind() == '{' {
		tool.Parameters = []byte(schema.raw())
	}
	return tool, nil
}

// extended returns what the program added to a message or result.
func (l *logV1) extended(o object) (string, error) {
	v, ok := o.get("extended_content")
	if !ok {
		return "", nil
	}
	return l.run.eventText(v)
}

func (l *logV1) message(v value, o object) error {
	source, err := o.text("source")
	if err != nil {
		return err
	}
	inner, err := o.need("llm_message")
	if err != nil {
		return err
	}
	said, err := inner.object()
	if err != nil {
		return err
	}
	name, err := said.text("role")
	if err != nil {
		return err
	}
	if name == "" && source == "agent" {
		name = "assistant"
	}
	content, ok := said.get("content")
	m := Message{Message: chat.Message{Role: chat.User, NoContent: !ok}}
	if name != "assistant" {
		if name == "system" {
			m.Role = chat.System
		}
		if ok {
			if m.Content, err = l.run.eventText(content); err != nil {
				return err
			}
		}
		more, err := l.extended(o)
		if err != nil {
			return err
		}
		m.Content, m.NoContent = m.Content+more, false
		if m.Role == chat.User {
			m.Observation = source == "environment" && l.last > 0
			m.Task = !m.Observation && l.last > 0 && !l.told
			l.told = l.told || !m.Observation
		}
		l.add(v, m)
		return nil
	}
	m.Role = chat.Assistant
	if ok {
		if m.Content, err = saidText(content); err != nil {
			return err
		}
	}
	if m.Reasoning, err = thinking(said); err != nil {
		return err
	}
	m.NotSampled = source == "user" || source == "environment"
	l.add(v, m)
	l.response, err = o.text("llm_response_id")
	return err
}

// action adds a call to the turn that it came from.
func (l *logV1) action(v value, o object) error {
	c, err := callV1(o)
	if err != nil {
		return err
	}
	source, err := o.text("source")
	if err != nil {
		return err
	}
	if source == "user" || source == "environment" {
		l.users[c.ID] = true
		l.add(v, Message{Message: chat.Message{Role: chat.User, Observation: true, Content: "User requested: " + c.Name + " " + c.Arguments}})
		return nil
	}
	response, err := o.text("llm_response_id")
	if err != nil {
		return err
	}
	text := ""
	thought, ok := o.get("thought")
	if ok {
		if text, err = saidText(thought); err != nil {
			return err
		}
	}
	if response == "" || response != l.response || l.last == 0 {
		m := Message{Message: chat.Message{Role: chat.Assistant, NoContent: true}}
		if m.Reasoning, err = thinking(o); err != nil {
			return err
		}
		l.add(v, m)
		l.response = response
	}
	m := &l.run.Messages[l.last-1]
	if text != "" {
		if m.Content != "" {
			text = m.Content + "\n" + text
		}
		m.Content, m.NoContent = text, false
	}
	m.ToolCalls = append(m.ToolCalls, c)
	l.open = append(l.open, c.ID)
	return nil
}

// callV1 returns the call as the model wrote it; older logs have the action alone.
func callV1(o object) (chat.ToolCall, error) {
	var c chat.ToolCall
	id, err := o.text("tool_call_id")
	if err != nil {
		return c, err
	}
	if v, ok := o.get("tool_call"); ok {
		if c, err = eventCall(v); err != nil {
			return c, err
		}
		c.ID = cmp.Or(c.ID, id)
		return c, nil
	}
	c.ID = id
	if c.Name, err = o.needText("tool_name"); err != nil {
		return c, err
	}
	c.Arguments = "{}"
	if v, ok := o.get("action"); ok {
		action, err := v.object()
		if err != nil {
			return c, err
		}
		c.Arguments, err = actionArguments(action, []string{"kind"})
		return c, err
	}
	return c, nil
}

// observed returns the text that an observation has for the model.
func (l *logV1) observed(v value) (string, error) {
	o, err := v.object()
	if err != nil {
		return "", err
	}
	for _, key := range []string{"content", "output", "message", "error"} {
		if content, ok := o.get(key); ok && (content.kind() == '"' || content.kind() == '[') {
			return l.run.eventText(content)
		}
	}
	l.run.notice("observations without a text were shown as JSON")
	return arguments(v)
}

// result adds what answers a call.
func (l *logV1) result(v value, o object, text string) error {
	id, err := o.text("tool_call_id")
	if err != nil {
		return err
	}
	m := Message{Message: chat.Message{Role: chat.User, Observation: true, Content: text}}
	if !l.users[id] && len(l.open) > 0 {
		at := max(0, slices.Index(l.open, id))
		m.Role, m.Observation, m.ToolCallID = chat.ToolRole, false, l.open[at]
		l.open = slices.Delete(l.open, at, at+1)
	}
	l.add(v, m)
	return nil
}

// tokens gives the turn before them its ids.
func (l *logV1) tokens(v value, o object) error {
	ids, ok := o.get("response_token_ids")
	if !ok {
		return nil
	}
	if l.last == 0 || l.run.Messages[l.last-1].IDs != nil || l.run.Messages[l.last-1].NotSampled {
		return v.errorf("token ids without a turn of the agent before them")
	}
	var err error
	l.run.Messages[l.last-1].IDs, err = ids.ids()
	return err
}

// eventFiles are the names of the files that hold one event each.
const eventFiles = "event-*.json"

// ReadFolder reads the run of an OpenHands conversation that is kept as a folder of
// one file an event, event-00000-….json, or as a folder with such a folder events in
// it. Name is for errors. The error of a folder without such files is ErrNoRuns.
func ReadFolder(name string, folder fs.FS) ([]Run, error) {
	var files []string
	for _, pattern := range []string{eventFiles, "events/" + eventFiles} {
		more, err := fs.Glob(folder, pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if files = more; len(files) > 0 {
			break
		}
	}
	if len(files) == 0 {
		return nil, noRuns{fmt.Errorf("%s: no files %s", name, eventFiles)}
	}
	// Numbers of more than five digits are longer, and later.
	number := func(file string) string {
		n, _, _ := strings.Cut(strings.TrimPrefix(path.Base(file), "event-"), "-")
		return n
	}
	slices.SortFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(number(a)), len(number(b))), cmp.Compare(a, b))
	})
	var events []value
	left := int64(MaxBytes)
	for _, file := range files {
		v, size, err := readEvent(folder, path.Join(name, file), file, left)
		if err != nil {
			return nil, err
		}
		left -= size
		events = append(events, v)
	}
	first, err := events[0].object()
	if err != nil {
		return nil, err
	}
	d := document{value: events[0], items: events, first: first}
	if !matchOpenHandsV1(d) {
		return nil, noRuns{events[0].errorf("no event of OpenHands: want a kind such as MessageEvent")}
	}
	runs, err := readDocument(d)
	if err != nil {
		return nil, err
	}
	return named(runs), nil
}

// readEvent reads a file of one event, of at most limit bytes.
func readEvent(folder fs.FS, name, file string, limit int64) (value, int64, error) {
	r, err := folder.Open(file)
	if err != nil {
		return value{}, 0, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errors.New("the events of the folder are larger than 1 GiB")
	}
	if err != nil {
		return value{}, 0, fmt.Errorf("%s: %w", name, err)
	}
	v, err := parse(newFile(name, data), 0, len(data))
	return v, int64(len(data)), err
}
