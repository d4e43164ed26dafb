package advantage

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/trajectory"
)

// row is a segment for tests: a group "g" trajectory with no prompt.
type row struct {
	id              string
	inv             int
	mask            string // 0 and 1
	values, rewards []float32
}

func build(rows ...row) *batch.Batch {
	b := &batch.Batch{CuSeqLens: []int64{0}, Values: []float32{}, Rewards: []float32{}}
	for _, r := range rows {
		b.Rows = append(b.Rows, batch.Row{TrajectoryID: r.id, GroupID: "g", InvIter: r.inv})
		for k, c := range r.mask {
			b.TokenIDs = append(b.TokenIDs, int32(k))
			b.LossMask = append(b.LossMask, c == '1')
		}
		b.Values = append(b.Values, slices.Concat(r.values, make([]float32, len(r.mask)-len(r.values)))...)
		b.Rewards = append(b.Rewards, slices.Concat(r.rewards, make([]float32, len(r.mask)-len(r.rewards)))...)
		b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
	}
	return b
}

// scored is build with scores in place of rewards.
func scored(scores map[string]float64, rows ...row) *batch.Batch {
	b := build(rows...)
	b.Rewards = nil
	for i := range b.Rows {
		if b.Rows[i].InvIter == 0 {
			b.Rows[i].Score, b.Rows[i].HasScore = scores[b.Rows[i].TrajectoryID], true
		}
	}
	return b
}

func mustCompute(t *testing.T, b *batch.Batch, cfg Config) []string {
	t.Helper()
	var warnings []string
	cfg.Warn = func(m string) { warnings = append(warnings, m) }
	if err := Compute(b, cfg); err != nil {
		t.Fatal(err)
	}
	return warnings
}

func wantColumn(t *testing.T, name string, got []float32, want ...float64) {
	t.Helper()
	for k := range want {
		if len(got) != len(want) || !near(float64(got[k]), want[k], 1e-6) {
			t.Fatalf("%s: %v: want %v", name, got, want)
		}
	}
}

var plain = Config{Estimator: "gae", Gamma: .9, Lambda: .8, CriticLambda: 1}

func TestRewardOnMaskedToken(t *testing.T) {
	t.Parallel()
	b := build(row{id: "t", mask: "1010", rewards: []float32{0, 2, 0, 3}})
	mustCompute(t, b, Config{Estimator: "gae", Gamma: .5, Lambda: 1, CriticLambda: 1})
	wantColumn(t, "advantages", b.Advantages, 2+.5*3, 0, 3, 0)
}

func TestRewardOnMaskedTokenReachesEarlierSegment(t *testing.T) {
	t.Parallel()
	for _, estimator := range []string{"gae", "turn-gae", "per-segment"} {
		b := build(
			row{id: "t", inv: 2, mask: "0100"},
			row{id: "t", inv: 1, mask: "00", rewards: []float32{0, 5}},
			row{id: "t", inv: 0, mask: "01", rewards: []float32{7, 0}},
		)
		mustCompute(t, b, Config{Estimator: estimator, Gamma: .5, Lambda: 1, CriticLambda: 1})
		wantColumn(t, estimator, b.Advantages, 0, 12, 0, 0, 0, 0, 0, 0)
	}
}

func TestRewardBeforeFirstActionIsDroppedWithWarning(t *testing.T) {
	t.Parallel()
	for _, estimator := range []string{"gae", "turn-gae", "per-segment", "reinforce++"} {
		b := build(row{id: "t", inv: 1, mask: "00", rewards: []float32{1, 0}}, row{id: "t", inv: 0, mask: "01", rewards: []float32{.5, 2}})
		warnings := mustCompute(t, b, Config{Estimator: estimator, Gamma: 1, Lambda: 1, CriticLambda: 1})
		wantColumn(t, estimator, b.Advantages, 0, 0, 0, 2)
		if len(warnings) != 1 || !strings.Contains(warnings[0], `"t"`) || !strings.Contains(warnings[0], "1.5") {
			t.Errorf("%s: warnings %q: want one about 1.5 of trajectory t", estimator, warnings)
		}
	}
}

