package recorded

import (
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// The Agent Trajectory Interchange Format of Harbor, ATIF-v1.0 to v1.7 (its RFC 0001,
// rfcs/0001-trajectory-format.md; token ids since v1.3, is_copied_context since v1.5,
// images since v1.6, llm_call_count and embedded subagents since v1.7). What the agent
// said is sampled, but for steps that were copied from an earlier trajectory
// (is_copied_context) and steps that no model made (llm_call_count 0): these are
// shown. The token ids of a step with one model call (metrics.completion_token_ids,
// .logprobs) are taken. Subagents (subagent_trajectories, and steps marked
// extra.is_sidechain) are runs of their own.

// matchATIF accepts a trajectory: a schema version, or steps beside an agent.
func matchATIF(d document) bool {
	version, _ := d.object.text("schema_version")
	return strings.HasPrefix(version, "ATIF") || d.holds("steps") && d.object.has("agent")
}

func readATIF(d document) ([]Run, error) {
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	if err := run.outcome(d.object, "", "extra", "final_metrics.extra"); err != nil {
		return nil, err
	}
	if v, ok := d.object.get("agent"); ok && v.kind() == '{' {
		agent, _ := v.object()
		if tools, ok := agent.get("tool_definitions"); ok {
			if run.Tools, err = toolList(tools); err != nil {
				return nil, err
			}
		}
	}
	list, err := d.object.need("steps")
	if err != nil {
		return nil, err
	}
	steps, err := list.array()
	if err != nil {
		return nil, err
	}
	side := Run{Tools: run.Tools}
	if run.ID != "" {
		side.ID = run.ID + "/sidechain"
	}
	log, sideLog := atifLog{run: &run}, atifLog{run: &side}
	for _, step := range steps {
		of := &log
		if isSidechain(step) {
			of = &sideLog
		}
		if err := of.step(step); err != nil {
			return nil, err
		}
	}
	runs := []Run{run}
	if len(side.Messages) > 0 {
		runs = append(runs, side)
	}
	subagents, ok := d.object.get("subagent_trajectories")
	if !ok {
		return runs, nil
	}
	inner, err := subagents.array()
	if err != nil {
		return nil, err
	}
	for _, v := range inner {
		o, err := v.object()
		if err != nil {
			return nil, err
		}
		more, err := readATIF(document{value: v, object: o})
		if err != nil {
			return nil, err
		}
		runs = append(runs, more...)
	}
	return runs, nil
}

// isSidechain reports whether a step is a subagent's: conversions of Claude Code keep
// them in the list, marked.
func isSidechain(step value) bool {
	for _, key := range []string{"extra", "is_sidechain"} {
		if step.kind() != '{' {
			return false
		}
		o, err := step.object()
		if err != nil {
			return false
		}
		var ok bool
		if step, ok = o.get(key); !ok {
			return false
		}
	}
	return step.kind() == 't'
}

// atifLog turns steps into messages.
type atifLog struct {
	run *Run
	// open are the ids of the calls that wait for a result.
	open []string
	// said and sampled tell whether an agent step has come, and a new one of the model.
	said, sampled bool
}

// step reads one step: a message, and the observation that followed it.
func (l *atifLog) step(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	source, err := o.needText("source")
	if err != nil {
		return err
	}
	copied := false
	if flag, ok := o.get("is_copied_context"); ok {
		copied = flag.kind() == 't'
	}
	observation, observes := o.get("observation")
	m := Message{at: v}
	switch source {
	case "agent":
		if err := l.agent(o, &m, copied); err != nil {
			return err
		}
	case "system", "user":
		m.Role = roles[source]
		if text, ok := o.get("message"); ok {
			if m.Content, err = l.run.eventText(text); err != nil {
				return err
			}
		}
		m.Task = m.Role == chat.User && l.said && !l.sampled && !copied
	default:
		return v.errorf("unknown source %q, want system, user or agent", chat.Excerpt(source))
	}
	// A step of the system may say nothing, and only hold results.
	if m.Role == chat.Assistant || m.Content != "" || !observes {
		l.run.Messages = append(l.run.Messages, m)
	}
	if m.Role == chat.Assistant {
		l.said, l.sampled = true, l.sampled || !m.NotSampled
		l.open = nil
		for _, c := range m.ToolCalls {
			l.open = append(l.open, c.ID)
		}
	}
	if !observes {
		return nil
	}
	return l.results(observation)
}

// agent reads what an agent step says.
func (l *atifLog) agent(o object, m *Message, copied bool) error {
	m.Role = chat.Assistant
	var err error
	if text, ok := o.get("message"); ok {
		if m.Content, err = saidText(text); err != nil {
			return err
		}
	} else {
		m.NoContent = true
	}
	if m.Reasoning, err = o.text("reasoning_content"); err != nil {
		return err
	}
	calls := 1.0
	if v, ok := o.get("llm_call_count"); ok {
		if calls, err = v.number(); err != nil {
			return err
		}
	}
	m.NotSampled = copied || calls == 0
	if list, ok := o.get("tool_calls"); ok {
		items, err := list.array()
		if err != nil {
			return err
		}
		for _, item := range items {
			made, err := atifCall(item)
			if err != nil {
				return err
			}
			m.ToolCalls = append(m.ToolCalls, made)
		}
	}
	metrics, ok := o.get("metrics")
	if !ok || m.NotSampled {
		return nil
	}
	return l.tokens(m, metrics, calls)
}

func atifCall(v value) (chat.ToolCall, error) {
	var made chat.ToolCall
	c, err := v.object()
	if err != nil {
		return made, err
	}
	if made.Name, err = c.needText("function_name"); err != nil {
		return made, err
	}
	if made.ID, err = c.text("tool_call_id"); err != nil {
		return made, err
	}
	made.Arguments = "{}"
	if v, ok := c.get("arguments"); ok {
		made.Arguments, err = arguments(v)
	}
	return made, err
}

// tokens takes the token ids that were sampled, and their log-probs.
func (l *atifLog) tokens(m *Message, metrics value, calls float64) error {
	o, err := metrics.object()
	if err != nil {
		return err
	}
	ids, hasIDs := o.get("completion_token_ids")
	logProbs, hasLogProbs := o.get("logprobs")
	switch {
	case !hasIDs && !hasLogProbs:
		return nil
	case hasIDs && calls > 1:
		l.run.notice("token ids of steps with several model calls were left out")
		return nil
	case hasIDs:
		if m.IDs, err = ids.ids(); err != nil {
			return err
		}
	}
	if !hasLogProbs {
		return nil
	}
	numbers, err := logProbs.floats()
	switch {
	case err != nil:
		return err
	case !hasIDs || m.IDs == nil && len(numbers) > 0:
		l.run.notice("log-probs without token ids were left out")
	case len(numbers) != len(m.IDs):
		return logProbs.errorf("%d log-probs beside %d completion_token_ids: want one for each", len(numbers), len(m.IDs))
	case m.IDs != nil:
		m.LogProbs = numbers
	}
	return nil
}

// results reads an observation. A result answers the call that it names, or the next
// open one; what answers none the environment said by itself.
func (l *atifLog) results(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	list, err := o.need("results")
	if err != nil {
		return err
	}
	items, err := list.array()
	if err != nil {
		return err
	}
	results := make([]Message, len(items))
	var unnamed []int // results that name no open call
	for i, item := range items {
		r, err := item.object()
		if err != nil {
			return err
		}
		result := &results[i]
		*result = Message{Message: chat.Message{Role: chat.ToolRole}, at: item}
		if result.ToolCallID, err = r.text("source_call_id"); err != nil {
			return err
		}
		content, ok := r.get("content")
		if !ok {
			result.NoContent = true
		} else if result.Content, err = l.run.eventText(content); err != nil {
			return err
		}
		if at := slices.Index(l.open, result.ToolCallID); at >= 0 && result.ToolCallID != "" {
			l.open = slices.Delete(l.open, at, at+1)
		} else {
			unnamed = append(unnamed, i)
		}
	}
	for _, i := range unnamed {
		if len(l.open) > 0 {
			l.open = l.open[1:]
		} else {
			results[i].Role, results[i].Observation = chat.User, true
		}
	}
	l.run.Messages = append(l.run.Messages, results...)
	return nil
}
