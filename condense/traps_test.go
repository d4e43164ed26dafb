package condense_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/token"
	"github.com/infinirl/infinirl/trajectory"
)

// The tests of this file are traps that real condensers have fallen into.

// cutting returns the configurations of all rules that condense, with a window of
// high tokens.
func cutting(high int) []condense.Config {
	var configs []condense.Config
	for _, rule := range condense.Rules()[1:] {
		c := condense.DefaultFor(rule, high)
		configs = append(configs, c)
		if rule == condense.ToolFIFO {
			c.Set("mode", condense.Result)
			configs = append(configs, c)
		}
	}
	return configs
}

// mustVerify plays a conversation and checks what holds of all.
func mustVerify(t *testing.T, text string, c condense.Config) played {
	t.Helper()
	p := play(t, talk(text), newRenderer(t, triples{}), c)
	if err := p.verify(c); err != nil {
		t.Errorf("%s %s: %v", c.Rule, option(c, "mode"), err)
	}
	return p
}

// repeat is a conversation of n equal tool rounds.
func repeat(head, round string, n int) string {
	return head + strings.Repeat(" "+round, n) + " a:30"
}

// 1. Keeping the last K results without water marks changes the prompt on every
// turn: every turn is a segment. With them, segments stay near tokens/(high-low).
func TestTrapEveryTurnItsOwnSegment(t *testing.T) {
	t.Parallel()
	const rounds = 200
	for _, c := range cutting(2000) {
		p := mustVerify(t, repeat("s:90 u:90", "a:60/1 t:300", rounds), c)
		total := 0
		for _, e := range p.Entries {
			total += len(e.IDs)
		}
		want := total / (c.High - c.Low)
		switch c.Rule {
		case condense.ToolClear: // calls stay for ever: the window ends full
			continue
		case condense.Summary:
			want *= 2
		}
		if p.err != nil || len(p.Segments) > want+want/2 {
			t.Errorf("%s %s: %d segments for %d tokens and high-low %d, want about %d; %v", c.Rule, option(c, "mode"), len(p.Segments), total, c.High-c.Low, want, p.err)
		}
		if len(p.Segments) < 4 {
			t.Errorf("%s: only %d segments: the test shows nothing", c.Rule, len(p.Segments))
		}
	}
}

// 2. System and task alone exceed the budget: the trajectory ends and says why.
func TestTrapNothingDroppable(t *testing.T) {
	t.Parallel()
	for _, c := range cutting(100) {
		p := mustVerify(t, "s:300 u:300 a:30 u:30 a:30", c)
		var overflow *condense.OverflowError
		if p.Status != trajectory.ContextOverflow || !errors.As(p.err, &overflow) {
			t.Errorf("%s: status %s, %v", c.Rule, p.Status, p.err)
			continue
		}
		want := fmt.Sprintf("trajectory t, message 2: context overflow: 2 messages of %d tokens that %s must keep and %d reserved tokens exceed high 100",
			overflow.Window, c.Rule, overflow.Reserve)
		if p.err.Error() != want || overflow.Window < 200 {
			t.Errorf("%s: %q, want %q", c.Rule, p.err, want)
		}
	}
	p := mustVerify(t, "s:300 u:300 a:30 u:30 a:30", condense.Config{Rule: condense.None, High: 100})
	if p.Status != trajectory.Truncated {
		t.Errorf("none: status %s, want truncated", p.Status)
	}
}

// 3. One tool result is larger than the window: it is cut, or the trajectory ends.
func TestTrapResultLargerThanWindow(t *testing.T) {
	t.Parallel()
	for _, c := range cutting(400) {
		c.KeepLast = 1
		text := "s:30 u:30 a:30/1 t:3000 a:30/1 t:30 a:30"
		if p := mustVerify(t, text, c); p.Status != trajectory.ContextOverflow {
			t.Errorf("%s: without cut_oversize: status %s", c.Rule, p.Status)
		}
		c.CutOversize = true
		p := mustVerify(t, text, c)
		if p.err != nil {
			t.Errorf("%s: with cut_oversize: %v", c.Rule, p.err)
			continue
		}
		var cuts []string
		for _, s := range p.Segments {
			for _, r := range s.Record.Replace {
				if r.Kind == condense.Cut {
					cuts = append(cuts, triples{}.Decode(r.Apply(nil, p.IDs(r.Indices[0]))))
				}
			}
		}
		if len(cuts) == 0 || !strings.HasPrefix(cuts[0], "<|im_start|>user\n<tool_response>\nddd") ||
			!strings.HasSuffix(cuts[0], "ddd\n</tool_response><|im_end|>\n") || !strings.Contains(cuts[0], "tokens cut]") {
			t.Errorf("%s %s: cuts %q, want head, marker and tail of the result between its delimiters", c.Rule, option(c, "mode"), cuts)
		}
	}
}

