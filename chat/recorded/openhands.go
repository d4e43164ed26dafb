package recorded

import (
	"slices"

	"github.com/infinirl/infinirl/chat"
)

// The event logs of OpenHands before its SDK, versions 0.x of 2024 (pairs of action
// and observation, arguments beside the name) and 2025
// (openhands/events/serialization/event.py at 04e28400), as output.jsonl of an
// evaluation or as exported trajectory. What the model wrote stands under
// tool_call_metadata, and is sampled; without it an action of the agent is a call with
// its arguments. What the user did is shown as OpenHands shows it
// (openhands/memory/conversation_memory.py at 0336a988). Actions of the environment
// and of the program around the model are passed over.

// programActions are actions that neither model nor user took.
var programActions = []string{
	"recall", "null", "change_agent_state", "initialize", "start", "pause", "resume", "stop",
	"summarize", "condensation", "condensation_request", "loop_recovery", "push", "send_pr",
}

// envelope are the fields beside the arguments of an action where both stand together,
// and settings those of an action's arguments that no model gave.
var (
	envelope = []string{
		"id", "timestamp", "source", "message", "cause", "action", "observation", "tool_call_metadata", "llm_metrics",
		"timeout", "extras",
	}
	settings = []string{
		"thought", "action_risk", "security_risk", "is_confirmed", "confirmation_state", "hidden", "blocking",
		"keep_prompt", "is_static", "kernel_init_code", "include_extra", "impl_source", "translated_ipython_code",
		"wait_for_response", "images_urls", "image_urls", "file_urls", "browsergym_send_msg_to_user", "return_axtree",
	}
)

// matchOpenHands accepts what OpenHands writes: an object with a history of events,
// or the events alone. Events are actions and observations, in older logs in pairs.
func matchOpenHands(d document) bool {
	if v, ok := d.object.get("history"); ok && v.kind() == '[' {
		inner, err := open(v)
		if err != nil || len(inner.items) == 0 {
			return false
		}
		if inner.items[0].kind() == '[' {
			pair, err := open(inner.items[0])
			return err == nil && isEvent(pair.first)
		}
		return isEvent(inner.first)
	}
	return isEvent(d.first)
}

func isEvent(o object) bool {
	return (o.has("action") || o.has("observation")) && !o.has("role") && !o.has("messages") && !o.has("history")
}

func readOpenHands(d document) ([]Run, error) {
	var run Run
	events := d.items
	if events == nil {
		var err error
		if run, err = header(d.object); err != nil {
			return nil, err
		}
		if err := run.outcome(d.object, "", "report", "test_result.report", "test_result"); err != nil {
			return nil, err
		}
		history, err := d.object.need("history")
		if err != nil {
			return nil, err
		}
		if events, err = history.array(); err != nil {
			return nil, err
		}
	}
	log := eventLog{run: &run, causes: make(map[string]string)}
	for _, event := range events {
		pair := []value{event}
		if event.kind() == '[' {
			var err error
			if pair, err = event.array(); err != nil {
				return nil, err
			}
		}
		for _, v := range pair {
			if err := log.event(v); err != nil {
				return nil, err
			}
		}
	}
	return []Run{run}, run.taskFirst(d.object)
}

// taskFirst puts the task before the first turn of an evaluation whose log of events
// does not hold it.
func (r *Run) taskFirst(o object) error {
	at := slices.IndexFunc(r.Messages, func(m Message) bool { return m.Role != chat.System })
	if at < 0 || r.Messages[at].Role == chat.User && !r.Messages[at].Observation {
		return nil
	}
	v, ok := o.get("instruction")
	if !ok || v.kind() != '"' {
		return nil
	}
	text, err := v.text()
	if err == nil {
		r.Messages = slices.Insert(r.Messages, at, Message{Message: chat.Message{Role: chat.User, Content: text}, at: v})
	}
	return err
}

// What an event came of, beside the id of the model's call.
const (
	byUser        = "\x00user"
	byEnvironment = "\x00environment"
)

// eventLog turns events into the messages that the model saw.
type eventLog struct {
	run      *Run
	response string            // id of the model's response that the last message came from
	open     []string          // ids of its calls without a result
	causes   map[string]string // by the id of an action: its call, or who acted
	// told and said tell whether the user has spoken, and the agent.
	told, said bool
}

