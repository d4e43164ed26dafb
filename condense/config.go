package condense

import (
	"fmt"
	"maps"
)

// The rules of this package.
const (
	None       = "none"        // an overflow ends the trajectory as truncated
	ToolFIFO   = "tool-fifo"   // drop the oldest tool rounds
	ToolClear  = "tool-clear"  // blank the oldest tool results
	Sliding    = "window"      // keep the head and the newest messages
	DiscardAll = "discard-all" // restart from system messages and task
	Summary    = "summary"     // restart from system messages, task and a summary
)

// Config chooses a rule and the knobs that all rules share. Counts of rounds are tool
// rounds: an assistant message with the results that answer it.
type Config struct {
	Rule string
	// High and Low are the water marks in tokens, both counting the reserve.
	High, Low int
	// KeepLast newest and KeepFirst oldest rounds always stay.
	KeepLast, KeepFirst int
	// ExcludeTools names tools whose rounds always stay.
	ExcludeTools []string
	// ClearAtLeast is how many tokens one condensing frees, below Low if need be,
	// as far as there is as much to free.
	ClearAtLeast int
	// CutOversize cuts the middle out of the largest tool results if they still do
	// not fit when nothing else may go; otherwise that ends the trajectory.
	CutOversize bool
	// MaxSegments bounds the segments of a trajectory; 0 is no bound.
	MaxSegments int
	// Options are the rule's own; see Rule.Options for the names and defaults.
	Options Options
}

// DefaultFor returns the configuration of a rule for a window of high tokens: it comes
// down to half of them, and the last tool round stays, but for rules that start afresh.
func DefaultFor(rule string, high int) Config {
	c := Config{Rule: rule, High: high, Low: high / 2, KeepLast: 1}
	if r, err := Lookup(rule); err == nil && r.Afresh {
		c.KeepLast = 0
	}
	return c
}

// Set sets one of the rule's own options.
func (c *Config) Set(option string, value any) {
	c.Options = maps.Clone(c.Options)
	if c.Options == nil {
		c.Options = Options{}
	}
	c.Options[option] = value
}

// Validate names the first field that cannot work.
func (c Config) Validate() error {
	_, err := New(c)
	return err
}

// validate checks the fields that all rules share.
func (c Config) validate() error {
	switch {
	case c.High < 1:
		return fmt.Errorf("condense: high: %d, want at least 1 token", c.High)
	case c.Rule == None:
		return nil
	case c.Low < 1 || c.Low > c.High:
		return fmt.Errorf("condense: low: %d, want 1 to high (%d)", c.Low, c.High)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"keep_last", c.KeepLast}, {"keep_first", c.KeepFirst}, {"clear_at_least", c.ClearAtLeast}, {"max_segments", c.MaxSegments}} {
		if f.value < 0 {
			return fmt.Errorf("condense: %s: %d, want at least 0", f.name, f.value)
		}
	}
	return nil
}
