package advantage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"errors"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/trajectory"
	"strings"
)

// whole is a trajectory that was never cut: the response tokens of all of its
// segments one after another.
type whole struct {
	mask            []bool
	values, rewards []float32
	bootstrap       float64
	status          trajectory.Status
	score           float64
}

func randomWhole(rng *rand.Rand, n int) whole {
	w := whole{mask: make([]bool, n), values: make([]float32, n), rewards: make([]float32, n), status: trajectory.Finished, score: float64(rng.IntN(3))}
	for t, m := 0, rng.IntN(2) == 0; t < n; m = !m {
		for run := 1 + rng.IntN(1+rng.IntN(40)); run > 0 && t < n; run-- {
			w.mask[t] = m
			t++
		}
	}
	for t := range n {
		w.values[t] = float32(rng.NormFloat64())
		if rng.IntN(3) == 0 {
			w.rewards[t] = float32(rng.NormFloat64())
		}
		if !w.mask[t] && rng.IntN(10) == 0 { // must have no effect
			w.values[t] = float32(math.NaN())
			w.rewards[t] = float32(math.Inf(1 - 2*rng.IntN(2)))
		}
	}
	if rng.IntN(2) == 0 {
		w.status, w.bootstrap = trajectory.Truncated, rng.NormFloat64()
	}
	return w
}

// cut makes a batch of the trajectories with the given cuts (places between
// response tokens, ascending, repetition makes empty segments) and with
// prompts of random length; rows in random order. It also returns, for each
// trajectory, the rows in the order of time.
func cut(rng *rand.Rand, trajectories []whole, cuts [][]int) (*batch.Batch, [][]int) {
	type piece struct{ trajectory, inv, from, to int }
	var pieces []piece
	for j, w := range trajectories {
		ends := append(slices.Clone(cuts[j]), len(w.mask))
		from := 0
		for k, to := range ends {
			pieces = append(pieces, piece{j, len(ends) - 1 - k, from, to})
			from = to
		}
	}
	rng.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	b := &batch.Batch{CuSeqLens: []int64{0}, Values: []float32{}, Rewards: []float32{}, LossMask: []bool{}, TokenIDs: []int32{}}
	order := make([][]int, len(trajectories))
	for j := range cuts {
		order[j] = make([]int, len(cuts[j])+1)
	}
	for i, p := range pieces {
		w := trajectories[p.trajectory]
		order[p.trajectory][len(order[p.trajectory])-1-p.inv] = i
		prompt := rng.IntN(4)
		b.Rows = append(b.Rows, batch.Row{
			TrajectoryID: fmt.Sprint("t", p.trajectory), GroupID: fmt.Sprint("g", p.trajectory%2), InvIter: p.inv, PromptLen: prompt,
			Status: w.status, Score: w.score, HasScore: p.inv == 0, BootstrapValue: w.bootstrap,
		})
		for range prompt {
			b.LossMask, b.Values, b.Rewards = append(b.LossMask, false), append(b.Values, 7), append(b.Rewards, 7)
		}
		b.LossMask = append(b.LossMask, w.mask[p.from:p.to]...)
		b.Values = append(b.Values, w.values[p.from:p.to]...)
		b.Rewards = append(b.Rewards, w.rewards[p.from:p.to]...)
		b.TokenIDs = append(b.TokenIDs, make([]int32, len(b.LossMask)-len(b.TokenIDs))...)
		b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
	}
	b.Advantages, b.Returns = make([]float32, len(b.TokenIDs)), make([]float32, len(b.TokenIDs))
	for t := range b.Advantages {
		b.Advantages[t], b.Returns[t] = 99, 99 // must be overwritten everywhere
	}
	return b, order
}

