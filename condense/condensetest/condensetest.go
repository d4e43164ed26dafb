// Package condensetest is the conformance suite of condense.Condenser.
package condensetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Subject is a condenser with what the suite has to know of it.
type Subject struct {
	Condenser condense.Condenser
	// High is the water mark that the condenser was made with.
	High int
}

var laws = []struct {
	name string
	hold func(condense.Condenser, condense.Window, int) error
}{
	{"pure", pure},
	{"fits", fits},
	{"under budget", underBudget},
	{"what stays", whatStays},
	{"form", form},
}

// windows is how many random windows are condensed.
const windows = 400

// Run checks a condenser law by law.
func Run(t *testing.T, s Subject) {
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			if err := over(s, law.hold); err != nil {
				t.Error(err)
			}
		})
	}
}

// Check returns what Run would report, joined.
func Check(s Subject) error {
	var failed []error
	for _, law := range laws {
		if err := over(s, law.hold); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", law.name, err))
		}
	}
	return errors.Join(failed...)
}

func over(s Subject, law func(condense.Condenser, condense.Window, int) error) error {
	for seed := range uint64(windows) {
		w := Window(rand.New(rand.NewPCG(seed, 4)), s.High)
		if err := law(s.Condenser, w, s.High); err != nil {
			return fmt.Errorf("window %d: %w", seed, err)
		}
	}
	return nil
}

// Window returns a conversation at the moment a reply is due, mostly too long for high:
// system messages, the task, rounds of one to three parallel calls with their results,
// and talk between them. Some results stand replaced already, some messages have gone.
func Window(rng *rand.Rand, high int) condense.Window {
	w := condense.Window{Reserve: 2 + rng.IntN(high/8+1), Segments: 1, Text: Text{}}
	w.Reply = w.Reserve - 2
	add := func(item condense.Item) {
		item.Index = w.Messages
		w.Messages++
		if item.Round < 0 && !item.Task && item.Role != chat.System && rng.IntN(12) == 0 {
			return // dropped before
		}
		w.Items = append(w.Items, item)
		w.Tokens += item.Tokens
	}
	size := func() int { return 4 + rng.IntN(high/12+1) }
	if rng.IntN(3) > 0 {
		add(condense.Item{Role: chat.System, Round: -1, Tokens: size()})
	}
	add(condense.Item{Role: chat.User, Task: true, Round: -1, Tokens: size()})
	for turns := 1 + rng.IntN(30); turns > 0; turns-- {
		if rng.IntN(5) == 0 {
			add(condense.Item{Role: chat.Assistant, Round: -1, Tokens: size()})
			add(condense.Item{Role: chat.User, Round: -1, Tokens: size()})
			continue
		}
		calls, round := 1+rng.IntN(3), w.Messages
		names := []string{"a", "b", "c"}[:calls]
		gone := rng.IntN(8) == 0 // with its results, dropped before
		first := len(w.Items)
		add(condense.Item{Role: chat.Assistant, Round: round, Calls: calls, Tools: names, Tokens: size()})
		answered := calls
		if turns == 1 {
			answered = rng.IntN(calls + 1)
		}
		for k := range answered {
			result := condense.Item{Role: chat.ToolRole, Round: round, Tools: names[k : k+1], Tokens: size()}
			if rng.IntN(8) == 0 {
				result.Replaced = blank(w.Messages)
				result.Tokens = result.Replaced.Len(result.Tokens)
			}
			add(result)
		}
		if gone && answered == calls {
			for _, item := range w.Items[first:] {
				w.Tokens -= item.Tokens
			}
			w.Items = w.Items[:first]
		}
	}
	return w
}

// blank is what stands in place of message i.
func blank(i int) *condense.Replacement {
	ids, _ := Text{}.Blank(i, "")
	return &condense.Replacement{Kind: condense.Blank, Text: "gone", IDs: ids}
}

// Text renders replacements as a few ids.
type Text struct{}

// Blank is three ids.
func (Text) Blank(i int, placeholder string) ([]int32, error) { return []int32{1, int32(i), 2}, nil }

// Body leaves one id of delimiters on each side; messages of the suite have four or more.
func (Text) Body(i int) (start, end int, err error) { return 1, 3, nil }

// Marker is one id.
func (Text) Marker(string) ([]int32, error) { return []int32{9}, nil }

// Message is four ids.
func (Text) Message(chat.Message) ([]int32, error) { return []int32{1, 5, 5, 2}, nil }

// clone copies what a condenser could change.
func clone(w condense.Window) condense.Window {
	w.Items = slices.Clone(w.Items)
	for i := range w.Items {
		w.Items[i].Tools = slices.Clone(w.Items[i].Tools)
		if r := w.Items[i].Replaced; r != nil {
			copied := *r
			copied.IDs = slices.Clone(r.IDs)
			w.Items[i].Replaced = &copied
		}
	}
	return w
}

// pure checks that equal windows get equal decisions, and that the window stays.
func pure(c condense.Condenser, w condense.Window, _ int) error {
	before := clone(w)
	first, errFirst := c.Condense(w)
	if !reflect.DeepEqual(w, before) {
		return errors.New("the condenser has changed the window")
	}
	second, errSecond := c.Condense(clone(w))
	if !reflect.DeepEqual(first, second) || fmt.Sprint(errFirst) != fmt.Sprint(errSecond) {
		return fmt.Errorf("equal windows get %s (%v) and then %s (%v)", first.Record.JSON(), errFirst, second.Record.JSON(), errSecond)
	}
	return nil
}

