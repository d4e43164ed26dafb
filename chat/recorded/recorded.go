// Package recorded reads runs of agents that other programs have recorded.
//
// Read takes a file and detects its form by content: OpenAI messages and
// Responses items, Anthropic messages, LangChain messages, ATIF, SWE-agent and
// mini-swe-agent trajectories, OpenHands event logs, tau-bench results, ShareGPT
// conversations, and the trajectories of this project; each as one JSON value, an
// array of them, or JSON Lines. Hermes-style <tool_call> and <tool_response> tags
// inside the text of messages become calls and results. Errors name file, line
// and field.
//
// Recordings are taken as they are: ids of calls may repeat, content may be null,
// calls may lack their results. A result that answers no call is an error.
package recorded

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/infinirl/infinirl/chat"
)

// ErrNoRuns is wrapped by the error of a file that holds no recorded run.
var ErrNoRuns = errors.New("no recorded run")

// MaxBytes bounds the size of a file that Read accepts.
const MaxBytes = 1 << 30

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

// Message is a recorded message.
type Message struct {
	chat.Message
	// IDs are the token ids that were recorded with the message, nil if none.
	IDs []int32
	// LogProbs belong to IDs, nil if none were recorded.
	LogProbs []float32
	// NotSampled marks an assistant message that the policy did not write: a
	// demonstration, copied context, a command of the user. It is shown and never
	// trained.
	NotSampled bool
	// Task marks a user message that states the task of the run although assistant
	// messages come before it: a demonstration, or a greeting that no model wrote.
	// The user messages before the first assistant message need no mark.
	Task bool
	at   value // where the message stands
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
	{"openai-responses", matchResponses, readResponses},
	{"anthropic-messages", matchAnthropic, readAnthropic},
	{"langchain", matchLangChain, readLangChain},
	{"sharegpt", matchShareGPT, readShareGPT},
	{"message-log", matchMessageLog, readMessageLog},
	{"openai-messages", matchMessages, readMessages},
}

// Read reads all runs of a file; name is for errors.
func Read(name string, r io.Reader) ([]Run, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: larger than %d MiB: split it by runs", name, MaxBytes>>20)
	}
	f := newFile(name, bytes.TrimPrefix(data, []byte("\ufeff"))) // a byte order mark, as some editors write
	var runs []Run
	documents, err := f.documents()
	if err != nil {
		return nil, err
	}
	if d, ok, err := eventLines(documents); err != nil {
		return nil, err
	} else if ok {
		if runs, err = readDocument(d); err != nil {
			return nil, err
		}
		documents = nil
	}
	for _, v := range documents {
		more, err := readValue(v)
		if err != nil {
			return nil, err
		}
		runs = append(runs, more...)
	}
	return named(runs), nil
}

// named gives every run an id of its own, and a group.
func named(runs []Run) []Run {
	seen := make(map[string]int, len(runs))
	for i := range runs {
		id := runs[i].ID
		if id == "" {
			id = fmt.Sprintf("run-%d", i)
		}
		runs[i].ID = id
		if n := seen[id]; n > 0 {
			runs[i].ID = fmt.Sprintf("%s#%d", id, n+1)
		}
		seen[id]++
		if runs[i].Group == "" {
			runs[i].Group = runs[i].ID
		}
	}
	return runs
}

// documents splits a file into its JSON values: one, or one a line.
func (f *file) documents() ([]value, error) {
	rest := bytes.TrimSpace(f.data)
	if len(rest) == 0 {
		return nil, fmt.Errorf("%s:1: the file is empty", f.name)
	}
	start := bytes.Index(f.data, rest[:1])
	end := start + len(rest)
	lineEnd := bytes.IndexByte(rest, '\n')
	if lineEnd >= 0 {
		if first, err := parse(f, start, start+lineEnd); err == nil {
			documents := []value{first}
			for at := start + lineEnd + 1; at < end; {
				stop := end
				if n := bytes.IndexByte(f.data[at:end], '\n'); n >= 0 {
					stop = at + n
				}
				if len(bytes.TrimSpace(f.data[at:stop])) > 0 {
					v, err := parse(f, at, stop)
					if err != nil {
						return nil, err
					}
					documents = append(documents, v)
				}
				at = stop + 1
			}
			return documents, nil
		}
	}
	v, err := parse(f, start, end)
	if err != nil {
		return nil, err
	}
	return []value{v}, nil
}

// readValue reads the runs of one JSON value: of a known form, an array of such,
// or an object that holds arrays of such.
func readValue(v value) ([]Run, error) {
	d, err := open(v)
	if err != nil {
		return nil, err
	}
	return readDocument(d)
}

// readDocument is readValue of a document that is taken apart.
func readDocument(d document) ([]Run, error) {
	v := d.value
	if form := d.form(); form != nil {
		runs, err := form.read(d)
		if err != nil {
			return nil, err
		}
		for i := range runs {
			run := &runs[i]
			run.Form, run.Line = form.name, v.file.line(v.start)
			run.Messages = readTags(run.Messages)
			if err := checkResults(run.Messages); err != nil {
				return nil, err
			}
		}
		return runs, nil
	}
	items := d.items
	for _, field := range d.object.fields {
		if field.kind() != '[' {
			continue
		}
		inner, err := open(field)
		if err != nil {
			return nil, err
		}
		if len(inner.items) > 0 && inner.first.fields != nil {
			if first, err := open(inner.items[0]); err == nil && first.form() != nil {
				items = append(items, inner.items...)
			}
		}
	}
	var runs []Run
	for _, item := range items {
		if item.kind() != '{' && item.kind() != '[' {
			break
		}
		more, err := readValue(item)
		if err != nil {
			return nil, err
		}
		runs = append(runs, more...)
	}
	if len(runs) == 0 {
		return nil, noRuns{v.errorf("no known form of a recorded run: want an object with messages, traj, history, steps, conversations, input or output, or an array of messages")}
	}
	return runs, nil
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

// checkResults reports the first tool result that answers no call.
func checkResults(messages []Message) error {
	open := 0
	for _, m := range messages {
		switch m.Role {
		case chat.Assistant:
			open = len(m.ToolCalls)
		case chat.ToolRole:
			if open--; open < 0 {
				return m.at.errorf("a tool result that answers no call: the assistant message before it has no call without a result")
			}
		}
	}
	return nil
}
