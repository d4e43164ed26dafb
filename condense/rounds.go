package condense

import (
	"slices"

	"github.com/infinirl/infinirl/chat"
)

// Pairing assigns messages to tool rounds as they are appended to a log. Calls
// and results are paired by position: ids repeat in recorded runs. A result
// belongs to the assistant message that it follows directly, or to the last one
// that still waits for results. The zero value is ready for an empty log.
type Pairing struct {
	round int // 1 + index of the assistant message that results are paired with; 0: none
	open  int // its calls without a result
}

// Append takes message i of the log, after all that were appended before, and
// returns the index of the call message of its round, -1 if it is in none yet. An assistant message without calls becomes the head of a round when
// an observation answers it: round is then its index, smaller than m's own.
func (p *Pairing) Append(i int, m chat.Message) (round int) {
	switch {
	case m.Role == chat.Assistant:
		p.round, p.open = i+1, len(m.ToolCalls)
		if len(m.ToolCalls) == 0 {
			return -1
		}
		return i
	case m.Role == chat.ToolRole || m.Observation:
		if p.round == 0 {
			return i // an answer to nothing is a round of its own
		}
		p.open--
		return p.round - 1
	default:
		if p.open <= 0 {
			p.round = 0
		}
		return -1
	}
}

// round is one tool round of a window.
type round struct {
	first, last int // positions in Window.Items; nothing of another round between
	results     int // how many results
	fixed       bool
}

// rounds returns the tool rounds of a window in order. A round is fixed if it has
// to stay: its calls wait for results, or one of its tools is excluded.
func (c Config) rounds(w Window) []round {
	var rounds []round
	for i, item := range w.Items {
		if item.Round < 0 {
			continue
		}
		n := len(rounds)
		if n == 0 || w.Items[rounds[n-1].first].Round != item.Round {
			rounds = append(rounds, round{first: i})
			n++
		}
		r := &rounds[n-1]
		r.last = i
		if item.Role != chat.Assistant {
			r.results++
		}
		for _, tool := range item.Tools {
			r.fixed = r.fixed || slices.Contains(c.ExcludeTools, tool)
		}
	}
	if n := len(rounds); n > 0 {
		r := &rounds[n-1]
		r.fixed = r.fixed || r.results < w.Items[r.first].Calls &&
			!slices.ContainsFunc(w.Items[r.first+1:], func(i Item) bool { return i.Role == chat.Assistant })
	}
	return rounds
}
