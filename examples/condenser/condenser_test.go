package condenser

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/condense/condensetest"
	"github.com/infinirl/infinirl/config"
)

const high = 400

func newCondenser(t testing.TB, change func(*condense.Config)) condense.Condenser {
	t.Helper()
	c := condense.DefaultFor(Rule, high)
	if change != nil {
		change(&c)
	}
	condenser, err := condense.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return condenser
}

func TestCondenser(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*condense.Config){
		"default": nil,
		"latest":  func(c *condense.Config) { c.Set("latest", []string{"b", "never called"}) },
		"knobs": func(c *condense.Config) {
			c.Low, c.KeepLast, c.KeepFirst, c.ExcludeTools, c.ClearAtLeast, c.MaxSegments = 120, 2, 1, []string{"c"}, 90, 3
			c.Set("latest", []string{"a"})
		},
		"tight": func(c *condense.Config) { c.KeepLast, c.Low = 0, 40 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			condensetest.Run(t, condensetest.Subject{Condenser: newCondenser(t, change), High: high})
		})
	}
}

// Of the tools that are named, exactly the newest round is kept.
func TestTheNewestRoundStays(t *testing.T) {
	t.Parallel()
	w := condense.Window{Reserve: 10, Text: condensetest.Text{}}
	add := func(item condense.Item) {
		item.Index = len(w.Items)
		w.Items = append(w.Items, item)
		w.Messages++
		w.Tokens += item.Tokens
	}
	add(condense.Item{Role: chat.User, Task: true, Round: -1, Tokens: 20})
	for _, tool := range []string{"plan", "read", "plan", "read", "read", "read"} { // messages 1 2, 3 4, …
		round := w.Messages
		add(condense.Item{Role: chat.Assistant, Round: round, Calls: 1, Tools: []string{tool}, Tokens: 30})
		add(condense.Item{Role: chat.ToolRole, Round: round, Tools: []string{tool}, Tokens: 40})
	}
	for _, test := range []struct {
		latest []string
		want   []condense.Range
	}{
		{nil, []condense.Range{{Start: 0, End: 1}, {Start: 11, End: 13}}},
		{[]string{"plan"}, []condense.Range{{Start: 0, End: 1}, {Start: 5, End: 7}, {Start: 11, End: 13}}},
		{[]string{"read"}, []condense.Range{{Start: 0, End: 1}, {Start: 11, End: 13}}},
	} {
		d, err := newCondenser(t, func(c *condense.Config) { c.Low = 1; c.Set("latest", test.latest) }).Condense(w)
		if err != nil || !reflect.DeepEqual(d.Record.Keep, test.want) {
			t.Errorf("latest %v: kept %v, error %v, want %v", test.latest, d.Record.Keep, err, test.want)
		}
	}
	// No more goes than has to: down to low, from the oldest on.
	d, err := newCondenser(t, func(c *condense.Config) { c.Low = 310; c.Set("latest", []string{"plan"}) }).Condense(w)
	if want := []condense.Range{{Start: 0, End: 1}, {Start: 5, End: 13}}; err != nil || d.Record.TokensAfter != 300 || !reflect.DeepEqual(d.Record.Keep, want) {
		t.Errorf("kept %v, %d tokens, error %v, want %v, 300 tokens", d.Record.Keep, d.Record.TokensAfter, err, want)
	}
}

// It drops no less than the rule that is built in, where it has nothing to keep beyond it.
func TestWithoutOptionsItIsTheWindowRule(t *testing.T) {
	t.Parallel()
	mine := newCondenser(t, nil)
	other, err := condense.New(condense.DefaultFor(condense.Sliding, high))
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for seed := range uint64(300) {
		w := condensetest.Window(rand.New(rand.NewPCG(seed, 9)), high)
		a, errA := mine.Condense(w)
		b, errB := other.Condense(w)
		if (errA == nil) != (errB == nil) || !reflect.DeepEqual(a.Record.Keep, b.Record.Keep) {
			t.Fatalf("window %d: kept %v (%v), rule window %v (%v)", seed, a.Record.Keep, errA, b.Record.Keep, errB)
		}
		if a.Changed {
			changed++
		}
	}
	if changed < 50 {
		t.Errorf("only %d windows were condensed", changed)
	}
}

// What another rule has blanked stays blanked.
func TestReplacedResultsStaySo(t *testing.T) {
	t.Parallel()
	blank := &condense.Replacement{Kind: condense.Blank, Indices: []int{2}, Text: "gone", IDs: []int32{7, 7}}
	w := condense.Window{Reserve: 10, Messages: 6, Tokens: 20 + 30 + 2 + 60 + 30 + 300, Items: []condense.Item{
		{Index: 0, Role: chat.User, Task: true, Round: -1, Tokens: 20},
		{Index: 1, Role: chat.Assistant, Round: 1, Calls: 1, Tools: []string{"plan"}, Tokens: 30},
		{Index: 2, Role: chat.ToolRole, Round: 1, Tools: []string{"plan"}, Tokens: 2, Replaced: blank},
		{Index: 3, Role: chat.Assistant, Round: -1, Tokens: 60},
		{Index: 4, Role: chat.Assistant, Round: 4, Calls: 1, Tools: []string{"read"}, Tokens: 30},
		{Index: 5, Role: chat.ToolRole, Round: 4, Tools: []string{"read"}, Tokens: 300},
	}}
	d, err := newCondenser(t, func(c *condense.Config) { c.Set("latest", []string{"plan"}) }).Condense(w)
	if err != nil || len(d.Record.Replace) != 1 || !reflect.DeepEqual(d.Record.Replace[0], *blank) || d.Record.TokensAfter != 382 {
		t.Errorf("%s, error %v, want message 2 replaced and 382 tokens", d.Record.JSON(), err)
	}
	if err := d.Record.Validate(); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	c := condense.DefaultFor(Rule, high)
	c.CutOversize = true
	if _, err := condense.New(c); err == nil || !strings.Contains(err.Error(), "cut_oversize") {
		t.Errorf("cut_oversize: error %v", err)
	}
	w := condense.Window{Reserve: 10, Messages: 1, Tokens: 600, Items: []condense.Item{{Role: chat.User, Task: true, Round: -1, Tokens: 600}}}
	var overflow *condense.OverflowError
	if _, err := newCondenser(t, nil).Condense(w); !errors.As(err, &overflow) || overflow.Window != 600 {
		t.Errorf("a task that does not fit: error %v", err)
	}
}

// Configurations name rule and option as those that are built in.
func TestConfigurationsNameIt(t *testing.T) {
	t.Parallel()
	cfg, err := config.Shipped(config.DefaultEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"condense.rule=latest", "condense.latest=[search, open]"} {
		if err := cfg.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	condenser, err := condense.New(cfg.Condenser(cfg.Condense.Rule))
	if err != nil {
		t.Fatal(err)
	}
	if got := condenser.(latest).Latest; !reflect.DeepEqual(got, []string{"search", "open"}) {
		t.Errorf("latest: %v", got)
	}
	if err := cfg.Set("condense.latest=7"); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "latest: 7") {
		t.Errorf("latest: 7: error %v", err)
	}
}