func TestFullyMaskedRow(t *testing.T) {
	t.Parallel()
	for _, estimator := range builtin() {
		b := build(row{id: "t", inv: 1, mask: "000"}, row{id: "t", inv: 0, mask: "11", rewards: []float32{0, 1}}, row{id: "u", inv: 0, mask: "1"})
		for k := range 3 {
			b.Values[k] = float32(math.NaN())
		}
		mustCompute(t, b, Config{Estimator: estimator, Gamma: 1, Lambda: 1, CriticLambda: 1, Whiten: true})
		wantColumn(t, estimator, b.Advantages[:3], 0, 0, 0)
		wantColumn(t, estimator, b.Returns[:3], 0, 0, 0)
		for _, x := range b.Advantages {
			if !isFinite(float64(x)) {
				t.Errorf("%s: %v", estimator, b.Advantages)
			}
		}
	}
}

func TestTrajectoryWithoutTrainableToken(t *testing.T) {
	t.Parallel()
	for _, estimator := range builtin() {
		b := scored(map[string]float64{"t": 5, "u": 1, "v": 1}, row{id: "t", inv: 0, mask: "000"}, row{id: "u", mask: "1"}, row{id: "v", mask: "1"})
		b.Advantages, b.Returns = []float32{9, 9, 9, 9, 9}, []float32{9, 9, 9, 9, 9}
		warnings := mustCompute(t, b, Config{Estimator: estimator, Gamma: 1, Lambda: 1, CriticLambda: 1})
		wantColumn(t, estimator, b.Advantages[:3], 0, 0, 0)
		if len(warnings) != 1 || !strings.Contains(warnings[0], `"t"`) {
			t.Errorf("%s: warnings %q: want one about trajectory t", estimator, warnings)
		}
		if lookup, _ := Lookup(estimator); lookup.Batch { // its score is no vote
			wantColumn(t, estimator, b.Advantages[3:], 0, 0)
		}
	}
}

func TestTruncatedWithBootstrap(t *testing.T) {
	t.Parallel()
	b := build(row{id: "t", inv: 1, mask: "1", values: []float32{.25}}, row{id: "t", inv: 0, mask: "11", values: []float32{.5, 1}, rewards: []float32{0, 3}})
	for i := range b.Rows {
		b.Rows[i].Status, b.Rows[i].BootstrapValue = trajectory.Truncated, 4
	}
	mustCompute(t, b, Config{Estimator: "gae", Gamma: .5, Lambda: .5, CriticLambda: 1})
	d2, d1, d0 := 3+.5*4-1.0, .5*1-.5, .5*.5-.25
	wantColumn(t, "advantages", b.Advantages, d0+.25*(d1+.25*d2), d1+.25*d2, d2)
	wantColumn(t, "returns", b.Returns, .5*.5*5, .5*5, 5) // G with G_T = 4: counted once

	for i := range b.Rows {
		b.Rows[i].Status = trajectory.Finished // terminated: no value after the end
	}
	mustCompute(t, b, Config{Estimator: "gae", Gamma: .5, Lambda: .5, CriticLambda: 1})
	wantColumn(t, "returns", b.Returns, .75, 1.5, 3)
}

func TestBaselinesBootstrapTheLastSegmentOnly(t *testing.T) {
	t.Parallel()
	for _, estimator := range []string{"per-segment", "compaction-rl", "outcome-copy"} {
		b := build(row{id: "t", inv: 1, mask: "1"}, row{id: "t", inv: 0, mask: "1"})
		for i := range b.Rows {
			b.Rows[i].Status, b.Rows[i].BootstrapValue = trajectory.Truncated, 4
		}
		mustCompute(t, b, Config{Estimator: estimator, Gamma: .5, Lambda: 1, CriticLambda: 1})
		wantColumn(t, estimator, b.Returns, 0, 2)
	}
}

