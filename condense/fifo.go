package condense

import "github.com/infinirl/infinirl/chat"

// toolFIFO drops the oldest tool rounds, calls with their results.
type toolFIFO struct{ Config }

func (f toolFIFO) Condense(w Window) (Record, bool, error) {
	if w.Tokens+w.Reserve <= f.High {
		return Record{}, false, nil
	}
	if f.MaxSegments > 0 && w.Segments >= f.MaxSegments {
		return Record{}, false, &LimitError{f.MaxSegments}
	}
	drop := make([]bool, len(w.Items))
	tokens := w.Tokens
	rounds := f.rounds(w)
	if f.Mode == Result {
		tokens -= f.dropCalls(w, rounds, drop)
	}
	target := min(f.Low, w.Tokens+w.Reserve-f.ClearAtLeast)
	for k := f.KeepFirst; k < len(rounds)-f.KeepLast && tokens+w.Reserve > target; k++ {
		if rounds[k].fixed {
			continue
		}
		for i := rounds[k].first; i <= rounds[k].last; i++ {
			if w.Items[i].Round >= 0 && !drop[i] {
				drop[i] = true
				tokens -= w.Items[i].Tokens
			}
		}
	}
	return f.finish(w, drop, tokens)
}

// dropCalls drops the call messages of all rounds that need not stay whole and
// returns their tokens.
func (f toolFIFO) dropCalls(w Window, rounds []round, drop []bool) int {
	tokens := 0
	for k := f.KeepFirst; k < len(rounds); k++ {
		i := rounds[k].first
		if !rounds[k].fixed && w.Items[i].Role == chat.Assistant && rounds[k].last > i {
			drop[i] = true
			tokens += w.Items[i].Tokens
		}
	}
	return tokens
}

// finish writes the record of the items that are not dropped, tokens being their
// sum, or the error if they do not fit.
func (c Config) finish(w Window, drop []bool, tokens int) (Record, bool, error) {
	r := Record{Version: RecordVersion, Rule: c.Rule, RuleVersion: 1, Messages: w.Messages,
		Keep: []Range{}, TokensBefore: w.Tokens, TokensAfter: tokens}
	kept := 0
	for i, item := range w.Items {
		if !drop[i] {
			r.keep(item.Index)
			kept++
			if item.Replaced != nil {
				r.replace(item.Index, *item.Replaced)
			}
		}
	}
	if tokens+w.Reserve > c.High {
		return Record{}, false, &OverflowError{Rule: c.Rule, Window: tokens, Reserve: w.Reserve, High: c.High, Messages: kept}
	}
	return r, true, nil
}
