// Package recorded reads runs of agents that other programs have recorded.
//
// A Reader takes a file, compressed by gzip or zstd or not, and detects its form by
// content: OpenAI messages and Responses items, Anthropic messages, LangChain and
// LangGraph messages, prompts with completions, ATIF, SWE-agent and mini-swe-agent
// trajectories, OpenHands event logs, tau-bench results, ShareGPT conversations, and
// the trajectories of this project; each as one JSON value, an array of them, or JSON
// Lines; messages and events may stand one a line too. Hermes-style <tool_call> and
// <tool_response> tags inside the text of messages become calls and results. Errors
// name file, line and field.
//
// Recordings are taken as they are: ids of calls may repeat, content may be null,
// calls may lack their results. A result that answers no call is an error. What
// cannot be taken as it was recorded is counted in the notices of a run. What the
// model said is told whole, or the run is refused.
package recorded

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/trajectory"
)

// Run is one recorded conversation.
type Run struct {
	// ID is unique within the file. Runs of one Group try the same task.
	ID    string
	Group string
	// Form names the form that the run was recorded in.
	Form string
	// Line is where the run starts in its file.
	Line     int
	Messages []Message
	Tools    []chat.Tool
	// Score is the outcome, if the recording tells it.
	Score    float64
	HasScore bool
	// Outcome is what a trajectory of this project tells beside the score.
	Outcome Outcome
	// Notices counts what could not be taken as it was recorded, by kind: one line
	// each for people, such as "images shown as [image]".
	Notices map[string]int
}

// notice counts one more of a kind of thing that could not be taken as recorded.
func (r *Run) notice(kind string) {
	if r.Notices == nil {
		r.Notices = make(map[string]int)
	}
	r.Notices[kind]++
}

// Outcome is how a trajectory of this project ended.
type Outcome struct {
	// Status is "" where the recording does not tell it.
	Status trajectory.Status
	Error  string
	// Success tells whether the task was solved, if HasSuccess.
	Success, HasSuccess bool
}

// Message is a recorded message.
type Message struct {
	chat.Message
	// IDs are the token ids that were recorded with the message, nil if none.
	IDs []int32
	// Start and End bound the ids that were sampled, where the recording tells it;
	// both 0: all ids of an assistant message.
	Start, End int
	// LogProbs belong to the sampled ids, nil if none were recorded.
	LogProbs []float32
	// Versions are those of the policy that sampled, and Reward is what the message
	// earned at once: trajectories of this project tell them.
	Versions trajectory.Versions
	Reward   float64
	// NotSampled marks an assistant message that the policy did not write: a
	// demonstration, copied context, a command of the user. It is shown and never
	// trained.
	NotSampled bool
	// Task marks a user message that states the task of the run although assistant
	// messages come before it: a demonstration, or a greeting that no model wrote.
	// The user messages before the first assistant message need no mark.
	Task   bool
	prompt []int32 // the ids of its whole prompt, while a run is read
	at     value   // where the message stands
}

// form is one way of recording runs.
type form struct {
	name string
	// match reports whether a document has the form; it is asked in the order of forms.
	match func(document) bool
	read  func(document) ([]Run, error)
}

// document is one JSON value of a file: an object, or an array, whose first
// element is then given too if it is an object.
type document struct {
	value
	object object // of an object
	items  []value
	first  object // the first item of an array, if it is an object
}

var forms = []form{
	{"infinirl-trajectory", matchTrajectory, readTrajectory},
	{"claude-code", matchClaudeCode, readClaudeCode},
	{"codex", matchCodex, readCodex},
	{"tau2-bench", matchTau2, readTau2},
	{"tau-bench", matchTauBench, readTauBench},
	{"atif", matchATIF, readATIF},
	{"swe-agent", matchSWEAgent, readSWEAgent},
	{"openhands-v1", matchOpenHandsV1, readOpenHandsV1},
	{"openhands", matchOpenHands, readOpenHands},
	{"mini-swe-agent", matchMiniSWEAgent, readMiniSWEAgent},
	{"prompt-completion", matchRow, readRow},
	{"openai-responses", matchResponses, readResponses},
	{"langchain", matchLangChain, readLangChain},
	{"anthropic-messages", matchAnthropic, readAnthropic},
	{"sharegpt", matchShareGPT, readShareGPT},
	{"message-log", matchMessageLog, readMessageLog},
	{"openai-messages", matchMessages, readMessages},
}

// read reads the runs of a document of the given form.
func (d document) read(form *form) ([]Run, error) {
	runs, err := []Run(nil), d.oneConversation()
	if err == nil {
		runs, err = form.read(d)
	}
	notices := d.file.notices
	d.file.notices = nil
	if err != nil {
		return nil, err
	}
	for i := range runs {
		run := &runs[i]
		if run.Form = form.name; run.Line == 0 {
			run.Line = d.file.line(d.start)
		}
		for kind, n := range notices {
			for range n {
				run.notice(kind)
			}
		}
		notices = nil
		for i := range run.Messages {
			if run.Messages[i].at.file == nil {
				run.Messages[i].at = d.value
			}
		}
		if err := d.options(run); err != nil {
			return nil, err
		}
		if form.name != trajectory.Form { // whose messages were read before
			run.Messages = readTags(run.Messages)
		}
		if err := run.settle(); err != nil {
			return nil, err
		}
		if err := run.placeholders(); err != nil {
			return nil, err
		}
		if err := run.pair(); err != nil {
			return nil, err
		}
		run.spreadPrompts()
		if !slices.ContainsFunc(run.Messages, sampled) {
			run.notice("runs without a sampled token")
		}
		for i := range run.Messages {
			run.Messages[i].at = value{} // lets go of the text of the file
		}
	}
	return runs, nil
}

