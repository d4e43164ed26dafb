package advantage

import (
	"fmt"
	"sort"
	"strings"
)

// Estimator is a named way to assign credit.
//
// To add one, write a file with its function and a package variable
//
//	var _ = Register(Estimator{Name: "mine", Estimate: mine})
//
// and it is known to Compute, to configurations and to the command line.
type Estimator struct {
	Name string
	// Summary is one line for help texts.
	Summary string
	// Values tells that the estimator reads the values column; absent values are 0.
	Values bool
	// Batch tells that trajectories depend on one another (groups): Estimate
	// gets all of them at once. Otherwise it gets one at a time.
	Batch bool
	// Whiten tells that the advantages are always whitened over the batch.
	Whiten bool
	// Estimate writes Advantages and Returns of every segment. Every trajectory
	// has at least one trainable token.
	Estimate func(trajectories []Trajectory[float32], cfg Config) error
}

var estimators = map[string]Estimator{}

// Register adds an estimator. It is meant for package initialisation and
// panics on a name that is taken.
func Register(e Estimator) struct{} {
	if _, taken := estimators[e.Name]; taken || e.Name == "" {
		panic("advantage: estimator name " + e.Name + " is taken or empty")
	}
	estimators[e.Name] = e
	return struct{}{}
}

// Lookup returns the estimator of that name, or an error that lists all names.
func Lookup(name string) (Estimator, error) {
	e, ok := estimators[name]
	if name == "broadcast" {
		return Estimator{}, fmt.Errorf("estimator: broadcast is grpo: want that name")
	}
	if !ok {
		return Estimator{}, fmt.Errorf("estimator: %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	return e, nil
}

// Names lists the registered estimators in alphabetical order.
func Names() []string {
	names := make([]string, 0, len(estimators))
	for name := range estimators {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
