package ablation

import (
	"slices"
	"strings"
	"testing"
)

func TestMethodsChangeWhatTheySay(t *testing.T) {
	t.Parallel()
	for over, want := range map[string][]string{
		OverCredit:   {"cross-segment", "per-segment", "grpo", "full-context"},
		OverCondense: {"none", "tool-fifo", "tool-clear", "discard-all", "summary"},
	} {
		methods, err := Methods(over)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range methods {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("over %s: %v, want %v", over, names, want)
		}
	}
	if _, err := Methods("luck"); err == nil || !strings.Contains(err.Error(), "luck") {
		t.Errorf("over luck: error %v", err)
	}
}

// A run that stopped early keeps its last success in the mean.
func TestMeanCurve(t *testing.T) {
	t.Parallel()
	got := meanCurve([][]float64{{0, 0.5, 1}, {0.5}}, 3)
	if want := []float64{0.25, 0.5, 0.75}; !slices.Equal(got, want) {
		t.Errorf("mean curve %v, want %v", got, want)
	}
}