// placeholders refuses a run in whose sampled text a marker stands that the file
// itself does not hold.
func (r *Run) placeholders() error {
	for _, kind := range slices.Sorted(maps.Keys(r.Notices)) {
		_, marker, ok := strings.Cut(kind, " shown as ")
		if !ok || marker[0] != '[' {
			continue
		}
		for _, m := range r.Messages {
			if sampled(m) && strings.Contains(m.Content+m.Reasoning, marker) && !bytes.Contains(m.at.file.data, []byte(marker)) {
				return refused{m.at.errorf("%s in what the model said cannot be told in tokens: leave out the run", marker)}
			}
		}
	}
	return nil
}

// sampled reports whether a message holds something that the policy sampled.
func sampled(m Message) bool {
	return m.Role == chat.Assistant && !m.NotSampled && (said(m) || len(m.IDs) > 0)
}

// said reports whether a message says anything.
func said(m Message) bool { return m.Content != "" || m.Reasoning != "" || len(m.ToolCalls) > 0 }

// maxLogProb bounds log-probs, which engines round to a little above 0.
const maxLogProb = 1e-3

// settle marks the assistant messages that say nothing, of which nothing can have been
// sampled, and refuses log-probs that are none.
func (r *Run) settle() error {
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role == chat.Assistant && !sampled(*m) {
			m.NotSampled = true
		}
		for _, p := range m.LogProbs {
			if p > maxLogProb {
				return m.at.errorf("log-prob %g of a sampled token, want 0 or less (up to %g is taken as rounding)", p, maxLogProb)
			}
		}
	}
	return nil
}

// inner returns the values of a document without a form that may be runs: the items
// of an array, or of the arrays of an object in which some item is a run.
func (d document) inner() []value {
	if d.items != nil {
		if !slices.ContainsFunc(d.items, func(v value) bool { return v.kind() == '{' || v.kind() == '[' }) {
			return nil
		}
		return d.items
	}
	var inner []value
	for _, field := range d.object.fields {
		if field.kind() != '[' {
			continue
		}
		items, err := field.array()
		if err != nil || len(items) == 0 {
			continue
		}
		if slices.ContainsFunc(items, isRun) {
			inner = append(inner, items...)
		}
	}
	return inner
}

// conversations are the fields that hold the messages or events of a run, each with
// what reads it.
var conversations = []struct {
	name  string
	match func(document) bool
}{
	{"messages", matchMessages},
	{"conversations", matchShareGPT},
	{"conversation", matchShareGPT},
	{"message_log", matchMessageLog},
	{"traj", matchTauBench},
	{"history", func(d document) bool { return matchOpenHands(d) || matchSWEAgent(d) }},
	{"steps", matchATIF},
}

// oneConversation returns an error if an object holds two conversations that differ,
// of which one would be passed over without a word.
func (d document) oneConversation() error {
	var found value
	for _, c := range conversations {
		if !d.object.filled(c.name) || !c.match(d) {
			continue
		}
		list, _ := d.object.get(c.name)
		if found.file != nil {
			return found.one(list, "the conversation of the run")
		}
		found = list
	}
	if found.file == nil || found.path != "messages" && !strings.HasSuffix(found.path, ".messages") {
		return nil
	}
	if input, ok := d.object.get("input"); ok && d.object.filled("input") && matchResponses(d) {
		return found.one(input, "the conversation of the run")
	}
	for _, name := range holders {
		inner, _ := d.object.child(name)
		if list, ok := inner.get("messages"); ok && inner.filled("messages") && !found.startsWith(list) {
			return found.one(list, "the conversation of the run")
		}
	}
	return nil
}

// holds reports whether an object has a field with a conversation. An empty one gives
// way to messages.
func (d document) holds(name string) bool {
	v, ok := d.object.get(name)
	if ok && (v.kind() != '[' || d.object.filled(name)) {
		return true
	}
	holder, _, _ := d.conversation()
	return d.object.has(name) && !holder.filled("messages")
}

// startsWith reports whether an array starts with the items of another.
func (v value) startsWith(list value) bool {
	items, err := v.array()
	start, startErr := list.array()
	return err == nil && startErr == nil && len(start) <= len(items) && slices.EqualFunc(items[:len(start)], start, value.equal)
}

// isRun reports whether a value has a form.
func isRun(v value) bool {
	d, err := open(v)
	return err == nil && d.form() != nil
}

// noRuns is an error that also is ErrNoRuns.
type noRuns struct{ error }

func (noRuns) Is(target error) bool { return target == ErrNoRuns }

// open takes the top level of a value apart.
func open(v value) (document, error) {
	d := document{value: v}
	var err error
	switch v.kind() {
	case '{':
		d.object, err = v.object()
	case '[':
		if d.items, err = v.array(); err == nil && len(d.items) > 0 && d.items[0].kind() == '{' {
			d.first, err = d.items[0].object()
		}
	}
	return d, err
}

// form returns the form of the document, nil if it has none.
func (d document) form() *form {
	for i := range forms {
		if forms[i].match(d) {
			return &forms[i]
		}
	}
	return nil
}
