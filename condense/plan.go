package condense

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
)

// plan is a decision in the making: which items of the window go, and what stands
// in place of others.
type plan struct {
	Config
	w        Window
	reserve  int
	target   int // tokens and reserve to come down to
	rounds   []round
	drop     []bool         // by position in w.Items
	replaced []*Replacement // by position in w.Items, as they stand
	tokens   int            // of what stays
}

func (c Config) plan(w Window, reserve int) *plan {
	p := &plan{Config: c, w: w, reserve: reserve, rounds: c.rounds(w), drop: make([]bool, len(w.Items)),
		replaced: make([]*Replacement, len(w.Items)), tokens: w.Tokens}
	p.target = min(c.Low, w.Tokens+reserve-c.ClearAtLeast)
	for i := range w.Items {
		p.replaced[i] = w.Items[i].Replaced
	}
	return p
}

// done reports whether the window has come down to its target.
func (p *plan) done() bool { return p.tokens+p.reserve <= p.target }

// remove drops the item at position i.
func (p *plan) remove(i int) {
	if !p.drop[i] {
		p.drop[i] = true
		p.tokens -= p.w.Items[i].Tokens
	}
}

// restore undoes remove.
func (p *plan) restore(i int) {
	if p.drop[i] {
		p.drop[i] = false
		p.tokens += p.w.Items[i].Tokens
	}
}

// removeRound drops a round; what stands between its messages stays.
func (p *plan) removeRound(r round) {
	for i := r.first; i <= r.last; i++ {
		if p.w.Items[i].Round == p.w.Items[r.first].Round {
			p.remove(i)
		}
	}
}

// due returns the position of the user message that a reply is due to, -1 if the
// newest message, summaries aside, is none.
func (p *plan) due() int {
	last := len(p.w.Items) - 1
	for last >= 0 && p.w.Items[last].Summary {
		last--
	}
	if last >= 0 && p.w.Items[last].Role == chat.User && p.w.Items[last].Round < 0 {
		return last
	}
	return -1
}

// head reports whether the item is a system message or the task.
func (i *Item) head() bool { return i.Role == chat.System || i.Task }

// decision is the record of what stays.
func (p *plan) decision() (Decision, error) {
	record, err := p.record()
	if err != nil {
		return Decision{}, err
	}
	return Decision{Changed: true, Record: record}, nil
}

// record returns the record of what stays. If that does not fit, oversized tool
// results are cut, or it is an overflow.
func (p *plan) record() (Record, error) {
	if p.tokens+p.reserve > p.High && p.CutOversize {
		if err := p.cutOversize(); err != nil {
			return Record{}, err
		}
	}
	r := Record{Version: RecordVersion, Rule: p.Rule, RuleVersion: 1, Messages: p.w.Messages,
		Keep: []Range{}, TokensBefore: p.w.Tokens, TokensAfter: p.tokens}
	kept := 0
	for i := range p.w.Items {
		if p.drop[i] {
			continue
		}
		kept++
		r.keep(p.w.Items[i].Index)
		if p.replaced[i] != nil {
			r.replace(p.w.Items[i].Index, *p.replaced[i])
		}
	}
	if p.tokens+p.reserve > p.High {
		return Record{}, p.overflow(p.tokens, p.reserve, kept)
	}
	return r, nil
}

func (c Config) overflow(window, reserve, messages int) error {
	return &OverflowError{Rule: c.Rule, Window: window, Reserve: reserve, High: c.High, Messages: messages}
}

// leastKept is how many tokens a cut leaves of a result.
const leastKept = 16

// cutOversize cuts the middle out of the largest tool results that stay, until the
// window comes down to its target or there is nothing left to cut.
func (p *plan) cutOversize() error {
	var results []int
	for i := range p.w.Items {
		if p.w.Items[i].result() && !p.drop[i] {
			results = append(results, i)
		}
	}
	slices.SortStableFunc(results, func(a, b int) int { return p.w.Items[b].Tokens - p.w.Items[a].Tokens })
	for _, i := range results {
		if p.done() {
			return nil
		}
		if err := p.cut(i, p.tokens+p.reserve-p.target); err != nil {
			return err
		}
	}
	return nil
}

// cut takes the middle out of the result at position i so that it is about excess
// tokens shorter. Text that cannot be marked as cut, in a closed vocabulary, stays.
func (p *plan) cut(i, excess int) error {
	item := &p.w.Items[i]
	if p.replaced[i] != nil && p.replaced[i].Kind == Blank {
		return nil
	}
	start, end, err := p.w.Text.Body(item.Index)
	if err != nil {
		return err
	}
	length := end - start // of the body, whole
	whole := item.Tokens
	if r := item.Replaced; r != nil {
		whole += r.Cut - len(r.IDs)
	}
	body := length - (whole - item.Tokens) // of the body as it stands
	markerText := func(cut int) string { return fmt.Sprintf("[%d tokens cut]", cut) }
	marker, err := p.w.Text.Marker(markerText(length))
	if err != nil {
		return nil
	}
	keep := max(leastKept, body-excess-len(marker))
	if keep+len(marker) >= body {
		return nil
	}
	text := markerText(length - keep)
	if marker, err = p.w.Text.Marker(text); err != nil {
		return nil
	}
	tail := keep / 2
	r := &Replacement{Kind: Cut, Text: text, IDs: marker, Cut: length - keep,
		Head: start + keep - tail, Tail: whole - end + tail}
	p.tokens += r.Len(whole) - item.Tokens
	p.replaced[i] = r
	return nil
}
