package recorded

import (
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// The trajectories of mini-swe-agent, formats mini-swe-agent-1 (versions 1) and
// mini-swe-agent-1.1 (versions 2; src/minisweagent/agents and models,
// docs/advanced/v2_migration.md): messages as the model's API has them, chat messages
// or Responses objects, each with what the program knows of it under extra. What the
// model said is sampled. A command of the user in human mode is an assistant message
// without the response that the others have: it is shown. The message of role exit
// tells how the run ended, and no model saw it.

// returnCode is how observations of mini-swe-agent begin.
const returnCode = "<returncode>"

// matchMiniSWEAgent accepts trajectories of mini-swe-agent: messages that say so,
// or a list of messages in which users report return codes.
func matchMiniSWEAgent(d document) bool {
	if form, _ := d.object.text("trajectory_format"); strings.HasPrefix(form, "mini-swe-agent") {
		return true
	}
	if !d.first.has("role") {
		return false
	}
	for _, item := range d.items {
		if item.kind() != '{' {
			return false
		}
		o, _ := item.object()
		content, _ := o.text("content")
		if role, _ := o.text("role"); role == "user" && strings.HasPrefix(content, returnCode) {
			return true
		}
	}
	return false
}

func readMiniSWEAgent(d document) ([]Run, error) {
	var run Run
	items := d.items
	if items == nil {
		var err error
		if run, err = header(d.object); err != nil {
			return nil, err
		}
		if err := run.outcome(d.object, "", "info"); err != nil {
			return nil, err
		}
		list, err := d.object.need("messages")
		if err != nil {
			return nil, err
		}
		if items, err = list.array(); err != nil {
			return nil, err
		}
	}
	log := miniLog{run: &run}
	for _, item := range items {
		if err := log.item(item); err != nil {
			return nil, err
		}
	}
	if slices.Contains(log.responded, true) {
		for i := range log.messages {
			m := &log.messages[i]
			m.NotSampled = m.Role == chat.Assistant && !log.responded[i]
		}
	}
	run.Messages = log.messages
	return []Run{run}, nil
}

// miniLog gathers messages; those of the Responses API go through responses.
type miniLog struct {
	responses
	run       *Run
	responded []bool // by message: the model's response stands with it
	answered  bool   // an assistant message has come
}

func (l *miniLog) item(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	role, err := o.text("role")
	if err != nil {
		return err
	}
	kind, err := o.text("type")
	if err != nil {
		return err
	}
	extra := object{}
	if inner, ok := o.get("extra"); ok && inner.kind() == '{' {
		if extra, err = inner.object(); err != nil {
			return err
		}
	}
	responded := slices.ContainsFunc([]string{"response", "cost", "model_response"}, func(key string) bool { return extra.has(key) })
	before := len(l.messages)
	what, err := o.text("object")
	if err != nil {
		return err
	}
	switch {
	case what == "response":
		output, err := o.need("output")
		if err != nil {
			return err
		}
		items, err := output.array()
		if err != nil {
			return err
		}
		l.open = false // a turn of its own
		if err := l.items(items); err != nil {
			return err
		}
		l.open, responded = false, true
	case role == "exit":
		return nil
	case kind == "function_call_output", kind == "message":
		l.open = false
		if err := l.responses.item(v); err != nil {
			return err
		}
		l.open = false
	default:
		m, _, err := l.run.sweMessage(v)
		if err != nil {
			return err
		}
		l.messages = append(l.messages, m)
	}
	interrupt, err := extra.text("interrupt_type")
	if err != nil {
		return err
	}
	if interrupt == "FormatError" && responded {
		l.run.notice("replies that were refused, and not kept in the conversation, were left out")
	}
	for i := range l.messages[before:] {
		m := &l.messages[before+i]
		l.responded = append(l.responded, responded && m.Role == chat.Assistant)
		if m.Role == chat.Assistant {
			l.answered = true
		}
		// What the user says in between is no answer of the environment.
		m.Observation = m.Role == chat.User && l.answered && (interrupt == "" || interrupt == "FormatError")
	}
	return nil
}
