package condense

import (
	"fmt"
	"slices"
	"strings"
)

// The rules.
const (
	None       = "none"        // an overflow ends the episode as truncated
	ToolFIFO   = "tool-fifo"   // drop the oldest tool rounds
	ToolClear  = "tool-clear"  // blank the oldest tool results
	Sliding    = "window"      // keep the head and the newest messages
	DiscardAll = "discard-all" // restart from system messages and task
	Summary    = "summary"     // restart from system messages, task and a summary
)

// Rules lists the names of all rules.
func Rules() []string { return []string{None, ToolFIFO, ToolClear, Sliding, DiscardAll, Summary} }

// The skeleton modes of ToolFIFO.
const (
	// Pair keeps a call with its results.
	Pair = "pair"
	// Result keeps only the results of the rounds that stay, as in
	// "system | user | t3 | a4 t4 ...". Many chat templates reject it.
	Result = "result"
)

// Config chooses a rule and its knobs. Counts of rounds are tool rounds: an
// assistant message with the results that answer it.
type Config struct {
	Rule string `json:"rule" yaml:"rule"`
	// High and Low are the water marks in tokens, both counting the reserve.
	High int `json:"high" yaml:"high"`
	Low  int `json:"low" yaml:"low"`
	// KeepLast newest and KeepFirst oldest rounds always stay.
	KeepLast  int `json:"keep_last" yaml:"keep_last"`
	KeepFirst int `json:"keep_first" yaml:"keep_first"`
	// ExcludeTools names tools whose rounds always stay.
	ExcludeTools []string `json:"exclude_tools" yaml:"exclude_tools"`
	// ClearAtLeast is how many tokens one condensing frees, below Low if need be,
	// as far as there is as much to free.
	ClearAtLeast int `json:"clear_at_least" yaml:"clear_at_least"`
	// CutOversize cuts the middle out of the largest tool results if they still do
	// not fit when nothing else may go; otherwise that ends the episode.
	CutOversize bool `json:"cut_oversize" yaml:"cut_oversize"`
	// MaxSegments bounds the segments of an episode; 0 is no bound.
	MaxSegments int `json:"max_segments" yaml:"max_segments"`

	// Mode is Pair or Result; of ToolFIFO only.
	Mode string `json:"mode" yaml:"mode"`

	// Placeholder stands in place of a result that ToolClear blanks.
	// ClearToolInputs blanks the arguments of its call as well.
	Placeholder     string `json:"placeholder" yaml:"placeholder"`
	ClearToolInputs bool   `json:"clear_tool_inputs" yaml:"clear_tool_inputs"`

	// SummaryRequest is the user message that asks for a summary, SummaryNote what
	// precedes the summary in the user message that holds it afterwards.
	SummaryRequest string `json:"summary_request" yaml:"summary_request"`
	SummaryNote    string `json:"summary_note" yaml:"summary_note"`
	// SummaryTokens is the longest summary. TrainSummary makes its tokens trainable.
	SummaryTokens int  `json:"summary_tokens" yaml:"summary_tokens"`
	TrainSummary  bool `json:"train_summary" yaml:"train_summary"`
}

// Default returns the configuration of rule tool-fifo for a window of high tokens.
func Default(high int) Config { return DefaultFor(ToolFIFO, high) }

// DefaultFor returns the configuration of a rule for a window of high tokens: the
// last tool round stays, but for rules that start afresh.
func DefaultFor(rule string, high int) Config {
	c := Config{Rule: rule, High: high, Low: high / 2, KeepLast: 1, Mode: Pair,
		Placeholder:    "[an earlier tool result was here]",
		SummaryRequest: "The context window is full. Write down everything from this conversation that is needed to go on: what is known, what was done, what remains.",
		SummaryNote:    "Summary of the conversation so far:\n",
		SummaryTokens:  max(1, high/8),
	}
	if rule == DiscardAll || rule == Summary {
		c.KeepLast = 0
	}
	return c
}

// Validate names the first field that is out of range.
func (c Config) Validate() error {
	switch {
	case !slices.Contains(Rules(), c.Rule):
		return fmt.Errorf("condense: rule: %q, want one of %s", c.Rule, strings.Join(Rules(), ", "))
	case c.High < 1:
		return fmt.Errorf("condense: high: %d, want at least 1 token", c.High)
	case c.Rule == None:
		return nil
	case c.Low < 1 || c.Low > c.High:
		return fmt.Errorf("condense: low: %d, want 1 to high (%d)", c.Low, c.High)
	case c.KeepLast < 0:
		return fmt.Errorf("condense: keep_last: %d, want at least 0", c.KeepLast)
	case c.KeepFirst < 0:
		return fmt.Errorf("condense: keep_first: %d, want at least 0", c.KeepFirst)
	case c.ClearAtLeast < 0:
		return fmt.Errorf("condense: clear_at_least: %d, want at least 0 tokens", c.ClearAtLeast)
	case c.MaxSegments < 0:
		return fmt.Errorf("condense: max_segments: %d, want at least 0 (0: no bound)", c.MaxSegments)
	case c.Rule == ToolFIFO && c.Mode != Pair && c.Mode != Result:
		return fmt.Errorf("condense: mode: %q, want %s or %s", c.Mode, Pair, Result)
	case c.Rule == Summary && c.SummaryRequest == "":
		return fmt.Errorf("condense: summary_request: empty, want the message that asks for a summary")
	case c.Rule == Summary && (c.SummaryTokens < 1 || c.SummaryTokens > c.High):
		return fmt.Errorf("condense: summary_tokens: %d, want 1 to high (%d)", c.SummaryTokens, c.High)
	}
	return nil
}