// 4. Parallel calls are atomic: their results stay or go together.
func TestTrapParallelCallsSplit(t *testing.T) {
	t.Parallel()
	for high := 150; high < 900; high += 7 {
		for _, c := range cutting(high) {
			mustVerify(t, "s:30 u:30 a:30/3 t:90 t:300 t:150 a:60/2 t:300 t:30 a:30/3 t:60 t:60 t:60 a:9", c)
		}
	}
	// A blanked batch is blanked as a whole.
	c := condense.DefaultFor(condense.ToolClear, 540)
	c.Low = 530
	c.Set("placeholder", "[-]")
	p := mustVerify(t, "s:30 u:30 a:30/3 t:300 t:300 t:300 a:30/1 t:300 a:9", c)
	if r := p.Segments[len(p.Segments)-1].Record; len(r.Replace) != 1 || !slices.Equal(r.Replace[0].Indices, []int{3, 4, 5}) {
		t.Errorf("blanked %+v, want messages 3, 4 and 5", r.Replace)
	}
}

// 5. Ids of calls repeat: talk gives all of them the same. Which result belongs to
// which call goes by position, and so does the name of a result's tool.
func TestTrapRepeatedCallIDs(t *testing.T) {
	t.Parallel()
	c := condense.DefaultFor(condense.ToolFIFO, 400)
	c.KeepLast, c.ExcludeTools = 0, []string{"tool1"}
	p := mustVerify(t, "s:30 u:30 a:30/1 t:300 a:30/2 t:90 t:90 a:30/1 t:300 a:30/1 t:300 a:30/1 t:300 a:9", c)
	last := p.Segments[len(p.Segments)-1].Record
	if keep := kept(last); !keep[4] || !keep[5] || !keep[6] || keep[2] || keep[3] {
		t.Errorf("kept %v, want the round of tool1, 4 to 6, and not the first, 2 and 3", last.Keep)
	}
	for i, want := range map[int]string{3: "tool0", 5: "tool0", 6: "tool1"} {
		if got := p.Entries[i].Tools; len(got) != 1 || got[0] != want {
			t.Errorf("result %d is of %v, want %s", i, got, want)
		}
	}
}

// 6. A call that waits for its results is never dropped.
func TestTrapPendingCallDropped(t *testing.T) {
	t.Parallel()
	for _, c := range cutting(300) {
		c.KeepLast = 0
		condenser, err := condense.New(c)
		if err != nil {
			t.Fatal(err)
		}
		w := condense.Window{Messages: 6, Tokens: 360, Items: []condense.Item{
			{Index: 0, Role: chat.User, Task: true, Round: -1, Tokens: 10},
			{Index: 1, Role: chat.Assistant, Round: 1, Calls: 1, Tokens: 10},
			{Index: 2, Role: chat.ToolRole, Round: 1, Tokens: 320},
			{Index: 3, Role: chat.Assistant, Round: 3, Calls: 2, Tokens: 10},
			{Index: 4, Role: chat.ToolRole, Round: 3, Tokens: 5},
			{Index: 5, Role: chat.User, Round: -1, Tokens: 5},
		}, Text: blanks{}}
		d, err := condenser.Condense(w)
		if keep := kept(d.Record); err != nil || !d.Changed || !keep[3] || !keep[4] {
			t.Errorf("%s %s: kept %v, %v; want the waiting call 3 and what it has got", c.Rule, option(c, "mode"), d.Record.Keep, err)
		}
	}
}

// blanks renders every placeholder as one token.
type blanks struct{ condense.Text }

func (blanks) Message(chat.Message) ([]int32, error) { return []int32{0}, nil }

func (blanks) Blank(int, string) ([]int32, error) { return []int32{7}, nil }

// 7. The system prompt and the task stay, once, also if the history is shorter
// than what the knobs keep, and if several messages make up the task.
func TestTrapTaskDropped(t *testing.T) {
	t.Parallel()
	for _, c := range cutting(400) {
		c.KeepFirst, c.KeepLast, c.CutOversize = 5, 5, true
		mustVerify(t, "s:30 u:30 a:30/1 t:3000 a:30", c)
		c.KeepFirst, c.KeepLast = 0, 0
		p := mustVerify(t, "u:30 s:30 u:60 a:30/1 t:300 s:30 a:30/1 t:900 a:30/1 t:900 a:9", c)
		if p.err != nil {
			t.Errorf("%s: %v", c.Rule, p.err)
		}
		for _, s := range p.Segments[1:] {
			if keep := kept(s.Record); !keep[0] || !keep[1] || !keep[2] || !keep[5] {
				t.Errorf("%s: kept %v, want 0, 1, 2 and 5 among them", c.Rule, s.Record.Keep)
			}
		}
	}
}

