package suites

import (
	"strings"
	"testing"

	"github.com/infinirl/infinirl/env/envtest"
)

func TestEverySuiteKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		suite, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { envtest.Run(t, suite) })
	}
}

func TestUnknownNameListsTheNames(t *testing.T) {
	t.Parallel()
	_, err := ByName("chess")
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range append(Names(), "chess") {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("error %q does not name %s", err, name)
		}
	}
}
