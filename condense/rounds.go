package condense

import "github.com/infinirl/infinirl/chat"

// Pairing assigns messages to tool rounds as they are appended to a log. Calls
// and results are paired by position: ids repeat in recorded runs. A result
// belongs to the assistant message that it follows directly, or to the last one
// that still waits for results. The zero value is ready for an empty log.
type Pairing struct {
	next  int // log index of the next message
	round int // 1 + index of the assistant message that results are paired with; 0: none
	open  int // its calls without a result
}

// Append returns the log index of the call message of m's round, -1 if m is in no
// round yet. An assistant message without calls becomes the head of a round when
// an observation answers it: round is then its index, smaller than m's own.
func (p *Pairing) Append(m chat.Message) (round int) {
	i := p.next
	p.next++
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
	tokens      int
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
		r.tokens += item.Tokens
		if item.Role != chat.Assistant {
			r.results++
		}
		for _, tool := range c.ExcludeTools {
			r.fixed = r.fixed || tool == item.Tool
		}
	}
	if n := len(rounds); n > 0 {
		r := &rounds[n-1]
		r.fixed = r.fixed || r.last == len(w.Items)-1 && r.results < w.Items[r.first].Calls
	}
	return rounds
}
