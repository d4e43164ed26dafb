// Package suites finds the task suites by name.
package suites

import (
	"fmt"
	"strings"

	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/env/search"
)

// all returns every suite, the default one first.
func all() []env.Suite {
	return []env.Suite{search.NewSuite(), keytodoor.NewSuite()}
}

// Names lists the names of the suites, the default one first.
func Names() []string {
	var names []string
	for _, suite := range all() {
		names = append(names, suite.Name())
	}
	return names
}

// ByName returns the suite of a name; the error lists the names there are.
func ByName(name string) (env.Suite, error) {
	for _, suite := range all() {
		if suite.Name() == name {
			return suite, nil
		}
	}
	return nil, fmt.Errorf("environment %q: want one of %s", name, strings.Join(Names(), ", "))
}