func TestGammaZero(t *testing.T) {
	t.Parallel()
	b := build(row{id: "t", mask: "1101", values: []float32{1, 2, 9, 3}, rewards: []float32{.5, 0, 0, 4}})
	mustCompute(t, b, Config{Estimator: "gae", Gamma: 0, Lambda: 1, CriticLambda: 1})
	wantColumn(t, "advantages", b.Advantages, -.5, -2, 0, 1) // r − V
	wantColumn(t, "returns", b.Returns, .5, 0, 0, 4)         // r
}

func TestLambdaZero(t *testing.T) {
	t.Parallel()
	b := build(row{id: "t", mask: "1101", values: []float32{1, 2, 9, 3}, rewards: []float32{.5, 0, 0, 4}})
	mustCompute(t, b, Config{Estimator: "gae", Gamma: .5, Lambda: 0, CriticLambda: 0})
	wantColumn(t, "advantages", b.Advantages, .5, -.5, 0, 1) // r + γV' − V
	wantColumn(t, "returns", b.Returns, 1.5, 1.5, 0, 4)      // r + γV'
}

func TestOneToken(t *testing.T) {
	t.Parallel()
	for _, estimator := range builtin() {
		if slices.Contains(groupEstimators, estimator) {
			continue // see TestGroupOfOne
		}
		b := build(row{id: "t", mask: "1", values: []float32{.25}, rewards: []float32{1}})
		mustCompute(t, b, Config{Estimator: estimator, Gamma: .9, Lambda: .8, CriticLambda: 1})
		if estimator == "reinforce++" {
			wantColumn(t, estimator, b.Advantages, 1)
		} else {
			wantColumn(t, estimator, b.Advantages, .75)
			wantColumn(t, estimator, b.Returns, 1)
		}
	}
}

var groupEstimators = []string{"grpo", "dr-grpo", "rloo"}

func TestGroupOfOne(t *testing.T) {
	t.Parallel()
	for _, estimator := range groupEstimators {
		b := scored(map[string]float64{"t": 3, "u": 1, "v": 1}, row{id: "t", mask: "11"}, row{id: "u", mask: "1"}, row{id: "v", mask: "1"})
		b.Rows[0].GroupID = "alone"
		mustCompute(t, b, Config{Estimator: estimator})
		wantColumn(t, estimator, b.Advantages, 0, 0, 0, 0)
		b.Rows[1].GroupID = "alone too"
		err := Compute(b, Config{Estimator: estimator})
		if want := "estimator " + estimator + ": each of 3 groups has one trajectory, and nothing to be compared with: want a common group_id"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("groups of one only: %v: want %s", err, want)
		}
	}
}

