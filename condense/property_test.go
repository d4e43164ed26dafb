package condense_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// randomTalk is a conversation of up to n turns in the notation of talk: system
// messages, a dialogue, parallel calls, empty messages, results of all sizes.
func randomTalk(rng *rand.Rand, n int) string {
	size := func(most int) int {
		if rng.IntN(4) == 0 {
			return 0
		}
		return rng.IntN(most)
	}
	var b strings.Builder
	for range rng.IntN(3) {
		fmt.Fprintf(&b, "s:%d ", size(300))
	}
	if rng.IntN(8) > 0 {
		fmt.Fprintf(&b, "u:%d ", size(200))
	}
	for range rng.IntN(n) {
		calls := rng.IntN(4)
		switch {
		case calls > 0:
			fmt.Fprintf(&b, "a:%d/%d ", size(200), calls)
			for k := range calls {
				if k > 0 && rng.IntN(10) == 0 { // the user breaks in
					fmt.Fprintf(&b, "u:%d ", size(100))
				}
				fmt.Fprintf(&b, "t:%d ", size(600))
			}
		case rng.IntN(3) == 0:
			fmt.Fprintf(&b, "a:%d o:%d ", size(200), size(600))
		default:
			fmt.Fprintf(&b, "a:%d u:%d ", size(200), size(200))
		}
		if rng.IntN(12) == 0 {
			fmt.Fprintf(&b, "s:%d ", size(50))
		}
	}
	fmt.Fprintf(&b, "a:%d", size(100))
	return b.String()
}

func randomConfig(rng *rand.Rand) condense.Config {
	rules := condense.Rules()
	high := 100 + rng.IntN(1500)
	c := condense.DefaultFor(rules[rng.IntN(len(rules))], high)
	c.Low = 1 + rng.IntN(high)
	c.KeepLast, c.KeepFirst = rng.IntN(4), rng.IntN(3)
	if rng.IntN(4) == 0 {
		c.ExcludeTools = []string{"tool1"}
	}
	if rng.IntN(3) == 0 {
		c.ClearAtLeast = rng.IntN(high)
	}
	c.CutOversize = rng.IntN(2) == 0
	c.Set("clear_tool_inputs", rng.IntN(2) == 0)
	c.Set("summary_tokens", 2+rng.IntN(high/4))
	c.Set("train_summary", rng.IntN(2) == 0)
	c.Set("placeholder", "[-]")
	if rng.IntN(2) == 0 {
		c.Set("mode", condense.Result)
	}
	return c
}

// TestRandomConversations holds every rule, over random configurations, to what
// verify checks, and to laws that relate runs with each other.
func TestRandomConversations(t *testing.T) {
	t.Parallel()
	renderer := newRenderer(t, triples{})
	cases := 2000
	if testing.Short() {
		cases = 400
	}
	var condensed, ended int
	for seed := range cases {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		text := randomTalk(rng, 30)
		c := randomConfig(rng)
		fail := func(err error) { t.Fatalf("seed %d: %v\n%+v\n%s", seed, err, c, text) }
		messages := talk(text)
		p := play(t, messages, renderer, c)
		if err := p.verify(c); err != nil {
			fail(err)
		}
		if len(p.Segments) > 1 {
			condensed++
		}
		if p.err != nil {
			ended++
		}

		// The same again is the same. Ids of calls do not matter, nor does the text.
		renamed := talk(text)
		for i := range renamed {
			renamed[i].ToolCallID = fmt.Sprint(i)
			for k := range renamed[i].ToolCalls {
				renamed[i].ToolCalls[k].ID = fmt.Sprint(i)
			}
			renamed[i].Content = strings.Map(func(r rune) rune { return 'z' - (r - 'a') }, renamed[i].Content)
		}
		if err := sameRecords(p, play(t, renamed, renderer, c), len(p.Segments)); err != nil {
			fail(err)
		}

		// What comes later changes no segment that was opened before.
		cut := rng.IntN(len(messages) + 1)
		earlier := play(t, messages[:cut], renderer, c)
		if err := sameRecords(p, earlier, len(earlier.Segments)); err != nil {
			fail(fmt.Errorf("first %d messages: %w", cut, err))
		}
	}
	if condensed < cases/4 || ended < cases/50 {
		t.Errorf("of %d conversations %d were condensed and %d ended early: the generator no longer covers both", cases, condensed, ended)
	}
}