func (l *eventLog) add(v value, m Message) {
	m.at = v
	switch m.Role {
	case chat.Assistant:
		l.said = true
		l.open = nil
		for _, c := range m.ToolCalls {
			l.open = append(l.open, c.ID)
		}
	case chat.User:
		m.Task = !m.Observation && l.said && !l.told
		l.told = l.told || !m.Observation
	}
	l.run.Messages = append(l.run.Messages, m)
}

func (l *eventLog) event(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	action, err := o.text("action")
	if err != nil {
		return err
	}
	if action != "" {
		return l.action(v, o, action)
	}
	if !o.has("observation") {
		return v.errorf("an event without action and observation")
	}
	return l.observation(v, o)
}

// scalarField returns a string, or the literal of a number; "" if the field is absent.
func scalarField(o object, key string) string {
	if v, ok := o.get(key); ok {
		return v.scalar()
	}
	return ""
}

func (l *eventLog) observation(v value, o object) error {
	observation, err := o.text("observation")
	if err != nil {
		return err
	}
	cause := l.causes[scalarField(o, "cause")]
	switch observation {
	case "", "null", "agent_state_changed", "loop_detection": // not shown to the model
		return nil
	case "recall":
		return l.recall(o)
	}
	if cause == byEnvironment || !l.told && !l.said {
		l.run.notice("observations that answer neither model nor user were passed over")
		return nil
	}
	m := Message{Message: chat.Message{Role: chat.User, Observation: true}}
	if content, ok := o.get("content"); ok {
		if m.Content, err = l.run.eventText(content); err != nil {
			return err
		}
	}
	if cause == byUser {
		if observation == "run" {
			m.Content = "\nObserved result of command executed by user:\n" + m.Content
		}
		l.add(v, m)
		return nil
	}
	if metadata, ok := o.get("tool_call_metadata"); ok {
		call, err := metadata.object()
		if err != nil {
			return err
		}
		if cause, err = call.text("tool_call_id"); err != nil {
			return err
		}
	}
	if len(l.open) > 0 {
		at := max(0, slices.Index(l.open, cause))
		m.Role, m.Observation, m.ToolCallID = chat.ToolRole, false, l.open[at]
		l.open = slices.Delete(l.open, at, at+1)
	}
	l.add(v, m)
	return nil
}

// recall tells of context that was shown to the model in words that the log lacks.
func (l *eventLog) recall(o object) error {
	v, ok := o.get("extras")
	if !ok {
		return nil
	}
	extras, err := v.object()
	if err != nil {
		return err
	}
	for _, key := range []string{"microagent_knowledge", "repo_instructions"} {
		if v, ok := extras.get(key); ok && v.raw() != "[]" && v.raw() != `""` {
			l.run.notice("recalled context was left out: its words are not in the log")
			break
		}
	}
	return nil
}

// action reads an action. Its arguments stand under args, or in older logs beside
// its name.
func (l *eventLog) action(v value, o object, action string) error {
	arguments, around := o, slices.Concat(envelope, settings)
	if args, ok := o.get("args"); ok {
		var err error
		if arguments, err = args.object(); err != nil {
			return err
		}
		around = settings
	}
	source, err := o.text("source")
	if err != nil {
		return err
	}
	id := scalarField(o, "id")
	metadata, modelled := o.get("tool_call_metadata")
	switch {
	case action == "system":
		return l.system(v, arguments)
	case action == "start" && arguments.has("task"): // how the first versions were told a task
		task, err := arguments.text("task")
		if err != nil || task == "" || l.told {
			return err
		}
		l.add(v, Message{Message: chat.Message{Role: chat.User, Content: task}})
		return nil
	case slices.Contains(programActions, action), source == "environment":
		if action == "condensation" || action == "summarize" {
			l.run.notice(compactions)
		}
		l.causes[id] = byEnvironment
		return nil
	case action == "message":
		return l.message(v, arguments, source)
	case source == "user":
		l.causes[id] = byUser
		return l.userAction(v, arguments, around, action)
	case modelled:
		return l.modelResponse(v, metadata, id)
	}
	m := Message{Message: chat.Message{Role: chat.Assistant}}
	call := chat.ToolCall{Name: action}
	if m.Content, m.Reasoning, err = thought(arguments); err != nil {
		return err
	}
	if call.Arguments, err = actionArguments(arguments, around); err != nil {
		return err
	}
	if action == "think" { // the thought is what the tool is given
		call.Arguments, m.Content = `{"thought":`+quoteKey(m.Content)+"}", ""
	}
	m.NoContent = m.Content == ""
	m.ToolCalls = []chat.ToolCall{call}
	l.add(v, m)
	return nil
}

