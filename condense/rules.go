package condense

import (
	"fmt"

	"github.com/infinirl/infinirl/chat"
)

// FIFOOptions are those of rule ToolFIFO.
type FIFOOptions struct {
	// Mode is Pair or Result.
	Mode string `json:"mode"`
}

// The skeleton modes of ToolFIFO.
const (
	// Pair keeps a call with its results.
	Pair = "pair"
	// Result keeps only the results of the rounds that stay, as in
	// "system | user | t3 | a4 t4 ...". Many chat templates reject it.
	Result = "result"
)

// ClearOptions are those of rule ToolClear.
type ClearOptions struct {
	// Placeholder stands in place of a result.
	Placeholder string `json:"placeholder"`
	// ToolInputs blanks the arguments of its call as well.
	ToolInputs bool `json:"clear_tool_inputs"`
}

var (
	_ = Register(ToolFIFO, "drop the oldest tool rounds", FIFOOptions{Mode: Pair}, func(c Config, o FIFOOptions) (Condenser, error) {
		if o.Mode != Pair && o.Mode != Result {
			return nil, fmt.Errorf("condense: mode: %q, want %s or %s", o.Mode, Pair, Result)
		}
		return dropping{c, func(p *plan) error { return dropRounds(p, o) }}, nil
	})
	_ = Register(ToolClear, "blank the oldest tool results", ClearOptions{Placeholder: "[an earlier tool result was here]"}, func(c Config, o ClearOptions) (Condenser, error) {
		return dropping{c, func(p *plan) error { return clearResults(p, o) }}, nil
	})
	_ = Register(Sliding, "keep system messages, task and the newest messages", struct{}{}, func(c Config, _ struct{}) (Condenser, error) {
		return dropping{c, dropMiddle}, nil
	})
	_ = Register(DiscardAll, "restart from system messages and task", struct{}{}, func(c Config, _ struct{}) (Condenser, error) {
		return dropping{c, discardAll}, nil
	}, Afresh)
)

// dropRounds is rule ToolFIFO: it drops the oldest tool rounds.
func dropRounds(p *plan, o FIFOOptions) error {
	if o.Mode == Result {
		p.dropCalls()
	}
	for k := p.KeepFirst; k < len(p.rounds)-p.KeepLast && !p.done(); k++ {
		if !p.rounds[k].fixed {
			p.removeRound(p.rounds[k])
		}
	}
	return nil
}

// dropCalls drops the call messages of all rounds that need not stay whole.
func (p *plan) dropCalls() {
	for k := p.KeepFirst; k < len(p.rounds); k++ {
		r := p.rounds[k]
		if !r.fixed && p.w.Items[r.first].Role == chat.Assistant && r.results > 0 {
			p.remove(r.first)
		}
	}
}

// clearResults is rule ToolClear: every message stays, the oldest results are
// blanked, and the arguments of their calls if ToolInputs is set.
func clearResults(p *plan, o ClearOptions) error {
	for k := p.KeepFirst; k < len(p.rounds)-p.KeepLast && !p.done(); k++ {
		r := p.rounds[k]
		for i := r.first; i <= r.last && !r.fixed; i++ {
			item := &p.w.Items[i]
			call := o.ToolInputs && item.Role == chat.Assistant && item.Calls > 0
			if item.Round != p.w.Items[r.first].Round || !item.result() && !call {
				continue
			}
			if item.Replaced != nil && item.Replaced.Kind == Blank {
				continue
			}
			ids, err := p.w.Text.Blank(item.Index, o.Placeholder)
			if err != nil {
				return err
			}
			if len(ids) >= item.Tokens {
				continue
			}
			text := o.Placeholder
			if call {
				text = "{}"
			}
			p.replaced[i] = &Replacement{Kind: Blank, Text: text, IDs: ids}
			p.tokens += len(ids) - item.Tokens
		}
	}
	return nil
}

// dropMiddle is rule Sliding: of all that is not head it drops the oldest,
// messages and tool rounds, up to the newest KeepLast rounds.
func dropMiddle(p *plan) error {
	p.dropOldest(p.target)
	return nil
}

// dropOldest drops messages and whole tool rounds from the oldest on, until what
// stays and the reserve are down to target.
func (p *plan) dropOldest(target int) {
	end := len(p.w.Items)
	if first := len(p.rounds) - p.KeepLast; p.KeepLast > 0 && first >= 0 {
		end = p.rounds[first].first
	}
	due := p.due()
	k := 0 // of the round at or after i
	for i := 0; i < end && p.tokens+p.reserve > target; i++ {
		for k < len(p.rounds) && p.rounds[k].first < i {
			k++
		}
		item := &p.w.Items[i]
		switch {
		case item.head() || i == due:
		case item.Round < 0:
			p.remove(i)
		case k < len(p.rounds) && p.rounds[k].first == i && k >= p.KeepFirst && k < len(p.rounds)-p.KeepLast && !p.rounds[k].fixed:
			p.removeRound(p.rounds[k])
		}
	}
}

// discardAll is rule DiscardAll: nothing stays but what always stays and the
// rounds that the knobs keep.
func discardAll(p *plan) error {
	due := p.due()
	for i := range p.w.Items {
		if item := &p.w.Items[i]; item.Round < 0 && !item.head() && i != due {
			p.remove(i)
		}
	}
	for k := p.KeepFirst; k < len(p.rounds)-p.KeepLast; k++ {
		if !p.rounds[k].fixed {
			p.removeRound(p.rounds[k])
		}
	}
	return nil
}