// sameRecords compares the first n segments of two runs.
func sameRecords(a, b played, n int) error {
	if len(a.Segments) < n || len(b.Segments) < n {
		return fmt.Errorf("%d and %d segments, want %d of both", len(a.Segments), len(b.Segments), n)
	}
	for k := range n {
		x, y := a.Segments[k].Record, b.Segments[k].Record
		if x.Rule == condense.Summary { // summaries depend on the text, and have a length
			x.TokensBefore, x.TokensAfter, y.TokensBefore, y.TokensAfter = 0, 0, 0, 0
		}
		if !slices.Equal(x.Keep, y.Keep) || x.TokensAfter != y.TokensAfter {
			return fmt.Errorf("segment %d: %s and %s", k, x.JSON(), y.JSON())
		}
	}
	return nil
}

// TestUnderBudget checks that a window that fits exactly is left alone.
func TestUnderBudget(t *testing.T) {
	t.Parallel()
	renderer := newRenderer(t, triples{})
	messages := talk("s:30 u:30 a:30/2 t:90 t:60 a:30/1 t:300 a:9")
	total := 0
	for _, m := range messages {
		ids, err := renderer.Extend(nil, []chat.Message{m})
		if err != nil {
			t.Fatal(err)
		}
		total += len(ids)
	}
	total-- // the newline after the last reply
	for _, rule := range condense.Rules() {
		c := condense.DefaultFor(rule, total)
		if p := play(t, messages, renderer, c); len(p.Segments) != 1 {
			t.Errorf("%s: %d tokens under high %d were touched: %s", rule, total, total, p.Segments[len(p.Segments)-1].Record.JSON())
		}
		c.High--
		c.Low = c.High / 2
		if p := play(t, messages, renderer, c); rule != condense.None && len(p.Segments) < 2 {
			t.Errorf("%s: %d tokens over high %d were not touched", rule, total, c.High)
		}
	}
}

// TestNoMoreThanNeeded checks that the rules that go from the oldest on stop as
// soon as they are down to low, or have freed clear_at_least.
func TestNoMoreThanNeeded(t *testing.T) {
	t.Parallel()
	items := []condense.Item{{Index: 0, Role: "user", Task: true, Round: -1, Tokens: 50}}
	for k := range 10 {
		items = append(items,
			condense.Item{Index: 2*k + 1, Role: "assistant", Round: 2*k + 1, Calls: 1, Tokens: 10},
			condense.Item{Index: 2*k + 2, Role: "tool", Round: 2*k + 1, Tokens: 90})
	}
	w := condense.Window{Items: items, Messages: len(items), Tokens: 1050, Reserve: 50, Text: blanks{}}
	for _, rule := range []string{condense.ToolFIFO, condense.ToolClear, condense.Sliding} {
		freed := 100 // by each round
		if rule == condense.ToolClear {
			freed = 89 // a placeholder takes one token
		}
		for _, c := range []struct{ low, atLeast, rounds int }{
			{1000, 0, (100 + freed - 1) / freed}, {999, 0, 2}, {800, 0, (300 + freed - 1) / freed}, {1000, 250, 3}, {1000, 5000, 9},
		} {
			config := condense.DefaultFor(rule, 1090)
			config.Low, config.ClearAtLeast = c.low, c.atLeast
			condenser, err := condense.New(config)
			if err != nil {
				t.Fatal(err)
			}
			d, err := condenser.Condense(w)
			if got := (d.Record.TokensBefore - d.Record.TokensAfter) / freed; err != nil || got != c.rounds {
				t.Errorf("%s, low %d, clear_at_least %d: %d rounds, %v; want %d", rule, c.low, c.atLeast, got, err, c.rounds)
			}
		}
	}
}
