package advantage

import (
	"math"
	"testing"
)

// Three tokens, two cuts, no values: the last token's advantage is the reward, and what the
// others have came across.
func TestCrossed(t *testing.T) {
	t.Parallel()
	rows := func(mask string) []row {
		return []row{{id: "t", inv: 2, mask: mask}, {id: "t", inv: 1, mask: "0"}, {id: "t", inv: 0, mask: "101", rewards: []float32{0, 0, 1}}}
	}
	const d = .9 * .8 // γλ
	for _, test := range []struct {
		name, mask string
		cfg        Config
		want       float64
	}{
		{"gae", "011", Config{Estimator: "gae", Gamma: .9, Lambda: .8}, (d*d + d*d*d) / (1 + d + d*d + d*d*d)},
		{"a turn is one step", "011", Config{Estimator: "turn-gae", Gamma: .9, Lambda: .8}, 2 * d * d / (1 + d + 2*d*d)},
		{"whitening does not matter", "011", Config{Estimator: "gae", Gamma: .9, Lambda: .8, Whiten: true}, (d*d + d*d*d) / (1 + d + d*d + d*d*d)},
		{"λ of each trajectory", "011", Config{Estimator: "gae", Gamma: .9, LambdaAlpha: 1.25}, (d*d + d*d*d) / (1 + d + d*d + d*d*d)}, // 1 − 1/(1.25·4) = .8
		{"λ = 0 carries nothing", "011", Config{Estimator: "gae", Gamma: .9}, 0},
		{"nothing to carry to", "000", Config{Estimator: "gae", Gamma: .9, Lambda: .8}, 0},
		{"an estimator without carry", "011", Config{Estimator: "outcome-copy", Gamma: .9, Lambda: .8}, 0},
	} {
		b := build(rows(test.mask)...)
		mustCompute(t, b, test.cfg)
		before := append([]float32(nil), b.Advantages...)
		got, err := Crossed(b, test.cfg)
		if err != nil || math.Abs(got-test.want) > 1e-6 {
			t.Errorf("%s: %v, %v: want %v", test.name, got, err, test.want)
		}
		wantColumn(t, test.name+": the batch stays as it is", b.Advantages, float64(before[0]), float64(before[1]), float64(before[2]), float64(before[3]), float64(before[4]), float64(before[5]), float64(before[6]))
	}
}

// A critic that knows what comes needs no carry: all advantages are 0.
func TestCrossedIsNothingBesideAPerfectCritic(t *testing.T) {
	t.Parallel()
	b := build(row{id: "t", inv: 1, mask: "11", values: []float32{1, 1}}, row{id: "t", inv: 0, mask: "1", values: []float32{1}, rewards: []float32{1}})
	if got, err := Crossed(b, Config{Estimator: "gae", Gamma: 1, Lambda: 1}); err != nil || got != 0 {
		t.Errorf("%v, %v: want 0", got, err)
	}
}