// Credit that does not fit 32 bits is an error that names its token.
func TestOverflow(t *testing.T) {
	t.Parallel()
	rows := func() []row {
		return []row{{id: "t", inv: 1, mask: "0110"}, {id: "t", inv: 0, mask: "10"}, {id: "u", inv: 0, mask: "1"}}
	}
	for _, estimator := range builtin() {
		cfg := Config{Estimator: estimator, Gamma: 1, Lambda: 1, CriticLambda: 1}
		group := slices.Contains(groupEstimators, estimator)
		for name, c := range map[string]struct {
			b      *batch.Batch
			groups bool // overflows under group estimators too
		}{
			"score":           {scored(map[string]float64{"t": 1e308}, rows()...), true},
			"negative score":  {scored(map[string]float64{"t": -1e308}, rows()...), true},
			"opposite scores": {scored(map[string]float64{"t": 1e308, "u": -1e308}, rows()...), true},
			"just too large":  {scored(map[string]float64{"t": 2 * math.MaxFloat32, "u": 1}, rows()...), estimator == "rloo"},
		} {
			err := Compute(c.b, cfg)
			if group && !c.groups {
				if err != nil {
					t.Errorf("%s, %s: %v", estimator, name, err)
				}
				continue
			}
			want := `trajectory "t", inv_iter 0, response token 0: advantages: `
			if name == "opposite scores" && group { // any of the two may be told
				want = "response token 0: advantages: "
			}
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "too large for 32 bits") {
				t.Errorf("%s, %s: %v: want %s", estimator, name, err, want)
			}
		}
		if group {
			continue
		}
		// In range itself, beyond it in the sum with another.
		sum := build(rows()...)
		sum.Rewards[2], sum.Rewards[4] = math.MaxFloat32, math.MaxFloat32
		err := Compute(sum, cfg)
		place := map[string]string{"compaction-rl": "inv_iter 0, response token 0", "outcome-copy": "inv_iter 0, response token 0"}[estimator]
		if place == "" {
			place = "inv_iter 1, response token 2"
		}
		if estimator == "per-segment" { // no sum crosses the cut
			if err != nil {
				t.Errorf("%s: %v", estimator, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("%s: sum: %v: want %s", estimator, err, place)
		}
		// The return alone overflows: an advantage of 1.5e38 over a value of 2e38.
		apart := build(row{id: "t", mask: "01", values: []float32{0, 2e38}})
		apart.Rows[0].Score, apart.Rows[0].HasScore, apart.Rewards = 3.5e38, true, nil
		lookup, _ := Lookup(estimator)
		err = Compute(apart, cfg)
		if lookup.Values && (err == nil || !strings.Contains(err.Error(), "inv_iter 0, response token 1: returns: +Inf")) {
			t.Errorf("%s: return: %v", estimator, err)
		}
	}
}

func TestBroadcastIsGRPO(t *testing.T) {
	t.Parallel()
	if _, err := Lookup("broadcast"); err == nil || !strings.Contains(err.Error(), "broadcast is grpo") {
		t.Error(err)
	}
}

func TestGroupOfEqualScores(t *testing.T) {
	t.Parallel()
	for _, estimator := range groupEstimators {
		// .1+.1+.1 divided by 3 is not .1: the difference must not show.
		b := scored(map[string]float64{"t": .1, "u": .1, "v": .1}, row{id: "t", mask: "1"}, row{id: "u", mask: "1"}, row{id: "v", mask: "1"})
		mustCompute(t, b, Config{Estimator: estimator})
		for _, a := range b.Advantages {
			if a != 0 {
				t.Errorf("%s: %v: want exactly 0", estimator, b.Advantages)
			}
		}
	}
}

// A group of equal scores has no part in whitening: its advantages stay 0, and those of
// the others are what they are without it.
func TestWhiteningLeavesGroupsOfEqualScoresOut(t *testing.T) {
	t.Parallel()
	for _, estimator := range groupEstimators {
		rows := []row{{id: "t", inv: 1, mask: "011"}, {id: "t", mask: "10"}, {id: "u", mask: "1"}}
		alone := scored(map[string]float64{"t": 3, "u": 1}, rows...)
		mustCompute(t, alone, Config{Estimator: estimator, Whiten: true})
		beside := scored(map[string]float64{"t": 3, "u": 1, "v": .1, "w": .1}, append(rows, row{id: "v", mask: "01"}, row{id: "w", mask: "1"})...)
		beside.Rows[3].GroupID, beside.Rows[4].GroupID = "h", "h"
		mustCompute(t, beside, Config{Estimator: estimator, Whiten: true})
		if want := append(slices.Clone(alone.Advantages), 0, 0, 0); !slices.Equal(beside.Advantages, want) {
			t.Errorf("%s: %v, want %v", estimator, beside.Advantages, want)
		}
		if !slices.Equal(beside.LossMask[6:], []bool{false, true, true}) {
			t.Errorf("%s: the loss mask has changed: %v", estimator, beside.LossMask)
		}
	}
}

func TestPartialGroupsOfUnequalSize(t *testing.T) {
	t.Parallel()
	b := scored(map[string]float64{"t": 1, "u": 0, "v": 2, "w": 4, "x": 6},
		row{id: "v", mask: "1"}, row{id: "t", mask: "01"}, row{id: "w", mask: "1"}, row{id: "x", mask: "1"}, row{id: "u", mask: "1"})
	for i, group := range []string{"h", "g", "h", "h", "g"} {
		b.Rows[i].GroupID = group
	}
	mustCompute(t, b, Config{Estimator: "dr-grpo"})
	wantColumn(t, "dr-grpo", b.Advantages, -2, 0, .5, 0, 2, -.5)
	mustCompute(t, b, Config{Estimator: "rloo"})
	wantColumn(t, "rloo", b.Advantages, -3, 0, 1, 0, 3, -1)
	mustCompute(t, b, Config{Estimator: "grpo"})
	half := .5 / (math.Sqrt(.5) + 1e-6)
	wantColumn(t, "grpo", b.Advantages, -2/(2+1e-6), 0, half, 0, 2/(2+1e-6), -half)
}

func TestSegmentsOfATrajectoryVoteOnce(t *testing.T) {
	t.Parallel()
	b := scored(map[string]float64{"t": 1, "u": 0},
		row{id: "t", inv: 2, mask: "1"}, row{id: "t", inv: 1, mask: "1"}, row{id: "t", inv: 0, mask: "1"}, row{id: "u", mask: "1"})
	mustCompute(t, b, Config{Estimator: "dr-grpo"})
	wantColumn(t, "mean .5, not .75", b.Advantages, .5, .5, .5, -.5)
}

func TestScoreFallsBackToSumOfRewards(t *testing.T) {
	t.Parallel()
	b := build(row{id: "t", inv: 1, mask: "1", rewards: []float32{1}}, row{id: "t", inv: 0, mask: "10", rewards: []float32{1, 2}}, row{id: "u", mask: "1"})
	mustCompute(t, b, Config{Estimator: "dr-grpo"})
	wantColumn(t, "advantages", b.Advantages, 2, 2, 0, -2)
}

func TestScoreIsTheRewardOfTheLastAction(t *testing.T) {
	t.Parallel()
	rows := []row{{id: "t", inv: 1, mask: "11", values: []float32{.5, .25}}, {id: "t", inv: 0, mask: "00"}}
	rows = append(rows, row{id: "u", mask: "1"})
	byScore := scored(map[string]float64{"t": 2}, rows...)
	rows[0].rewards = []float32{0, 2}
	byReward := build(rows...)
	for _, estimator := range builtin() {
		cfg := plain
		cfg.Estimator = estimator
		mustCompute(t, byScore, cfg)
		mustCompute(t, byReward, cfg)
		if !equalBits(byScore.Advantages, byReward.Advantages) || !equalBits(byScore.Returns, byReward.Returns) {
			t.Errorf("%s: score %v, %v; reward %v, %v", estimator, byScore.Advantages, byScore.Returns, byReward.Advantages, byReward.Returns)
		}
	}
}

func TestNonFiniteAtMaskedTokensHasNoEffect(t *testing.T) {
	t.Parallel()
	for _, estimator := range builtin() {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			clean := build(row{id: "t", inv: 1, mask: "010", values: []float32{0, 1, 0}}, row{id: "t", inv: 0, mask: "101", values: []float32{.5, 0, .25}, rewards: []float32{0, 0, 2}}, row{id: "u", mask: "1"})
			dirty := build(row{id: "t", inv: 1, mask: "010", values: []float32{0, 1, 0}}, row{id: "t", inv: 0, mask: "101", values: []float32{.5, 0, .25}, rewards: []float32{0, 0, 2}}, row{id: "u", mask: "1"})
			for k, m := range dirty.LossMask {
				if !m {
					dirty.Values[k], dirty.Rewards[k] = float32(bad), float32(bad)
				}
			}
			cfg := Config{Estimator: estimator, Gamma: .9, Lambda: .8, CriticLambda: 1, Whiten: true}
			mustCompute(t, clean, cfg)
			mustCompute(t, dirty, cfg)
			if !equalBits(clean.Advantages, dirty.Advantages) || !equalBits(clean.Returns, dirty.Returns) {
				t.Errorf("%s: %v at masked tokens changes %v to %v", estimator, bad, clean.Advantages, dirty.Advantages)
			}
		}
	}
}

