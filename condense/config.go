package condense

import (
	"fmt"
	"slices"
	"strings"
)

// The rules.
const (
	None     = "none"      // an overflow ends the episode as truncated
	ToolFIFO = "tool-fifo" // drop the oldest tool rounds
)

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
	// MaxSegments bounds the segments of an episode; 0 is no bound.
	MaxSegments int `json:"max_segments" yaml:"max_segments"`
	// Mode is Pair or Result; of ToolFIFO only.
	Mode string `json:"mode" yaml:"mode"`
}

// Default returns the configuration of rule tool-fifo for a window of high tokens.
func Default(high int) Config {
	return Config{Rule: ToolFIFO, High: high, Low: high / 2, KeepLast: 1, Mode: Pair}
}

// Validate names the first field that is out of range.
func (c Config) Validate() error {
	rules := []string{None, ToolFIFO}
	switch {
	case !slices.Contains(rules, c.Rule):
		return fmt.Errorf("condense: rule: %q, want one of %s", c.Rule, strings.Join(rules, ", "))
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
	case c.Mode != Pair && c.Mode != Result:
		return fmt.Errorf("condense: mode: %q, want %s or %s", c.Mode, Pair, Result)
	}
	return nil
}

// New returns the condenser of a valid configuration.
func New(c Config) (Condenser, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch c.Rule {
	case None:
		return none{c}, nil
	default:
		return toolFIFO{c}, nil
	}
}

// none never drops anything.
type none struct{ Config }

func (n none) Condense(w Window) (Record, bool, error) {
	if w.Tokens+w.Reserve <= n.High {
		return Record{}, false, nil
	}
	return Record{}, false, &OverflowError{Rule: n.Rule, Window: w.Tokens, Reserve: w.Reserve, High: n.High, Messages: len(w.Items)}
}
