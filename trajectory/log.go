package trajectory

import (
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// logger appends entries to a log and works out what follows from their order:
// rounds, task and tools.
type logger struct {
	pairing  condense.Pairing
	answered bool // an assistant message has come
}

func (l *logger) append(t *Trajectory, e Entry) {
	i := t.Len()
	e.Round = -1
	if !e.Summary {
		e.Round = l.pairing.Append(i, e.Message)
	}
	if e.Round >= 0 && e.Round < i { // the first answer makes its message a round
		t.Entries[e.Round].Round = e.Round
	}
	e.Task = e.Task || e.Message.Role == chat.User && !e.Message.Observation && !l.answered
	l.answered = l.answered || e.Message.Role == chat.Assistant
	e.Tools = t.tools(i, e)
	t.Entries = append(t.Entries, e)
}

// tools returns the names of the tools that message i calls, or of the one whose
// result it is. A result answers the call of its round with the same id; ids that
// repeat and results without id go by their order.
func (t *Trajectory) tools(i int, e Entry) []string {
	switch {
	case e.Message.Role == chat.Assistant:
		var names []string
		for _, call := range e.Message.ToolCalls {
			names = append(names, call.Name)
		}
		return names
	case e.Message.Name != "" && e.Message.Role == chat.ToolRole:
		return []string{e.Message.Name}
	case e.Round < 0 || e.Round == i:
		return nil
	}
	calls := t.Entries[e.Round].Message.ToolCalls
	answers := -1
	for k, call := range calls {
		if call.ID == "" || call.ID != e.Message.ToolCallID {
			continue
		}
		if answers >= 0 { // the id repeats
			answers = -1
			break
		}
		answers = k
	}
	if answers < 0 {
		answers = 0
		for k := e.Round + 1; k < i; k++ {
			if t.Entries[k].Round == e.Round {
				answers++
			}
		}
	}
	if answers >= len(calls) {
		return nil
	}
	return []string{calls[answers].Name}
}