func TestNonFiniteAtTrainableTokenIsAnError(t *testing.T) {
	t.Parallel()
	for _, estimator := range builtin() {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for _, column := range []string{"values", "rewards"} {
				b := build(row{id: "a", mask: "1"}, row{id: "t", inv: 1, mask: "0111"}, row{id: "t", inv: 0, mask: "11"})
				data, reads := b.Values, !slices.Contains([]string{"grpo", "dr-grpo", "rloo", "reinforce++"}, estimator)
				if column == "rewards" {
					data, reads = b.Rewards, true
				}
				data[3] = float32(bad)
				err := Compute(b, Config{Estimator: estimator, Gamma: .9, Lambda: .8, CriticLambda: 1})
				if !reads {
					if err != nil {
						t.Errorf("%s does not read %s: %v", estimator, column, err)
					}
					continue
				}
				if err == nil {
					t.Errorf("%s: no error for %v in %s", estimator, bad, column)
					continue
				}
				for _, part := range []string{`"t"`, "inv_iter 1", "token 2", column} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%s: error %q does not name %s", estimator, err, part)
					}
				}
			}
		}
	}
}

func TestComputeRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *batch.Batch, cfg *Config)
		want   string
	}{
		"failed trajectory":  {func(b *batch.Batch, _ *Config) { b.Rows[0].Status = trajectory.Failed }, `"t": status failed`},
		"aborted trajectory": {func(b *batch.Batch, _ *Config) { b.Rows[0].Status = trajectory.Aborted }, `"t": status aborted`},
		"unknown estimator":  {func(_ *batch.Batch, c *Config) { c.Estimator = "gea" }, "compaction-rl, dr-grpo, gae"},
		"no outcome":         {func(b *batch.Batch, _ *Config) { b.Rewards = nil }, `"t": neither rewards nor a score`},
		"missing segment":    {func(b *batch.Batch, _ *Config) { b.Rows[0].InvIter = 1 }, `"t": inv_iter 1`},
		"gamma":              {func(_ *batch.Batch, c *Config) { c.Gamma = 1.5 }, "gamma: 1.5"},
		"lambda":             {func(_ *batch.Batch, c *Config) { c.Lambda = math.NaN() }, "lambda: NaN"},
		"critic lambda":      {func(_ *batch.Batch, c *Config) { c.CriticLambda = -1 }, "critic_lambda: -1"},
		"no group":           {func(b *batch.Batch, c *Config) { b.Rows[0].GroupID, c.Estimator = "", "rloo" }, `"t": no group_id`},
		"lambda alpha":       {func(_ *batch.Batch, c *Config) { c.LambdaAlpha = math.Inf(1) }, "lambda_alpha: +Inf"},
	} {
		b, cfg := build(row{id: "t", mask: "1"}), plain
		c.change(b, &cfg)
		if err := Compute(b, cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v: want %q", name, err, c.want)
		}
	}
}

