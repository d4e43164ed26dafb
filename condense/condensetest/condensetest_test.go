package condensetest_test

import (
	"strings"
	"testing"

	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/condense/condensetest"
)

const high = 400

func subject(t testing.TB, rule string, change func(*condense.Config)) condensetest.Subject {
	t.Helper()
	c := condense.DefaultFor(rule, high)
	if change != nil {
		change(&c)
	}
	condenser, err := condense.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return condensetest.Subject{Condenser: condenser, High: high}
}

func TestEveryRule(t *testing.T) {
	t.Parallel()
	for _, rule := range condense.Rules() {
		for name, change := range map[string]func(*condense.Config){
			"default": nil,
			"knobs": func(c *condense.Config) {
				c.Low, c.KeepLast, c.KeepFirst, c.ExcludeTools, c.ClearAtLeast = 120, 2, 1, []string{"b"}, 90
				c.Set("clear_tool_inputs", true)
			},
			"result": func(c *condense.Config) { c.Set("mode", condense.Result) },
			"tight":  func(c *condense.Config) { c.KeepLast, c.Low, c.MaxSegments = 0, 40, 3 },
		} {
			t.Run(rule+" "+name, func(t *testing.T) {
				t.Parallel()
				condensetest.Run(t, subject(t, rule, change))
			})
		}
	}
}

// Each mutant breaks one promise, and the suite says which.
func TestMutantsFail(t *testing.T) {
	t.Parallel()
	for _, mutant := range []struct {
		name, want string
		condense   func(condense.Condenser, condense.Window) (condense.Decision, error)
	}{
		{"not pure", "pure: ", counting()},
		{"the window changed", "has changed the window", func(c condense.Condenser, w condense.Window) (condense.Decision, error) {
			d, err := c.Condense(w)
			w.Items[0].Tokens++
			return d, err
		}},
		{"more kept than fits", "still exceed", func(c condense.Condenser, w condense.Window) (condense.Decision, error) {
			d, err := c.Condense(w)
			if d.Changed {
				d.Record.TokensAfter += high
			}
			return d, err
		}},
		{"eager", "a window that fits gets", func(c condense.Condenser, w condense.Window) (condense.Decision, error) {
			w.Reserve += 10
			return c.Condense(w)
		}},
		{"the task dropped", "the task, was dropped", func(c condense.Condenser, w condense.Window) (condense.Decision, error) {
			d, err := c.Condense(w)
			if d.Changed && len(d.Record.Keep) > 1 {
				d.Record.Keep = d.Record.Keep[1:]
			}
			return d, err
		}},
		{"replacements forgotten", "the record shows it whole", func(c condense.Condenser, w condense.Window) (condense.Decision, error) {
			d, err := c.Condense(w)
			d.Record.Replace = nil
			return d, err
		}},
	} {
		s := subject(t, condense.ToolFIFO, nil)
		err := condensetest.Check(condensetest.Subject{Condenser: condenser{s.Condenser, mutant.condense}, High: high})
		if err == nil || !strings.Contains(err.Error(), mutant.want) {
			t.Errorf("%s: error %v, want %q", mutant.name, err, mutant.want)
		}
	}
}

type condenser struct {
	inside condense.Condenser
	decide func(condense.Condenser, condense.Window) (condense.Decision, error)
}

func (c condenser) Condense(w condense.Window) (condense.Decision, error) {
	return c.decide(c.inside, w)
}

// counting keeps all of every third window.
func counting() func(condense.Condenser, condense.Window) (condense.Decision, error) {
	n := 0
	return func(c condense.Condenser, w condense.Window) (condense.Decision, error) {
		if n++; n%3 == 0 {
			return condense.Decision{}, nil
		}
		return c.Condense(w)
	}
}