// uncut reads a column back in the order of time, and checks that the prompts
// hold zeros.
func uncut(t *testing.T, b *batch.Batch, rows []int, column []float32) []float32 {
	var out []float32
	for _, i := range rows {
		start, end := b.Span(i)
		response := start + b.Rows[i].PromptLen
		for _, x := range column[start:response] {
			if x != 0 {
				t.Fatalf("row %d: %v at a prompt token", i, x)
			}
		}
		out = append(out, column[response:end]...)
	}
	return out
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// checkLaw cuts trajectories at random and compares with the uncut scan, bit
// for bit.
func checkLaw(t *testing.T, seed uint64, size int, cfg Config) {
	rng := rand.New(rand.NewPCG(seed, 1))
	trajectories := make([]whole, 1+rng.IntN(4))
	cuts, none := make([][]int, len(trajectories)), make([][]int, len(trajectories))
	for j := range trajectories {
		n := 1 + rng.IntN(size)
		trajectories[j] = randomWhole(rng, n)
		for range rng.IntN(6) {
			at := rng.IntN(n + 1)
			for cfg.Estimator == "turn-gae" && at > 0 && at < n && trajectories[j].mask[at-1] && trajectories[j].mask[at] {
				at++ // a cut is a turn's end: not inside of one
			}
			cuts[j] = append(cuts[j], at)
		}
		slices.Sort(cuts[j])
	}
	one, rowsOfOne := cut(rng, trajectories, none)
	many, rowsOfMany := cut(rng, trajectories, cuts)
	alone, err := Compute(one, cfg), Compute(many, cfg)
	if alone != nil && strings.Contains(alone.Error(), "groups has one trajectory") && err != nil && err.Error() == alone.Error() {
		return // whatever the cuts
	}
	if err := errors.Join(alone, err); err != nil {
		t.Fatal(err)
	}
	for j := range trajectories {
		if !equalBits(uncut(t, one, rowsOfOne[j], one.Advantages), uncut(t, many, rowsOfMany[j], many.Advantages)) {
			t.Fatalf("%+v: advantages depend on the cuts %v", cfg, cuts[j])
		}
		if !equalBits(uncut(t, one, rowsOfOne[j], one.Returns), uncut(t, many, rowsOfMany[j], many.Returns)) {
			t.Fatalf("%+v: returns depend on the cuts %v", cfg, cuts[j])
		}
	}
}

// lawful are the estimators that owe the law of cuts; the others let a cut
// count by design, or are whitened in the order of the rows.
var lawful = []string{"gae", "turn-gae", "grpo", "dr-grpo", "rloo"}

func TestLawOfCuts(t *testing.T) {
	t.Parallel()
	for _, estimator := range lawful {
		for seed := range uint64(300) {
			checkLaw(t, seed, 120, Config{Estimator: estimator, Gamma: .99, Lambda: .9, CriticLambda: 1, LambdaAlpha: float64(seed%2) * .05})
		}
	}
}

func FuzzLawOfCuts(f *testing.F) {
	f.Add(uint64(1), uint16(20), .9, .8, 1.0, 0.0)
	f.Add(uint64(2), uint16(200), 1.0, .95, 1.0, .05)
	f.Add(uint64(3), uint16(9), 0.0, 0.0, 0.0, 0.0)
	f.Fuzz(func(t *testing.T, seed uint64, size uint16, gamma, lambda, criticLambda, alpha float64) {
		cfg := Config{Estimator: lawful[seed%uint64(len(lawful))], Gamma: gamma, Lambda: lambda, CriticLambda: criticLambda, LambdaAlpha: alpha}
		if cfg.Validate() != nil {
			t.Skip("settings that are refused")
		}
		checkLaw(t, seed, 1+int(size)%1000, cfg)
	})
}

// TestTwin compares every scan with formulas written out naively: rewards moved
// to their tokens first, then sums over all later steps instead of a recursion.
func TestTwin(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := randomWhole(rng, 1+rng.IntN(60))
		gamma, actor, critic := rng.Float64(), rng.Float64(), rng.Float64()
		var v, r []float64 // at trainable tokens
		for k := range w.mask {
			if w.mask[k] {
				v, r = append(v, float64(w.values[k])), append(r, float64(w.rewards[k]))
			} else if x := float64(w.rewards[k]); len(r) > 0 && isFinite(x) {
				r[len(r)-1] += x
			}
		}
		next := append(slices.Clone(v), w.bootstrap)
		sums := func(discount float64) []float64 {
			out := make([]float64, len(v))
			for a := range v {
				for b := a; b < len(v); b++ {
					out[a] += math.Pow(discount, float64(b-a)) * (r[b] + gamma*next[b+1] - v[b])
				}
			}
			return out
		}
		e := Trajectory[float64]{Bootstrap: w.bootstrap, Segments: []Segment[float64]{{
			Mask: w.mask, Values: widen(w.values), Rewards: widen(w.rewards), Advantages: make([]float64, len(w.mask)), Returns: make([]float64, len(w.mask)),
		}}}
		check := func(name string, column, want []float64) {
			t.Helper()
			got := trainable(w.mask, column)
			for k := range want {
				if math.Abs(got[k]-want[k]) > 1e-12*(1+math.Abs(want[k])) {
					t.Errorf("seed %d: %s: token %d is %v: want %v", seed, name, k, got[k], want[k])
				}
			}
		}
		if _, err := GAE(e, gamma, actor, critic); err != nil {
			t.Fatal(err)
		}
		check("advantages", e.Segments[0].Advantages, sums(gamma*actor))
		returns := sums(gamma * critic)
		for k := range returns {
			returns[k] += v[k]
		}
		check("returns", e.Segments[0].Returns, returns)

		if _, err := DiscountedReturns(e, gamma); err != nil {
			t.Fatal(err)
		}
		discounted := make([]float64, len(v))
		for a := range v {
			for b := a; b < len(v); b++ {
				discounted[a] += math.Pow(gamma, float64(b-a)) * r[b]
			}
			discounted[a] += math.Pow(gamma, float64(len(v)-a)) * w.bootstrap
		}
		check("discounted returns", e.Segments[0].Returns, discounted)
	}
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func trainable[T any](mask []bool, column []T) []T {
	var out []T
	for t, m := range mask {
		if m {
			out = append(out, column[t])
		}
	}
	return out
}

// TestReducesTo holds estimators against simpler ones that they must equal.
func TestReducesTo(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	run := func(b *batch.Batch, cfg Config) []float32 {
		if err := Compute(b, cfg); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(b.Advantages)
	}
	closeTo := func(name string, a, b []float32) {
		for k := range a {
			if !near(float64(a[k]), float64(b[k]), 1e-5) {
				t.Fatalf("%s: token %d: %v and %v", name, k, a[k], b[k])
			}
		}
	}
	for range 50 {
		w := []whole{randomWhole(rng, 50), randomWhole(rng, 30)}
		single, _ := cut(rng, w, [][]int{nil, nil})
		gae := Config{Estimator: "gae", Gamma: .9, Lambda: .7, CriticLambda: .7}
		perSegment, perTurn := gae, gae
		perSegment.Estimator, perTurn.Estimator = "per-segment", "turn-gae"
		if !equalBits(run(single, gae), run(single, perSegment)) {
			t.Fatal("one segment: per-segment GAE is not GAE")
		}
		closeTo("return = advantage + value when λ are equal", trainable(single.LossMask, single.Returns), addTrainable(single, single.Values))

		many, _ := cut(rng, w, [][]int{{20, 40}, {7}})
		many.Values = nil
		many.Values = make([]float32, len(many.TokenIDs))
		monteCarlo, scan := Config{Estimator: "reinforce++", Gamma: .9}, Config{Estimator: "gae", Gamma: .9, Lambda: 1, CriticLambda: 1, Whiten: true}
		closeTo("λ=1, V=0 is discounted Monte Carlo", run(many, scan), run(many, monteCarlo))

		many.Rewards = nil
		for i := range many.Rows {
			many.Rows[i].Status = trajectory.Finished
		}
		run(many, Config{Estimator: "gae", Gamma: 1, Lambda: 1, CriticLambda: 1})
		for i := range many.Rows {
			start, end := many.Span(i)
			want := float32(w[many.Rows[i].TrajectoryID[1]-'0'].score)
			for _, a := range trainable(many.LossMask[start:end], many.Advantages[start:end]) {
				if a != want {
					t.Fatalf("γ=λ=1, V=0 is not the score on every token: %v, score %v", a, want)
				}
			}
		}

		// Turns of one token each: turn-level is token-level.
		alternating := randomWhole(rng, 41)
		for k := range alternating.mask {
			alternating.mask[k] = k%2 == 0
			alternating.values[k], alternating.rewards[k] = float32(k%5), float32(k%3)
		}
		b, _ := cut(rng, []whole{alternating}, [][]int{{10, 20}})
		if !equalBits(run(b, gae), run(b, perTurn)) {
			t.Fatal("turns of one token: turn-level GAE is not GAE")
		}
	}
}

// addTrainable is advantage + column at trainable tokens.
func addTrainable(b *batch.Batch, column []float32) []float32 {
	var out []float32
	for k, m := range b.LossMask {
		if m {
			out = append(out, b.Advantages[k]+column[k])
		}
	}
	return out
}

// At γ = λ = 1 with one reward at the end, the carry, the outcome copied to every row and
// CompactionRL are one algorithm, whatever the values and the cuts.
func TestOneRewardAtTheEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 13))
		w := randomWhole(rng, 2+rng.IntN(60))
		w.rewards, w.bootstrap, w.status = make([]float32, len(w.mask)), 0, trajectory.Finished
		last := slices.Index(w.mask, true)
		if last < 0 {
			continue
		}
		for k := range w.mask {
			if w.mask[k] {
				last = k
			}
		}
		w.rewards[last], w.score = 1, 1
		for k := range w.values { // in eighths, so that no sum is rounded
			w.values[k] = float32(rng.IntN(17)-8) / 8
		}
		cuts := [][]int{{rng.IntN(len(w.mask) + 1)}}
		b, order := cut(rng, []whole{w}, cuts)
		var want []float32
		for _, estimator := range []string{"gae", "outcome-copy", "compaction-rl"} {
			if err := Compute(b, Config{Estimator: estimator, Gamma: 1, Lambda: 1, CriticLambda: 1}); err != nil {
				t.Fatal(err)
			}
			got := slices.Concat(uncut(t, b, order[0], b.Advantages), uncut(t, b, order[0], b.Returns))
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %s differs from gae", seed, estimator)
			}
		}
	}
}
