package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// leastBudget is the least number of characters a result may be cut to: the marker has to
// find place.
const leastBudget = 64

// Budget is the most that a result may have. The zero value is no limit.
type Budget struct {
	// Most is a number of characters, or of what Count counts; 0 for no limit.
	Most int
	// Count returns the size of a text, in tokens say; nil counts characters. What it
	// fails at is a failure of the trajectory.
	Count func(text string) (int, error)
}

// Validate says what is wrong.
func (b Budget) Validate() error {
	if b.Most < 0 || b.Most > 0 && b.Most < leastBudget {
		return fmt.Errorf("tools.budget: %d: want 0 (no limit) or at least %d", b.Most, leastBudget)
	}
	return nil
}

// Cut returns a text that fits: all of it, or its start with a marker that says how much is
// left out. Only the marker is left where it alone fills the budget.
func (b Budget) Cut(text string) (string, error) {
	text = strings.ToValidUTF8(text, "�")
	if b.Most == 0 {
		return text, nil
	}
	count := b.Count
	if count == nil {
		count = func(s string) (int, error) { return utf8.RuneCountInString(s), nil }
	}
	starts := make([]int, 0, len(text)+1) // of every character, and the end
	for i := range text {
		starts = append(starts, i)
	}
	starts = append(starts, len(text))
	all := len(starts) - 1
	start := func(n int) string {
		if n == all {
			return text
		}
		return text[:starts[n]] + fmt.Sprintf("\n[%d of %d characters left out]", all-n, all)
	}
	fits := func(n int) (bool, error) {
		size, err := count(start(n))
		if err != nil {
			return false, fmt.Errorf("the size of a result: %w", err)
		}
		return size <= b.Most, nil
	}
	// The start is doubled until it is too long, so that a text of megabytes is not
	// counted whole, and then bisected. What fits is known by counting, never assumed.
	low, high := 0, min(all, b.Most)
	for {
		ok, err := fits(high)
		if err != nil {
			return "", err
		}
		if !ok {
			break
		}
		if low = high; low == all {
			return text, nil
		}
		high = min(all, 2*high)
	}
	for high-low > 1 {
		middle := (low + high) / 2
		ok, err := fits(middle)
		if err != nil {
			return "", err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	return start(low), nil
}