// thought returns what an action was thought of: a text, or text and reasoning.
func thought(arguments object) (text, reasoning string, err error) {
	v, ok := arguments.get("thought")
	if !ok || v.kind() != '{' {
		text, err = arguments.text("thought")
		return text, "", err
	}
	o, err := v.object()
	if err != nil {
		return "", "", err
	}
	if text, err = o.text("text"); err != nil {
		return "", "", err
	}
	reasoning, err = o.text("reasoning_content")
	return text, reasoning, err
}

func (l *eventLog) system(v value, arguments object) error {
	text, err := arguments.text("content")
	if err != nil {
		return err
	}
	if tools, ok := arguments.get("tools"); ok && l.run.Tools == nil {
		if l.run.Tools, err = toolList(tools); err != nil {
			return err
		}
	}
	l.add(v, Message{Message: chat.Message{Role: chat.System, Content: text}})
	return nil
}

// message reads what agent or user said. In logs without sources the first message
// is the user's, and those after it are the agent's.
func (l *eventLog) message(v value, arguments object, source string) error {
	text, err := arguments.text("content")
	if err != nil {
		return err
	}
	if source != "user" && (source != "" || l.told || l.said) {
		if source == "" {
			l.run.notice("messages without a source were taken as the agent's")
		}
		l.add(v, Message{Message: chat.Message{Role: chat.Assistant, Content: text}})
		return nil
	}
	for _, key := range []string{"image_urls", "images_urls", "file_urls"} {
		urls, ok := arguments.get(key)
		if !ok {
			continue
		}
		list, err := urls.array()
		if err != nil {
			return err
		}
		for range list {
			if key == "file_urls" {
				l.run.notice(shownFiles)
				text += "[file]"
			} else {
				text += l.run.images(1)
			}
		}
	}
	l.add(v, Message{Message: chat.Message{Role: chat.User, Content: text}})
	return nil
}

// userAction shows what the user did.
func (l *eventLog) userAction(v value, arguments object, around []string, action string) error {
	if action == "finish" {
		return nil
	}
	if command, err := arguments.text("command"); err != nil {
		return err
	} else if action == "run" {
		l.add(v, Message{Message: chat.Message{Role: chat.User, Observation: true, Content: "User executed the command:\n" + command}})
		return nil
	}
	given, err := actionArguments(arguments, around)
	if err != nil {
		return err
	}
	l.add(v, Message{Message: chat.Message{Role: chat.User, Observation: true, Content: "User requested: " + action + " " + given}})
	return nil
}

// actionArguments writes the arguments of an action as JSON in the way of arguments,
// without what is around them and what was not given.
func actionArguments(o object, around []string) (string, error) {
	keys := slices.Clone(o.keys)
	slices.Sort(keys)
	text := "{"
	for _, key := range slices.Compact(keys) {
		field, ok := o.get(key)
		if !ok || slices.Contains(around, key) {
			continue
		}
		given := ""
		var err error
		if field.kind() == '"' {
			given, err = field.text()
			given = quoteKey(given)
		} else {
			given, err = arguments(field)
		}
		if err != nil {
			return "", err
		}
		if len(text) > 1 {
			text += ","
		}
		text += quoteKey(key) + ":" + given
	}
	return text + "}", nil
}

// modelResponse adds the message that the model wrote, once, however many actions
// came of it.
func (l *eventLog) modelResponse(v, metadata value, event string) error {
	o, err := metadata.object()
	if err != nil {
		return err
	}
	call, err := o.text("tool_call_id")
	if err != nil {
		return err
	}
	l.causes[event] = call
	inner, err := o.need("model_response")
	if err != nil {
		return err
	}
	response, err := inner.object()
	if err != nil {
		return err
	}
	id, err := response.text("id")
	if err != nil {
		return err
	}
	if id != "" && id == l.response || id == "" && call != "" && slices.Contains(l.open, call) {
		return nil
	}
	l.response = id
	m, err := completion(response)
	if err != nil {
		return err
	}
	l.add(v, m)
	return nil
}