// decide condenses; an end of the trajectory is no decision.
func decide(c condense.Condenser, w condense.Window) (d condense.Decision, ended bool, err error) {
	d, err = c.Condense(w)
	var overflow *condense.OverflowError
	var limit *condense.LimitError
	if errors.As(err, &overflow) || errors.As(err, &limit) {
		return d, true, nil
	}
	return d, false, err
}

// fits checks that a window that was condensed fits.
func fits(c condense.Condenser, w condense.Window, high int) error {
	d, ended, err := decide(c, w)
	if err != nil || ended {
		return err
	}
	switch {
	case !d.Changed && w.Tokens+w.Reserve > high:
		return fmt.Errorf("%d tokens and a reserve of %d exceed %d, and nothing was done", w.Tokens, w.Reserve, high)
	case d.Changed && d.Ask == nil && d.Record.TokensAfter+w.Reserve > high:
		return fmt.Errorf("%d tokens and a reserve of %d still exceed %d", d.Record.TokensAfter, w.Reserve, high)
	case d.Ask != nil && d.Record.TokensAfter+w.Reserve-w.Reply+d.Ask.Tokens > high:
		return fmt.Errorf("%d tokens leave no room for a summary of %d below %d", d.Record.TokensAfter, d.Ask.Tokens, high)
	}
	return nil
}

// underBudget checks that a window that fits is left as it is.
func underBudget(c condense.Condenser, w condense.Window, high int) error {
	if w.Reserve = high - w.Tokens; w.Reserve < 2 {
		return nil
	}
	w.Reply = w.Reserve - 2
	d, err := c.Condense(w)
	if err != nil {
		return fmt.Errorf("a window that fits gets an error: %w", err)
	}
	if d.Changed || d.Ask != nil || !reflect.DeepEqual(d.Record, condense.Record{}) {
		return fmt.Errorf("a window that fits gets %s", d.Record.JSON())
	}
	return nil
}

// whatStays checks that system messages, the task and a call that waits stay, and that
// the results of a round stay or go together.
func whatStays(c condense.Condenser, w condense.Window, _ int) error {
	d, ended, err := decide(c, w)
	if err != nil || ended || !d.Changed {
		return err
	}
	kept := map[int]bool{}
	for _, k := range d.Record.Keep {
		for i := k.Start; i < k.End; i++ {
			kept[i] = true
		}
	}
	shown, results := map[int]bool{}, map[int][]int{}
	for _, item := range w.Items {
		shown[item.Index] = true
		if (item.Role == chat.System || item.Task) && !kept[item.Index] {
			return fmt.Errorf("message %d, a system message or the task, was dropped", item.Index)
		}
		if item.Round >= 0 && item.Role != chat.Assistant {
			results[item.Round] = append(results[item.Round], item.Index)
		}
	}
	for i := range kept {
		if !shown[i] {
			return fmt.Errorf("message %d is kept and was not in the window", i)
		}
	}
	for round, of := range results {
		for _, i := range of {
			if kept[i] != kept[of[0]] {
				return fmt.Errorf("results %v of round %d: some stay and some go", of, round)
			}
		}
	}
	for k, item := range w.Items {
		waits := item.Role == chat.Assistant && item.Calls > len(results[item.Index]) && !slices.ContainsFunc(w.Items[k+1:], func(i condense.Item) bool { return i.Role == chat.Assistant })
		if waits && !kept[item.Index] {
			return fmt.Errorf("message %d calls %d tools, has %d results, and was dropped", item.Index, item.Calls, len(results[item.Index]))
		}
	}
	return nil
}

// form checks that a record can be read back and tells the window's sizes.
func form(c condense.Condenser, w condense.Window, _ int) error {
	d, ended, err := decide(c, w)
	if err != nil || ended || !d.Changed {
		return err
	}
	read, err := condense.ParseRecord(d.Record.JSON())
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(read, d.Record) {
		return fmt.Errorf("record %s reads back as %s", d.Record.JSON(), read.JSON())
	}
	if d.Record.Messages != w.Messages || d.Record.TokensBefore != w.Tokens {
		return fmt.Errorf("the record speaks of %d messages and %d tokens, the window is of %d and %d", d.Record.Messages, d.Record.TokensBefore, w.Messages, w.Tokens)
	}
	replaced := d.Record.Replacements()
	tokens := 0
	for _, item := range w.Items {
		if !slices.ContainsFunc(d.Record.Keep, func(k condense.Range) bool { return k.Start <= item.Index && item.Index < k.End }) {
			continue
		}
		switch r := replaced[item.Index]; {
		case r != nil:
			tokens += r.Len(item.Tokens)
		case item.Replaced != nil:
			return fmt.Errorf("message %d stands replaced in the window, and the record shows it whole", item.Index)
		default:
			tokens += item.Tokens
		}
	}
	if tokens != d.Record.TokensAfter {
		return fmt.Errorf("the record counts %d tokens, what it keeps has %d", d.Record.TokensAfter, tokens)
	}
	return nil
}
