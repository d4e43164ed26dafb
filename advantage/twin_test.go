package advantage

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSegmentTwin holds the estimators that see segments against formulas written out in
// float64: rewards at tokens that are no decision, through cuts, empty segments and NaN at
// tokens that do not count.
func TestSegmentTwin(t *testing.T) {
	t.Parallel()
	moved := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 12))
		w := randomWhole(rng, 1+rng.IntN(60))
		cuts := [][]int{{rng.IntN(len(w.mask) + 1)}}
		for range rng.IntN(3) {
			cuts[0] = append(cuts[0], cuts[0][len(cuts[0])-1]+rng.IntN(len(w.mask)+1-cuts[0][len(cuts[0])-1]))
		}
		gamma, actor, critic := .5+rng.Float64()/2, rng.Float64(), rng.Float64()

		// Decisions in the order of time: value, reward that follows, segment, turn.
		type decision struct {
			v, r          float64
			segment, turn int
		}
		var steps []decision
		segment, turn, outcome := 0, 0, w.score
		for k := range w.mask {
			for segment < len(cuts[0]) && cuts[0][segment] <= k {
				segment++
				turn++ // a cut ends one
			}
			r := float64(w.rewards[k])
			switch {
			case w.mask[k]:
				steps = append(steps, decision{float64(w.values[k]), r, segment, turn})
			default:
				turn++
				if isFinite(r) && len(steps) > 0 {
					steps[len(steps)-1].r += r
					moved++
				}
			}
		}
		if len(steps) == 0 {
			continue
		}
		n := len(steps)

		// Every segment ends with the outcome, the last one of a truncated trajectory with the bootstrap.
		// Or, per segment, with nothing but its own rewards.
		local := func(outcome, own, lambda float64, k int) (sum float64) {
			for i := k; i < n && steps[i].segment == steps[k].segment; i++ {
				end := i == n-1 || steps[i+1].segment != steps[i].segment
				delta := own*steps[i].r - steps[i].v
				switch {
				case end && i == n-1:
					delta += outcome + gamma*w.bootstrap
				case end:
					delta += outcome
				default:
					delta += gamma * steps[i+1].v
				}
				sum += math.Pow(gamma*lambda, float64(i-k)) * delta
			}
			return sum
		}
		after := func(k int) (count float64) {
			for _, s := range steps[k:] {
				if s.segment != steps[k].segment {
					count++
				}
			}
			return count
		}
		// A turn is one step: its value the first token's, its reward all of its tokens'.
		type turned struct{ v, r float64 }
		var turns []turned
		turnOf := make([]int, n)
		for k, s := range steps {
			if k == 0 || s.turn != steps[k-1].turn {
				turns = append(turns, turned{v: s.v})
			}
			turns[len(turns)-1].r += s.r
			turnOf[k] = len(turns) - 1
		}
		turnwise := func(lambda float64, k int) (sum float64) {
			for i := turnOf[k]; i < len(turns); i++ {
				next := w.bootstrap
				if i+1 < len(turns) {
					next = turns[i+1].v
				}
				sum += math.Pow(gamma*lambda, float64(i-turnOf[k])) * (turns[i].r + gamma*next - turns[i].v)
			}
			return sum
		}
		wants := map[string]func(k int) (a, r float64){
			"outcome-copy": func(k int) (a, r float64) {
				return local(outcome, 0, actor, k), local(outcome, 0, critic, k) + steps[k].v
			},
			"compaction-rl": func(k int) (a, r float64) {
				return math.Pow(gamma*actor, after(k)) * local(outcome, 0, actor, k), local(outcome, 0, critic, k) + steps[k].v
			},
			"per-segment": func(k int) (a, r float64) { return local(0, 1, actor, k), local(0, 1, critic, k) + steps[k].v },
			"turn-gae":    func(k int) (a, r float64) { return turnwise(actor, k), turnwise(critic, k) + turns[turnOf[k]].v },
		}
		for name, want := range wants {
			b, order := cut(rng, []whole{w}, cuts)
			if err := Compute(b, Config{Estimator: name, Gamma: gamma, Lambda: actor, CriticLambda: critic}); err != nil {
				t.Fatal(err)
			}
			advantages, returns := trainable(w.mask, uncut(t, b, order[0], b.Advantages)), trainable(w.mask, uncut(t, b, order[0], b.Returns))
			for k := range steps {
				a, r := want(k)
				if math.Abs(float64(advantages[k])-a) > 1e-5*(1+math.Abs(a)) || math.Abs(float64(returns[k])-r) > 1e-5*(1+math.Abs(r)) {
					t.Fatalf("seed %d, cuts %v, %s: decision %d: advantage %v, return %v: want %v, %v", seed, cuts[0], name, k, advantages[k], returns[k], a, r)
				}
			}
		}
	}
	if moved < 100 {
		t.Errorf("only %d rewards at tokens that are no decision", moved)
	}
}