// 8. Under budget means untouched: see TestUnderBudget.

// 9. A notice that is inserted as a user message makes templates render earlier
// messages otherwise. Here the ids of a message that stays are those it had.
func TestTrapEarlierMessagesRenderedAgain(t *testing.T) {
	t.Parallel()
	c := condense.DefaultFor(condense.Summary, 500)
	c.KeepLast = 1
	c.Set("summary_tokens", 20)
	messages := talk("s:30 u:30 a:30/1 t:300 a:30/1 t:300 a:30/1 t:300 a:30/1 t:300 a:9")
	for i := range messages {
		if messages[i].Role == chat.Assistant {
			messages[i].Reasoning = strings.Repeat("r", 40)
		}
	}
	p := play(t, messages, newRenderer(t, triples{}), c)
	if err := p.verify(c); err != nil {
		t.Error(err)
	}
	last := p.Segments[len(p.Segments)-1]
	text := triples{}.Decode(mustPrompt(t, p, len(p.Segments)-1))
	if n := strings.Count(text, strings.Repeat("r", 40)); n != 1 || !strings.Contains(text, option(c, "summary_note").(string)) {
		t.Errorf("%s: reasoning of the round that stays appears %d times beside the summary:\n%s", last.Record.JSON(), n, text)
	}
}

func mustPrompt(t *testing.T, p played, k int) []int32 {
	t.Helper()
	prompt, err := p.Prompt(k)
	if err != nil {
		t.Fatal(err)
	}
	return prompt
}

// 10. The trigger counts what the server will count: the generation prefix, the
// tool schemas, and the longest reply.
func TestTrapReserveNotCounted(t *testing.T) {
	t.Parallel()
	renderer := newRenderer(t, token.Bytes{})
	for _, c := range cutting(1000) {
		for _, tools := range [][]chat.Tool{nil, {{Name: "f", Parameters: []byte("{}")}}} {
			c := c
			if tools != nil {
				c.High += 800 // the schemas and how to call them
			}
			condenser, err := condense.New(c)
			if err != nil {
				t.Fatal(err)
			}
			r := trajectory.NewRecorder("t", "g", renderer, condenser)
			if err := r.Start(talk("s:100 u:100 a:10/1 t:400"), tools); err != nil {
				t.Fatal(err)
			}
			used := 0
			for i := range r.Trajectory().Entries {
				used += len(r.Trajectory().IDs(i))
			}
			reply := c.High - used - len(renderer.GenerationPrefix())
			if _, err := r.Prompt(reply); err != nil || r.Trajectory().Segments[0].Record.Rule != condense.None {
				t.Errorf("%s: a reply that just fits: %v, %s", c.Rule, err, r.Trajectory().Segments[0].Record.JSON())
			}
			if _, err := r.Prompt(reply + 1); err == nil && r.Trajectory().Segments[0].Record.Rule == condense.None {
				t.Errorf("%s: one token more does not condense", c.Rule)
			}
		}
	}
}

// 11. The request for a summary can itself exceed the window: it has a budget of
// its own, and the oldest goes first.
func TestTrapSummaryRequestTooLong(t *testing.T) {
	t.Parallel()
	c := condense.DefaultFor(condense.Summary, 600)
	c.Set("summary_tokens", 60)
	c.Set("summary_request", "sum up")
	p := mustVerify(t, "s:30 u:30 a:30/1 t:900 a:30/1 t:1200 a:30/1 t:90 a:9", c)
	if p.err != nil {
		t.Fatal(p.err)
	}
	asked := p.Segments[1].Record
	if keep := kept(asked); asked.Kind != condense.KindSummary || keep[2] || keep[3] || !keep[4] || !keep[5] || !keep[6] {
		t.Errorf("asked over %s, want the first round dropped, the second and the request, 6, kept", asked.JSON())
	}
	if n := len(p.prompts[1]) + option(c, "summary_tokens").(int); n > c.High {
		t.Errorf("the request takes %d tokens with its reply, high is %d", n, c.High)
	}
	if restart := p.Segments[2].Record; restart.Kind != "" || !slices.Equal(restart.Keep, []condense.Range{{Start: 0, End: 2}, {Start: 8, End: 9}}) {
		t.Errorf("restarted from %s, want 0, 1 and the summary, 8", restart.JSON())
	}
}

