package condense

import "github.com/infinirl/infinirl/chat"

// dropRounds is rule ToolFIFO: it drops the oldest tool rounds.
func dropRounds(p *plan) error {
	if p.Mode == Result {
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
// blanked, and the arguments of their calls if ClearToolInputs is set.
func clearResults(p *plan) error {
	for k := p.KeepFirst; k < len(p.rounds)-p.KeepLast && !p.done(); k++ {
		r := p.rounds[k]
		for i := r.first; i <= r.last && !r.fixed; i++ {
			item := &p.w.Items[i]
			call := p.ClearToolInputs && item.Role == chat.Assistant && item.Calls > 0
			if item.Round != p.w.Items[r.first].Round || !item.result() && !call {
				continue
			}
			if item.Replaced != nil && item.Replaced.Kind == Blank {
				continue
			}
			ids, err := p.w.Text.Blank(item.Index, p.Placeholder)
			if err != nil {
				return err
			}
			if len(ids) >= item.Tokens {
				continue
			}
			text := p.Placeholder
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
