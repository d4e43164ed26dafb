package ablation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/condense"
)

// Method is one way to train: a configuration with some keys overridden, as in
// "advantage.estimator=gae".
type Method struct {
	Name      string   `json:"name"`
	Overrides []string `json:"overrides"`
}

// The two questions that methods can be compared over.
const (
	OverCredit   = "credit"   // how credit is assigned
	OverCondense = "condense" // how the window is cut
)

// credit are the ways to assign credit, under the names that their users know, the first
// one that of this project.
func credit() []Method {
	const noCritic = "train.critic_warmup=0"
	return []Method{
		// GAE across the cuts.
		{"carry", []string{"advantage.estimator=gae", "advantage.lambda=0.95"}},
		{"carry-1", []string{"advantage.estimator=gae", "advantage.lambda=1"}},
		// The outcome on every row, GAE within it.
		{"verl-v1", []string{"advantage.estimator=outcome-copy", "advantage.lambda=0.95"}},
		{"compaction-rl", []string{"advantage.estimator=compaction-rl", "advantage.lambda=0.95"}},
		{"turn-gae", []string{"advantage.estimator=turn-gae", "advantage.lambda=0.95"}},
		{"grpo", []string{"advantage.estimator=grpo", noCritic}},
		{"rloo", []string{"advantage.estimator=rloo", noCritic}},
		{"reinforce++", []string{"advantage.estimator=reinforce++", noCritic}},
		// Every segment a trajectory of its own, as if it ended there: nobody's choice, and
		// the least that any other should beat.
		{"terminal", []string{"advantage.estimator=per-segment", "advantage.lambda=0.95"}},
		// A window that never fills: no cuts.
		{"full-context", []string{"advantage.estimator=gae", "advantage.lambda=0.95", "condense.rule=none", "condense.high=2048"}},
	}
}

// Methods returns what can be compared over a question.
func Methods(over string) ([]Method, error) {
	switch over {
	case OverCredit:
		return credit(), nil
	case OverCondense:
		var methods []Method
		for _, rule := range []string{condense.None, condense.ToolFIFO, condense.ToolClear, condense.DiscardAll, condense.Summary} {
			// The learner's own log-probs beside the sampler's show the drift.
			methods = append(methods, Method{rule, []string{"condense.rule=" + rule, "train.old_log_probs=learner"}})
		}
		return methods, nil
	}
	return nil, fmt.Errorf("--over %s: want %s or %s", over, OverCredit, OverCondense)
}

// Select returns the methods of the names, in their order; all if there is no name.
func Select(methods []Method, names []string) ([]Method, error) {
	if len(names) == 0 {
		return methods, nil
	}
	var selected []Method
	for k, name := range names {
		if slices.Contains(names[:k], name) {
			return nil, fmt.Errorf("--methods %s: it is there twice", name)
		}
		i := slices.IndexFunc(methods, func(m Method) bool { return m.Name == name })
		if i < 0 {
			var known []string
			for _, m := range methods {
				known = append(known, m.Name)
			}
			return nil, fmt.Errorf("--methods %s: want some of %s", name, strings.Join(known, ", "))
		}
		selected = append(selected, methods[i])
	}
	return selected, nil
}

// Tune puts what was found best for each method on an environment before its own
// overrides. It belongs together: where somebody has chosen one of its keys, none is set.
func Tune(methods []Method, environment string, chosen func(key string) bool) []Method {
	out := slices.Clone(methods)
	for i, m := range out {
		best := tuned[environment][m.Name]
		if !slices.ContainsFunc(best, func(assignment string) bool {
			key, _, _ := strings.Cut(assignment, "=")
			return chosen(key)
		}) {
			out[i].Overrides = slices.Concat(best, m.Overrides)
		}
	}
	return out
}

// shared are the keys that a comparison sets for all of its runs.
var shared = []string{"env", "seed", "threads"}

// Expand makes one method of every method and every alternative of a grid's dimension,
// which stand between bars, each a list of assignments:
//
//	train.actor_lr=0.001 | train.actor_lr=0.003
//	rollout.groups=8 rollout.group_size=4 | rollout.groups=2 rollout.group_size=16
func Expand(methods []Method, dimension string) ([]Method, error) {
	var out []Method
	for _, m := range methods {
		for alternative := range strings.SplitSeq(dimension, "|") {
			assignments := strings.Fields(alternative)
			if len(assignments) == 0 {
				return nil, fmt.Errorf("--grid %q: an alternative without an assignment: want key=value, alternatives between bars", dimension)
			}
			name := m.Name
			for _, a := range assignments {
				key, value, ok := strings.Cut(a, "=")
				if !ok || strings.Contains(a, "/") {
					return nil, fmt.Errorf("--grid %q: %q: want key=value, without a slash", dimension, a)
				}
				if slices.Contains(shared, key) {
					return nil, fmt.Errorf("--grid %q: %s: all methods have the same: want it outside the grid", dimension, key)
				}
				name += "," + key[strings.LastIndex(key, ".")+1:] + "=" + value
			}
			if slices.ContainsFunc(out, func(m Method) bool { return m.Name == name }) {
				return nil, fmt.Errorf("--grid %q: two alternatives have the name %s: want different keys or values", dimension, name)
			}
			out = append(out, Method{name, slices.Concat(m.Overrides, assignments)})
		}
	}
	return out, nil
}
