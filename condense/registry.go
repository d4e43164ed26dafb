package condense

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Rule is a named way to condense.
type Rule struct {
	Name string
	// Summary is one line for help texts.
	Summary string
	// Afresh tells that the rule restarts the window: by default no tool round stays.
	Afresh bool
	// Options are the names of the rule's own options with their defaults.
	Options map[string]any

	build func(Config) (Condenser, error)
}

// Afresh marks a rule that restarts the window, for Register.
func Afresh(r *Rule) { r.Afresh = true }

// registered are the rules.
var registered []Rule

// Register adds a rule. Its own options are the fields of O, named by their json tags;
// defaults holds what applies where a configuration says nothing. build gets a
// configuration whose shared fields are valid, and checks the options.
//
// It is meant for package initialisation and panics on a name that is taken:
//
//	var _ = condense.Register("mine", "what it does", Options{Keep: 3}, newMine)
func Register[O any](name, summary string, defaults O, build func(Config, O) (Condenser, error), marks ...func(*Rule)) struct{} {
	rule := Rule{Name: name, Summary: summary, Options: map[string]any{}}
	text, err := json.Marshal(defaults)
	if err == nil {
		err = json.Unmarshal(text, &rule.Options)
	}
	if _, taken := Lookup(name); taken == nil || name == "" || err != nil {
		panic(fmt.Sprintf("condense: rule %q is taken or empty, or its options are no JSON object: %v", name, err))
	}
	for _, mark := range marks {
		mark(&rule)
	}
	rule.build = func(c Config) (Condenser, error) {
		options := defaults
		if err := c.Options.decode(rule.Options, &options); err != nil {
			return nil, err
		}
		return build(c, options)
	}
	registered = append(registered, rule)
	return struct{}{}
}

// Lookup returns the rule of that name, or an error that lists all names.
func Lookup(name string) (Rule, error) {
	for _, rule := range registered {
		if rule.Name == name {
			return rule, nil
		}
	}
	return Rule{}, fmt.Errorf("condense: rule: %q, want one of %s", name, strings.Join(Rules(), ", "))
}

// Rules lists the names of all rules: those of this package, then others in the order
// in which they were registered.
func Rules() []string {
	names := make([]string, len(registered))
	for i, rule := range registered {
		names[i] = rule.Name
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// rank puts the rules of this package before others, in the order of the documents.
func rank(name string) int {
	own := []string{None, ToolFIFO, ToolClear, Sliding, DiscardAll, Summary}
	if i := slices.Index(own, name); i >= 0 {
		return i
	}
	return len(own)
}

// New returns the condenser of a configuration.
func New(c Config) (Condenser, error) {
	rule, err := Lookup(c.Rule)
	if err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		if !slices.ContainsFunc(registered, func(r Rule) bool { _, known := r.Options[name]; return known }) {
			return nil, fmt.Errorf("condense: %s: no rule has such an option", name)
		}
	}
	return rule.build(c)
}

// Options are the rules' own options by name. Those of other rules than the one that
// is chosen wait for it: one configuration serves several rules.
type Options map[string]any

// decode writes the options that known names into the struct that into points to.
func (o Options) decode(known map[string]any, into any) error {
	mine := make(map[string]any, len(known))
	for name, value := range o {
		if _, ok := known[name]; ok {
			mine[name] = value
		}
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return fmt.Errorf("condense: options: %w", err)
	}
	err = json.Unmarshal(text, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("condense: %s: %v, want %s", wrong.Field, mine[wrong.Field], plainType(wrong.Type.Kind().String()))
	}
	if err != nil {
		return fmt.Errorf("condense: options: %w", err)
	}
	return nil
}

// plainType names a type as users do.
func plainType(kind string) string {
	switch kind {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	}
	return "a " + kind
}