func TestLengthAdaptiveLambda(t *testing.T) {
	t.Parallel()
	for l, want := range map[int]float64{0: 0, 10: 0, 100: .8, 5000: .996} {
		if got := LengthAdaptiveLambda(.05, l); math.Abs(got-want) > 1e-12 {
			t.Errorf("l = %d: %v: want %v", l, got, want)
		}
	}
	// The length is that of the trajectory, not of the segment.
	b := build(row{id: "t", inv: 1, mask: "1110"}, row{id: "t", inv: 0, mask: "01", rewards: []float32{0, 1}})
	cfg := Config{Estimator: "gae", Gamma: 1, LambdaAlpha: .5, CriticLambda: 1} // l = 4: λ = .5
	mustCompute(t, b, cfg)
	wantColumn(t, "advantages", b.Advantages, .125, .25, .5, 0, 0, 1)
}

func TestTurnLevel(t *testing.T) {
	t.Parallel()
	b := build(
		row{id: "t", inv: 1, mask: "11011", values: []float32{1, 9, 9, 2, 9}, rewards: []float32{.5, .25, 1, 0, 0}},
		row{id: "t", inv: 0, mask: "011", values: []float32{9, 3, 9}, rewards: []float32{2, 4, 5}},
	)
	mustCompute(t, b, Config{Estimator: "turn-gae", Gamma: .5, Lambda: .5, CriticLambda: 1})
	a3 := 9 - 3.0
	d2, d1 := 2+.5*3-2.0, 1.75+.5*2-1.0
	a2, c2 := d2+.25*a3, d2+.5*a3
	a1, c1 := d1+.25*a2, d1+.5*c2
	wantColumn(t, "advantages", b.Advantages, a1, a1, 0, a2, a2, 0, a3, a3)
	wantColumn(t, "returns", b.Returns, c1+1, c1+1, 0, c2+2, c2+2, 0, a3+3, a3+3)
}

