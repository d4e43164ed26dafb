package recorded

import (
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// The results of tau2-bench (src/tau2/data_model/simulation.py at 143a213f and
// message.py at 2e2a017b; earlier ones lack fields that are not needed): a file of
// simulations, or one simulation. What the agent said is sampled, but for the greeting
// that the orchestrator opens with, which is shown. The policy of the domain is the
// system prompt, without the instructions around it, which are not recorded. Calls
// that the user made with tools of its own, and their results, are shown as
// observations. Voice simulations, which have ticks instead of messages, are refused.

// matchTau2 accepts the results of an evaluation, and a single simulation.
func matchTau2(d document) bool { return isTau2Results(d.object) || isSimulation(d.object) }

func isTau2Results(o object) bool {
	v, ok := o.get("simulations")
	return ok && v.kind() == '[' && (o.has("tasks") || o.has("info"))
}

func isSimulation(o object) bool {
	return o.has("task_id", "termination_reason") && (o.has("messages") || o.has("ticks"))
}

func readTau2(d document) ([]Run, error) {
	if !isTau2Results(d.object) {
		run, err := simulation(d.object)
		return []Run{run}, err
	}
	policy, tools, err := tau2Domain(d.object)
	if err != nil {
		return nil, err
	}
	list, err := d.object.need("simulations")
	if err != nil {
		return nil, err
	}
	items, err := list.array()
	if err != nil {
		return nil, err
	}
	var runs []Run
	empty := 0
	for _, item := range items {
		o, err := item.object()
		if err != nil {
			return nil, err
		}
		run, err := simulation(o)
		if err != nil {
			return nil, err
		}
		if len(run.Messages) == 0 {
			empty++
			continue
		}
		if policy != nil && run.Messages[0].Role != chat.System {
			run.Messages = append([]Message{*policy}, run.Messages...)
		}
		run.Tools = tools
		runs = append(runs, run)
	}
	if len(runs) == 0 {
		return nil, noRuns{list.errorf("no simulation with messages")}
	}
	for range empty {
		runs[0].notice("simulations without messages were left out")
	}
	return runs, nil
}

// tau2Domain returns the policy of the domain and the tools of the agent, where they
// are recorded.
func tau2Domain(o object) (*Message, []chat.Tool, error) {
	for _, key := range []string{"info", "environment_info"} {
		v, ok := o.get(key)
		if !ok || v.kind() != '{' {
			return nil, nil, nil
		}
		var err error
		if o, err = v.object(); err != nil {
			return nil, nil, err
		}
	}
	var policy *Message
	if v, ok := o.get("policy"); ok {
		text, err := v.text()
		if err != nil {
			return nil, nil, err
		}
		if text != "" {
			policy = &Message{Message: chat.Message{Role: chat.System, Content: text}, at: v}
		}
	}
	v, ok := o.get("tool_defs")
	if !ok {
		return policy, nil, nil
	}
	signatures, err := v.object()
	if err != nil {
		return nil, nil, err
	}
	var tools []chat.Tool
	for _, field := range signatures.fields {
		s, err := field.object()
		if err != nil {
			return nil, nil, err
		}
		var tool chat.Tool
		if tool.Name, err = s.needText("name"); err != nil {
			return nil, nil, err
		}
		if tool.Description, err = s.text("doc"); err != nil {
			return nil, nil, err
		}
		if schema, ok := s.get("params"); ok && schema.kind() == '{' {
			tool.Parameters = []byte(schema.raw())
		}
		tools = append(tools, tool)
	}
	slices.SortFunc(tools, func(a, b chat.Tool) int { return strings.Compare(a.Name, b.Name) })
	return policy, tools, nil
}

// simulation reads one run. Simulations of a task are a group.
func simulation(o object) (Run, error) {
	run := Run{ID: scalarField(o, "id"), Group: scalarField(o, "task_id")}
	if run.ID == "" {
		run.ID = run.Group
		if trial := scalarField(o, "trial"); trial != "" {
			run.ID += "/" + trial
		}
	}
	if err := run.outcome(o, "reward_info", ""); err != nil {
		return run, err
	}
	list, ok := o.get("messages")
	if !ok {
		if ticks, ok := o.get("ticks"); ok {
			return run, ticks.errorf("a voice simulation: want one with messages")
		}
		return run, nil
	}
	items, err := list.array()
	if err != nil {
		return run, err
	}
	if policy, err := o.text("policy"); err != nil {
		return run, err
	} else if policy != "" && len(items) > 0 {
		run.Messages = append(run.Messages, Message{Message: chat.Message{Role: chat.System, Content: policy}, at: o.value})
	}
	greeted := false
	for i, item := range items {
		messages, err := run.tau2Message(item)
		if err != nil {
			return run, err
		}
		for _, m := range messages {
			if i == 0 && m.Role == chat.Assistant && !m.modelled() {
				m.NotSampled, greeted = true, true
			}
			if m.Role == chat.User && !m.Observation && greeted {
				m.Task, greeted = true, false
			}
			run.Messages = append(run.Messages, m)
		}
	}
	return run, nil
}

// modelled reports whether a model was asked for a message of tau2-bench: the
// orchestrator's own greeting has neither usage nor the response of a model.
func (m Message) modelled() bool {
	o, err := m.at.object()
	if err != nil {
		return false
	}
	_, usage := o.get("usage")
	_, data := o.get("raw_data")
	return usage || data
}

// tau2Message reads one message, or the results of several calls.
func (r *Run) tau2Message(v value) ([]Message, error) {
	o, err := v.object()
	if err != nil {
		return nil, err
	}
	if several, ok := o.get("tool_messages"); ok {
		items, err := several.array()
		if err != nil {
			return nil, err
		}
		var messages []Message
		for _, item := range items {
			o, err := item.object()
			if err != nil {
				return nil, err
			}
			if o.has("tool_messages") {
				return nil, item.errorf("tool messages within tool messages")
			}
			m, err := r.tau2Message(item)
			if err != nil {
				return nil, err
			}
			messages = append(messages, m...)
		}
		return messages, nil
	}
	role, err := o.needText("role")
	if err != nil {
		return nil, err
	}
	m := Message{at: v}
	m.Role = roles[role]
	if audio, ok := o.get("is_audio"); ok && audio.kind() == 't' {
		return nil, audio.errorf("a voice message: want text")
	}
	content, ok := o.get("content")
	m.NoContent = !ok
	if ok {
		if m.Content, err = content.text(); err != nil {
			return nil, err
		}
	}
	requestor, err := o.text("requestor")
	if err != nil {
		return nil, err
	}
	switch m.Role {
	case chat.System:
	case chat.User:
		err = r.userCalls(o, &m)
	case chat.Assistant:
		err = m.tau2Agent(o)
	case chat.ToolRole:
		if m.ToolCallID, err = o.text("id"); err != nil {
			return nil, err
		}
		if requestor == "user" {
			m.Role, m.Observation, m.ToolCallID, m.NoContent = chat.User, true, "", false
		}
	default:
		return nil, v.errorf("unknown role %q", chat.Excerpt(role))
	}
	return []Message{m}, err
}

// userCalls shows the calls of a user message, and marks it as an observation.
func (r *Run) userCalls(o object, m *Message) error {
	list, ok := o.get("tool_calls")
	if !ok {
		return nil
	}
	calls, err := eventCalls(list)
	if err != nil || len(calls) == 0 {
		return err
	}
	var lines []string
	if m.Content != "" {
		lines = append(lines, m.Content)
	}
	for _, c := range calls {
		lines = append(lines, c.Name+" "+c.Arguments)
	}
	m.Content, m.NoContent, m.Observation = strings.Join(lines, "\n"), false, true
	r.notice("calls that the user made with its own tools were shown as observations")
	return nil
}

// tau2Agent reads what the agent called and thought.
func (m *Message) tau2Agent(o object) error {
	var err error
	if list, ok := o.get("tool_calls"); ok {
		if m.ToolCalls, err = eventCalls(list); err != nil {
			return err
		}
	}
	// The response of the model, as it was: tau2-bench keeps its text alone.
	for _, key := range []string{"raw_data", "message"} {
		v, ok := o.get(key)
		if !ok || v.kind() != '{' {
			return nil
		}
		if o, err = v.object(); err != nil {
			return err
		}
	}
	m.Reasoning, err = thinking(o)
	return err
}
