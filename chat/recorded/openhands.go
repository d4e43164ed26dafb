package recorded

import (
	"github.com/infinirl/infinirl/chat"
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
	return isEvent(d.first) && !d.first.has("role")
}

func isEvent(o object) bool { return o.has("action") || o.has("observation") }

func readOpenHands(d document) ([]Run, error) {
	var run Run
	events := d.items
	if events == nil {
		var err error
		if run, err = header(d.object); err != nil {
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
	log := eventLog{}
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
	run.Messages = log.messages
	return []Run{run}, nil
}

// eventLog turns events into the messages that the model saw.
type eventLog struct {
	messages []Message
	response string // id of the model's response that the last message came from
	open     int    // its calls without a result
}

func (l *eventLog) add(v value, m chat.Message) {
	l.messages = append(l.messages, Message{Message: m, at: v})
	if m.Role == chat.Assistant {
		l.open = len(m.ToolCalls)
	}
}

func (l *eventLog) event(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	if action, err := o.text("action"); err != nil || action != "" {
		if err != nil {
			return err
		}
		return l.action(v, o, action)
	}
	if !o.has("observation") {
		return v.errorf("an event without action and observation")
	}
	observation, err := o.text("observation")
	if err != nil {
		return err
	}
	switch observation {
	case "", "null", "recall", "agent_state_changed": // not shown to the model
		return nil
	}
	text := ""
	if content, ok := o.get("content"); ok {
		if text, err = content.parts(); err != nil {
			return err
		}
	}
	if l.open > 0 {
		l.open--
		l.add(v, chat.Message{Role: chat.ToolRole, Content: text})
	} else {
		l.add(v, chat.Message{Role: chat.User, Content: text, Observation: true})
	}
	return nil
}

// action reads an action. Its arguments stand under args, or in older logs beside
// its name; what the model itself wrote stands under tool_call_metadata.
func (l *eventLog) action(v value, o object, action string) error {
	arguments := o
	if args, ok := o.get("args"); ok {
		var err error
		if arguments, err = args.object(); err != nil {
			return err
		}
	}
	source, err := o.text("source")
	if err != nil {
		return err
	}
	if metadata, ok := o.get("tool_call_metadata"); ok {
		return l.modelResponse(v, metadata)
	}
	switch action {
	case "recall", "null", "change_agent_state":
		return nil
	case "system", "message":
		text, err := arguments.text("content")
		if err != nil {
			return err
		}
		role := chat.System
		if action == "message" {
			role = chat.Assistant
			if source == "user" || source == "" && len(l.messages) == 0 {
				role = chat.User
			}
		}
		l.add(v, chat.Message{Role: role, Content: text})
		return nil
	}
	thought, err := arguments.text("thought")
	if err != nil {
		return err
	}
	l.add(v, chat.Message{Role: chat.Assistant, Content: thought, NoContent: thought == "",
		ToolCalls: []chat.ToolCall{{Name: action, Arguments: actionArguments(arguments)}}})
	return nil
}

// actionArguments writes the arguments of an action as JSON, without the thought
// that stands among them.
func actionArguments(o object) string {
	text := "{"
	for i, key := range o.keys {
		switch key {
		case "thought", "action", "source", "id", "timestamp", "message", "cause", "action_risk", "is_confirmed":
			continue
		}
		if len(text) > 1 {
			text += ","
		}
		text += quoteKey(key) + ":" + o.fields[i].raw()
	}
	return text + "}"
}

// modelResponse adds the message that the model wrote, once, however many actions
// came of it.
func (l *eventLog) modelResponse(v, metadata value) error {
	o, err := metadata.object()
	if err != nil {
		return err
	}
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
	if id != "" && id == l.response {
		return nil
	}
	l.response = id
	list, err := response.need("choices")
	if err != nil {
		return err
	}
	choices, err := list.array()
	if err != nil {
		return err
	}
	if len(choices) == 0 {
		return list.errorf("no choice")
	}
	choice, err := choices[0].object()
	if err != nil {
		return err
	}
	written, err := choice.need("message")
	if err != nil {
		return err
	}
	m, err := message(written)
	if err != nil {
		return err
	}
	l.add(v, m.Message)
	return nil
}
