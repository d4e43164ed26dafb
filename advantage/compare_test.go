package advantage

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	rows := []row{{id: "t", inv: 1, mask: "11"}, {id: "t", inv: 0, mask: "01", rewards: []float32{0, 1}}, {id: "u", mask: "1"}}
	b := build(rows...)
	got, err := Compare(b, Config{Gamma: 1, Lambda: 1, CriticLambda: 1}, []string{"gae", "outcome-copy", "dr-grpo", "per-segment"})
	if err != nil {
		t.Fatal(err)
	}
	// gae: 1 1 1 and 0; outcome-copy the same; dr-grpo .5 .5 .5 and -.5; per-segment 0 0 1 and 0.
	for k, want := range []Comparison{
		{"gae", .75, math.Sqrt(3) / 4, 1, 0, 0},
		{"outcome-copy", .75, math.Sqrt(3) / 4, 1, 0, 0},
		{"dr-grpo", .25, math.Sqrt(3) / 4, 1, .25, 1},
		{"per-segment", .25, math.Sqrt(3) / 4, 1.0 / 3, .5, .5},
	} {
		for _, x := range [][2]float64{{got[k].Mean, want.Mean}, {got[k].Std, want.Std}, {got[k].Correlation, want.Correlation}, {got[k].OtherSign, want.OtherSign}, {got[k].Differs, want.Differs}} {
			if got[k].Estimator != want.Estimator || !near(x[0], x[1], 1e-6) {
				t.Errorf("%+v, want %+v", got[k], want)
			}
		}
	}
	if !slices.Equal(b.Rewards, build(rows...).Rewards) || b.Advantages != nil {
		t.Error("the batch has changed")
	}
	if _, err := Compare(b, Config{Gamma: 1}, []string{"gae", "luck"}); err == nil || !strings.Contains(err.Error(), "luck") {
		t.Errorf("an unknown estimator: error %v", err)
	}
	if _, err := Compare(build(row{id: "t", mask: "0"}), Config{Gamma: 1}, []string{"gae"}); err == nil {
		t.Error("no error where nothing is trained")
	}
}
