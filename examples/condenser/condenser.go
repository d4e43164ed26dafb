// Package condenser is an example of an own condense.Condenser: a rule that knows tools
// whose newest result says it all. A to-do list, a plan or the listing of a folder is
// worth keeping however old it is, and its older versions are worth nothing.
package condenser

import (
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Rule is the rule's name in configurations and on the command line.
const Rule = "latest"

// Options are the rule's own, beside the knobs that all rules share.
type Options struct {
	// Latest names tools of which the newest round always stays.
	Latest []string `json:"latest"`
}

var _ = condense.Register(Rule, "drop the oldest, but keep the newest round of the tools that are named", Options{}, build)

// build gets shared fields that are valid, and refuses what the rule would not heed.
func build(c condense.Config, o Options) (condense.Condenser, error) {
	if c.CutOversize {
		return nil, fmt.Errorf("condense: cut_oversize: rule %s cuts no results: want false", Rule)
	}
	return latest{c, o}, nil
}

type latest struct {
	condense.Config
	Options
}

// Condense drops the oldest messages and whole tool rounds, past those that stay, until
// the window has come down to Low. It reads the window and changes nothing in it: a run
// that is played again has to be cut in the same places.
func (l latest) Condense(w condense.Window) (condense.Decision, error) {
	switch {
	case w.Tokens+w.Reserve <= l.High:
		return condense.Decision{}, nil
	case l.MaxSegments > 0 && w.Segments >= l.MaxSegments:
		return condense.Decision{}, &condense.LimitError{MaxSegments: l.MaxSegments}
	}
	stays := l.stays(w)
	tokens, target := w.Tokens, min(l.Low, w.Tokens+w.Reserve-l.ClearAtLeast)
	gone := make([]bool, len(w.Items))
	for i, oldest := range w.Items {
		if tokens+w.Reserve <= target {
			break
		}
		if stays[i] || gone[i] {
			continue
		}
		for k := i; k < len(w.Items); k++ { // a call and its results go together
			if k == i || oldest.Round >= 0 && w.Items[k].Round == oldest.Round {
				gone[k] = true
				tokens -= w.Items[k].Tokens
			}
		}
	}
	return l.decision(w, gone, tokens)
}

// stays tells which items may not go: what must stay under any rule, what the shared
// knobs keep, and the newest round of each tool of Latest.
func (l latest) stays(w condense.Window) []bool {
	var rounds []int // each by the index of its call
	keep, newest, results := map[int]bool{}, map[string]int{}, map[int]int{}
	var speaker condense.Item // the last message of the assistant
	for _, item := range w.Items {
		if item.Role == chat.Assistant {
			speaker = item
		}
		if item.Round < 0 {
			continue
		}
		if len(rounds) == 0 || rounds[len(rounds)-1] != item.Round {
			rounds = append(rounds, item.Round)
		}
		if item.Role != chat.Assistant {
			results[item.Round]++
		}
		for _, tool := range item.Tools {
			newest[tool] = item.Round
			keep[item.Round] = keep[item.Round] || slices.Contains(l.ExcludeTools, tool)
		}
	}
	for k, round := range rounds {
		keep[round] = keep[round] || k < l.KeepFirst || k >= len(rounds)-l.KeepLast
	}
	for _, tool := range l.Latest {
		if round, called := newest[tool]; called {
			keep[round] = true
		}
	}
	if speaker.Calls > results[speaker.Round] { // a call that waits for results
		keep[speaker.Round] = true
	}
	from := w.Messages // what was said since the newest rounds is as new as they are
	if n := len(rounds); l.KeepLast > 0 && l.KeepLast <= n {
		from = rounds[n-l.KeepLast]
	}
	stays := make([]bool, len(w.Items))
	for i, item := range w.Items {
		due := i == len(w.Items)-1 && item.Role == chat.User && item.Round < 0 // what a reply is due to
		stays[i] = item.Role == chat.System || item.Task || due || item.Index >= from || item.Round >= 0 && keep[item.Round]
	}
	return stays
}

// decision writes down what stays, as ranges of message indices. What stands replaced
// in the window stays as it stands.
func (l latest) decision(w condense.Window, gone []bool, tokens int) (condense.Decision, error) {
	r := condense.Record{Version: condense.RecordVersion, Rule: Rule, RuleVersion: 1, Messages: w.Messages,
		Keep: []condense.Range{}, TokensBefore: w.Tokens, TokensAfter: tokens}
	kept := 0
	for i, item := range w.Items {
		if gone[i] {
			continue
		}
		kept++
		if n := len(r.Keep); n > 0 && r.Keep[n-1].End == item.Index {
			r.Keep[n-1].End++
		} else {
			r.Keep = append(r.Keep, condense.Range{Start: item.Index, End: item.Index + 1})
		}
		if item.Replaced != nil {
			as := *item.Replaced
			as.Indices = []int{item.Index}
			r.Replace = append(r.Replace, as)
		}
	}
	if tokens+w.Reserve > l.High {
		return condense.Decision{}, &condense.OverflowError{Rule: Rule, Window: tokens, Reserve: w.Reserve, High: l.High, Messages: kept}
	}
	return condense.Decision{Changed: true, Record: r}, nil
}