func TestWhiten(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	x := []float64{1, nan, 2, 3, math.Inf(1)}
	Whiten(x, []bool{true, false, true, true, false})
	if s := 1 / math.Sqrt(1+1e-8); math.Abs(x[0]+s) > 1e-12 || x[1] != 0 || x[2] != 0 || math.Abs(x[3]-s) > 1e-12 || x[4] != 0 {
		t.Errorf("whitened: %v", x)
	}
	x = []float64{nan, 5, nan}
	if Whiten(x, []bool{false, true, false}); x[0] != 0 || x[1] != 5 || x[2] != 0 {
		t.Errorf("one token: %v: want it as it was", x)
	}
	x = []float64{nan, nan}
	if Whiten(x, []bool{false, false}); x[0] != 0 || x[1] != 0 {
		t.Errorf("no token: %v: want zeros", x)
	}
	x = []float64{3, 3, 3}
	if Whiten(x, []bool{true, true, true}); x[0] != 0 || x[2] != 0 {
		t.Errorf("equal values: %v: want zeros", x)
	}
	Whiten([]float32(nil), nil)
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		for pattern := range 64 {
			mask := make([]bool, n)
			for k := range mask {
				mask[k] = pattern>>(k%6)&1 == 1 || k > 20 && pattern%2 == 0
			}
			rebuilt := make([]bool, n)
			last := n + 1
			for start, end := range spans(mask) {
				if start >= end || end >= last {
					t.Fatalf("%v: span [%d, %d) before %d", mask, start, end, last)
				}
				setAll(rebuilt[start:end])
				last = start
			}
			if !slices.Equal(mask, rebuilt) {
				t.Fatalf("spans of %v give %v", mask, rebuilt)
			}
		}
	}
}

func setAll(x []bool) {
	for k := range x {
		x[k] = true
	}
}

// builtin are the names of the estimators outside of the tests.
func builtin() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return strings.HasPrefix(name, "test-") })
}

// The whole of what a user writes to add an estimator.
var _ = Register(Estimator{
	Name: "test-last-token", Summary: "1 at the last trainable token",
	Estimate: func(trajectories []Trajectory[float32], _ Config) error {
		for _, tr := range trajectories {
			Broadcast(tr, 0)
			s := tr.Segments[len(tr.Segments)-1]
			s.Advantages[len(s.Advantages)-1] = 1
		}
		return nil
	},
})

func TestRegisteredEstimatorIsKnown(t *testing.T) {
	t.Parallel()
	b := build(row{id: "t", mask: "11"})
	mustCompute(t, b, Config{Estimator: "test-last-token"})
	wantColumn(t, "advantages", b.Advantages, 0, 1)
	if !slices.Contains(Names(), "test-last-token") {
		t.Error("the name is not listed")
	}
}

// Without values GAE is what it is with values of 0: with γ = λ = 1 the score on
// every trainable token.
func TestAbsentValuesAreZero(t *testing.T) {
	t.Parallel()
	b := &batch.Batch{
		Rows:      []batch.Row{{TrajectoryID: "t", InvIter: 1}, {TrajectoryID: "t", Score: 0.75, HasScore: true}},
		CuSeqLens: []int64{0, 3, 5}, TokenIDs: make([]int32, 5), LossMask: []bool{true, false, true, false, true},
	}
	if err := Compute(b, Config{Estimator: "gae", Gamma: 1, Lambda: 1, CriticLambda: 1}); err != nil {
		t.Fatal(err)
	}
	for i, trainable := range b.LossMask {
		want := float32(0)
		if trainable {
			want = 0.75
		}
		if b.Advantages[i] != want || b.Returns[i] != want {
			t.Errorf("token %d: advantage %v, return %v, want %v", i, b.Advantages[i], b.Returns[i], want)
		}
	}
}
