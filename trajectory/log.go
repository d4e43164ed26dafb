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

	// Of the round that results come for: the index of its call message, the place of
	// each call by id, -1 where the id repeats, and the number of its results so far.
	round   int
	calls   map[string]int
	results int
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
	e.Tools = l.tools(t, i, e)
	t.Entries = append(t.Entries, e)
}

// tools returns the names of the tools that message i calls, or of the one whose
// result it is. A result answers the call of its round with the same id; ids that
// repeat and results without id go by their order.
func (l *logger) tools(t *Trajectory, i int, e Entry) []string {
	if e.Message.Role == chat.Assistant {
		var names []string
		for _, call := range e.Message.ToolCalls {
			names = append(names, call.Name)
		}
		return names
	}
	if e.Round < 0 || e.Round == i {
		if e.Message.Name != "" && e.Message.Role == chat.ToolRole {
			return []string{e.Message.Name}
		}
		return nil
	}
	calls := t.Entries[e.Round].Message.ToolCalls
	if l.calls == nil || l.round != e.Round {
		l.round, l.calls, l.results = e.Round, make(map[string]int, len(calls)), 0
		for k, call := range calls {
			if _, repeats := l.calls[call.ID]; repeats {
				k = -1
			}
			l.calls[call.ID] = k
		}
	}
	answers := l.results
	l.results++
	if e.Message.Name != "" && e.Message.Role == chat.ToolRole {
		return []string{e.Message.Name}
	}
	if k, ok := l.calls[e.Message.ToolCallID]; ok && k >= 0 && e.Message.ToolCallID != "" {
		answers = k
	}
	if answers >= len(calls) {
		return nil
	}
	return []string{calls[answers].Name}
}