// 12. A later user message is no tool result: it is not dropped with a round, not
// blanked, and not cut.
func TestTrapUserMessageTakenForResult(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{condense.ToolFIFO, condense.ToolClear} {
		c := condense.DefaultFor(rule, 600)
		c.KeepLast, c.CutOversize = 0, true
		c.Set("placeholder", "[-]")
		p := mustVerify(t, "s:30 u:30 a:30/2 t:300 u:300 t:300 a:30 u:300 a:30/1 t:900 u:30 a:9", c)
		if p.err != nil || len(p.Segments) < 2 {
			t.Errorf("%s: %d segments, %v", rule, len(p.Segments), p.err)
		}
		for _, s := range p.Segments {
			keep, replaced := kept(s.Record), s.Record.Replacements()
			for i := range s.Record.Messages {
				if p.Entries[i].Message.Role == chat.User && (!keep[i] || replaced[i] != nil) {
					t.Errorf("%s: user message %d in %s", rule, i, s.Record.JSON())
				}
			}
		}
	}
	// The message that a reply is due to stays under every rule.
	for _, c := range cutting(260) {
		c.KeepLast = 0
		c.Set("summary_tokens", 8)
		p := mustVerify(t, "s:30 u:30 a:60/1 t:330 a:90 u:150 a:9", c)
		last := p.Segments[len(p.Segments)-1].Record
		if keep := kept(last); p.err != nil || len(p.Segments) < 2 || !keep[5] {
			t.Errorf("%s: %v; the last question was dropped: %s", c.Rule, p.err, last.JSON())
		}
	}
}

// 13. Content is empty or null, calls come without text and text without calls,
// there are several system messages, or none.
func TestTrapUnusualMessages(t *testing.T) {
	t.Parallel()
	for high := 60; high < 400; high += 20 {
		for _, c := range cutting(high) {
			for _, text := range []string{"s:0 u:0 a:0/1 t:0 a:0", "a:30 u:30 a:0/1 t:300 a:0 o:90 a:0", "s:30 s:0 s:30 a:30/1 t:300 s:30 a:30", "a:30/1 t:300 a:9", "u:30", "s:30 a:0"} {
				mustVerify(t, text, c)
			}
		}
	}
}

// 14. A condensed window that fits is not condensed again: play asks for every
// prompt twice. Condensing what a rule left of a window changes nothing either.
func TestTrapCondensedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range cutting(500) {
		mustVerify(t, repeat("s:60 u:60", "a:30/2 t:200 t:100", 20), c)
	}
}

// 15. Knobs out of range are refused at the start, by name. Knobs larger than the
// history keep all of it.
func TestTrapKnobsOutOfRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  func(*condense.Config)
		want string
	}{
		{func(c *condense.Config) { c.Rule = "lru" }, "rule"},
		{func(c *condense.Config) { c.High = 0 }, "high"},
		{func(c *condense.Config) { c.Low = 0 }, "low"},
		{func(c *condense.Config) { c.Low = c.High + 1 }, "low"},
		{func(c *condense.Config) { c.KeepLast = -1 }, "keep_last"},
		{func(c *condense.Config) { c.KeepFirst = -1 }, "keep_first"},
		{func(c *condense.Config) { c.ClearAtLeast = -1 }, "clear_at_least"},
		{func(c *condense.Config) { c.MaxSegments = -1 }, "max_segments"},
		{func(c *condense.Config) { c.Set("mode", "triple") }, "mode"},
		{func(c *condense.Config) { c.Rule = condense.Summary; c.Set("summary_tokens", -1) }, "summary_tokens"},
		{func(c *condense.Config) { c.Rule = condense.Summary; c.Set("summary_request", "") }, "summary_request"},
	} {
		config := condense.DefaultFor(condense.ToolFIFO, 1000)
		c.set(&config)
		if _, err := condense.New(config); err == nil || !strings.HasPrefix(err.Error(), "condense: "+c.want+": ") {
			t.Errorf("error %v, want one that names %s", err, c.want)
		}
	}
	c := condense.DefaultFor(condense.ToolFIFO, 400)
	c.KeepLast = 100
	if p := mustVerify(t, "s:30 u:30 a:30/1 t:600 a:30/1 t:600 a:9", c); p.Status != trajectory.ContextOverflow {
		t.Errorf("keep_last 100 of 2 rounds: status %s, want context_overflow", p.Status)
	}
}

func TestMaxSegments(t *testing.T) {
	t.Parallel()
	for _, c := range cutting(500) {
		c.MaxSegments = 3
		p := mustVerify(t, repeat("s:60 u:60", "a:30/1 t:300", 30), c)
		var limit *condense.LimitError
		if c.Rule == condense.ToolClear {
			continue
		}
		if !errors.As(p.err, &limit) || p.Status != trajectory.Truncated || len(p.Segments) != 3 {
			t.Errorf("%s: %d segments, status %s, %v", c.Rule, len(p.Segments), p.Status, p.err)
		}
	}
}
