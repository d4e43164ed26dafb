package ppo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/batch"
)

func randomRow(rng *rand.Rand, n int) PolicyTokens[float64] {
	column := func(scale, shift float64) []float64 {
		out := make([]float64, n)
		for t := range out {
			out[t] = scale*rng.NormFloat64() + shift
		}
		return out
	}
	row := PolicyTokens[float64]{LogProbs: column(.5, -1), Advantages: column(1, 0), Weights: column(0, .3), Entropies: column(.1, 1)}
	near := func(spread float64) []float64 {
		out := make([]float64, n)
		for t := range out {
			out[t] = row.LogProbs[t] + spread*rng.NormFloat64()
		}
		return out
	}
	row.OldLogProbs, row.RefLogProbs, row.RolloutLogProbs = near(.4), near(.5), near(.4)
	return row
}

// defaults is PPO with asymmetric and dual clipping, and nothing else.
func defaults() Config {
	return Config{
		Loss: LossPPO, ClipLow: 0.2, ClipHigh: 0.28, DualClip: 3, ValueClip: 0.2,
		KLKind: K3, KLIn: KLInLoss, Aggregation: TrajectoryMean,
		RolloutCorrection: CorrectionNone, RolloutCap: 2,
	}
}

// TestGradients compares every loss with central differences.
func TestGradients(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, loss := range []string{LossPPO, LossGSPO, LossCISPO, LossPG} {
		for _, correction := range []string{CorrectionNone, CorrectionTruncate, CorrectionMask} {
			for _, kind := range []string{K1, K2, K3} {
				cfg := Config{Loss: loss, ClipLow: .2, ClipHigh: .28, DualClip: 1.5, KLCoef: .3, KLKind: kind, KLIn: KLInLoss, EntropyCoef: .2,
					Aggregation: TokenMean, RolloutCorrection: correction, RolloutCap: 1.5}
				if err := cfg.Validate(); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					checkGradient(t, cfg, randomRow(rng, 7))
				}
			}
		}
	}
}

func checkGradient(t *testing.T, cfg Config, row PolicyTokens[float64]) {
	t.Helper()
	n := len(row.LogProbs)
	if cfg.Loss == LossGSPO { // its gradient leaves each token its own advantage: with equal ones it is the derivative
		for k := range row.Advantages {
			row.Advantages[k] = row.Advantages[0]
			row.RolloutLogProbs[k] = row.OldLogProbs[k] - .2
		}
	}
	gradient, entropyGradient, scratch := make([]float64, n), make([]float64, n), make([]float64, n)
	if _, err := Policy(&cfg, row, gradient, entropyGradient); err != nil {
		t.Fatal(err)
	}
	const h = 1e-6
	difference := func(x *float64) float64 {
		saved := *x
		var side [2]float64
		for k, d := range []float64{h, -h} {
			*x = saved + d
			held := row
			if cfg.Loss == LossCISPO { // the ratio is held constant in the derivative
				held.OldLogProbs = slices.Clone(row.OldLogProbs)
				for i := range held.OldLogProbs {
					if &row.LogProbs[i] == x {
						held.OldLogProbs[i] += d
						held.RolloutLogProbs = slices.Clone(row.RolloutLogProbs)
						held.RolloutLogProbs[i] += d
					}
				}
			}
			s, err := Policy(&cfg, held, scratch, nil)
			if err != nil {
				t.Fatal(err)
			}
			side[k] = s.Loss()
		}
		*x = saved
		return (side[0] - side[1]) / (2 * h)
	}
	for k := range n {
		if want := difference(&row.LogProbs[k]); math.Abs(gradient[k]-want) > 1e-6*(1+math.Abs(want)) {
			t.Fatalf("%+v: token %d: d/dlogprob is %v: want %v", cfg, k, gradient[k], want)
		}
		if want := difference(&row.Entropies[k]); math.Abs(entropyGradient[k]-want) > 1e-6 {
			t.Fatalf("%+v: token %d: d/dentropy is %v: want %v", cfg, k, entropyGradient[k], want)
		}
	}
}

func TestValueGradient(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 1))
	for range 200 {
		cfg := defaults()
		if rng.IntN(2) == 0 {
			cfg.ValueClip = 0
		}
		row := ValueTokens[float64]{Values: []float64{rng.NormFloat64()}, OldValues: []float64{rng.NormFloat64()}, Returns: []float64{rng.NormFloat64()}, Weights: []float64{.3}}
		gradient, scratch := []float64{0}, []float64{0}
		if _, err := Value(&cfg, row, gradient); err != nil {
			t.Fatal(err)
		}
		const h = 1e-6
		var side [2]float64
		for k, d := range []float64{h, -h} {
			moved := row
			moved.Values = []float64{row.Values[0] + d}
			s, err := Value(&cfg, moved, scratch)
			if err != nil {
				t.Fatal(err)
			}
			side[k] = s.ValueLoss
		}
		if want := (side[0] - side[1]) / (2 * h); math.Abs(gradient[0]-want) > 1e-6*(1+math.Abs(want)) {
			t.Errorf("%+v: %+v: gradient %v: want %v", cfg, row, gradient, want)
		}
	}
}

// TestTokenLosses holds single tokens against numbers worked out by hand.
func TestTokenLosses(t *testing.T) {
	t.Parallel()
	ln := math.Log
	for _, c := range []struct {
		name                    string
		cfg                     Config
		logRatio, logProb, a    float64
		rollout                 float64 // log π_old − log π_rollout
		loss, grad              float64
		clipped, dual, limited0 float64
	}{
		{"inside the clip", Config{Loss: LossPPO}, ln(1.1), -1, 2, 0, -2.2, -2.2, 0, 0, 0},
		{"above, good action: no more push", Config{Loss: LossPPO}, ln(1.5), -1, 2, 0, -2 * 1.28, 0, 1, 0, 0},
		{"above, bad action: full pull", Config{Loss: LossPPO}, ln(1.5), -1, -2, 0, 3, 3, 0, 0, 0},
		{"below, bad action: no more pull", Config{Loss: LossPPO}, ln(.5), -1, -2, 0, 1.6, 0, 1, 0, 0},
		{"dual clip", Config{Loss: LossPPO, DualClip: 3}, ln(5), -1, -2, 0, 6, 0, 0, 1, 0},
		{"no dual clip", Config{Loss: LossPPO}, ln(5), -1, -2, 0, 10, 10, 0, 0, 0},
		{"ratio is clamped", Config{Loss: LossPPO}, 50, -1, -1, 0, math.Exp(20), 0, 0, 0, 0},
		{"cispo inside", Config{Loss: LossCISPO}, ln(1.1), -.5, 2, 0, 1.1, -2.2, 0, 0, 0},
		{"cispo keeps the gradient of clipped tokens", Config{Loss: LossCISPO}, ln(2), -.5, 2, 0, 1.28, -2.56, 1, 0, 0},
		{"pg", Config{Loss: LossPG}, ln(2), -.5, 2, 0, 1, -2, 0, 0, 0},
		{"gspo of one token", Config{Loss: LossGSPO}, ln(1.1), -1, 2, 0, -2.2, -2.2, 0, 0, 0},
		{"truncated weight", Config{Loss: LossPG, RolloutCorrection: CorrectionTruncate}, 0, -.5, 2, ln(4), 2, -4, 0, 0, 1},
		{"weight below 1", Config{Loss: LossPG, RolloutCorrection: CorrectionTruncate}, 0, -.5, 2, ln(.25), .25, -.5, 0, 0, 0},
		{"masked above", Config{Loss: LossPG, RolloutCorrection: CorrectionMask}, 0, -.5, 2, ln(4), 0, 0, 0, 0, 1},
		{"masked below", Config{Loss: LossPG, RolloutCorrection: CorrectionMask}, 0, -.5, 2, ln(.25), 0, 0, 0, 0, 1},
		{"masked, inside", Config{Loss: LossPG, RolloutCorrection: CorrectionMask}, 0, -.5, 2, ln(1.5), 1.5, -3, 0, 0, 0},
	} {
		cfg := c.cfg
		cfg.ClipLow, cfg.ClipHigh, cfg.RolloutCap, cfg.KLKind, cfg.KLIn = .2, .28, 2, K3, KLInLoss
		if cfg.RolloutCorrection == "" {
			cfg.RolloutCorrection = CorrectionNone
		}
		old := c.logProb - c.logRatio
		gradient := []float64{9}
		s, err := Policy(&cfg, PolicyTokens[float64]{LogProbs: []float64{c.logProb}, OldLogProbs: []float64{old}, Advantages: []float64{c.a}, Weights: []float64{1}, RolloutLogProbs: []float64{old - c.rollout}}, gradient, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := s.Metrics()
		if !near(s.PolicyLoss, c.loss, 1e-9) || !near(gradient[0], c.grad, 1e-9) || m.ClipFraction != c.clipped || m.DualClipFraction != c.dual || m.RolloutLimited != c.limited0 {
			t.Errorf("%s: loss %v, gradient %v, clipped %v, dual %v, limited %v: want %v, %v, %v, %v, %v", c.name,
				s.PolicyLoss, gradient[0], m.ClipFraction, m.DualClipFraction, m.RolloutLimited, c.loss, c.grad, c.clipped, c.dual, c.limited0)
		}
	}
}

func TestGSPOUsesTheRatioOfTheRow(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.Loss, cfg.ClipHigh = LossGSPO, 10
	row := PolicyTokens[float64]{LogProbs: []float64{-1, -1}, OldLogProbs: []float64{-1.5, -1.1}, Advantages: []float64{1, 1}, Weights: []float64{.5, .5}}
	gradient := make([]float64, 2)
	s, err := Policy(&cfg, row, gradient, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := -math.Exp(.3); !near(s.PolicyLoss, want, 1e-12) || !near(gradient[0], want/2, 1e-12) || !near(gradient[1], want/2, 1e-12) {
		t.Errorf("loss %v, gradient %v: want %v and its halves", s.PolicyLoss, gradient, want)
	}
}

func TestKLClamps(t *testing.T) {
	t.Parallel()
	if kl, d := KL(K3, -30, 0); kl != 10 || d != 0 {
		t.Errorf("k3 far below the reference: %v, %v: want 10, 0", kl, d)
	}
	if kl, d := KL(K3, 0, -30); !near(kl, 19, 1e-6) && kl != 10 || d != 0 {
		t.Errorf("k3 far above the reference: %v, %v", kl, d)
	}
	if kl, d := KL(K3, -1, -1); kl != 0 || d != 0 {
		t.Errorf("k3 of equal policies: %v, %v: want 0", kl, d)
	}
}

// testBatch is a random mini-batch: trajectories of one to four segments.
func testBatch(rng *rand.Rand, trajectories int) *batch.Batch {
	b := &batch.Batch{CuSeqLens: []int64{0}}
	for j := range trajectories {
		segments := 1 + rng.IntN(4)
		for k := range segments {
			b.Rows = append(b.Rows, batch.Row{TrajectoryID: fmt.Sprint("t", j), InvIter: segments - 1 - k, PromptLen: 2})
			for t := range 2 + rng.IntN(12) {
				b.LossMask = append(b.LossMask, t >= 2 && rng.IntN(3) > 0)
			}
			b.CuSeqLens = append(b.CuSeqLens, int64(len(b.LossMask)))
		}
	}
	n := len(b.LossMask)
	b.TokenIDs = make([]int32, n)
	column := func(shift float64) []float32 {
		out := make([]float32, n)
		for t := range out {
			out[t] = float32(.3*rng.NormFloat64() + shift)
			if !b.LossMask[t] {
				out[t] = float32(math.NaN()) // must not reach any result
			}
		}
		return out
	}
	b.OldLogProbs, b.RefLogProbs, b.RolloutLogProbs = column(-1), column(-1), column(-1)
	b.Values, b.Returns, b.Advantages = column(0), column(0), column(0)
	return b
}

// policyBatch is Policy over the rows of a batch, with columns over all tokens.
func policyBatch(cfg *Config, b *batch.Batch, weights, logProbs, dLogProbs []float32) (Stats, error) {
	var total Stats
	for i := range b.Rows {
		start, end := b.Span(i)
		mask := b.LossMask[start:end]
		take := func(column []float32) []float32 { return Trainable(mask, column[start:end]) }
		row := PolicyTokens[float32]{LogProbs: take(logProbs), OldLogProbs: take(b.OldLogProbs), Advantages: take(b.Advantages), Weights: take(weights),
			RefLogProbs: take(b.RefLogProbs), RolloutLogProbs: take(b.RolloutLogProbs)}
		gradient := make([]float32, len(row.LogProbs))
		s, err := Policy(cfg, row, gradient, nil)
		if err != nil {
			return Stats{}, fmt.Errorf("row %d: %w", i, err)
		}
		spread(dLogProbs[start:end], mask, gradient)
		total.Merge(s)
	}
	return total, nil
}

// valueBatch is Value over the rows of a batch, like policyBatch.
func valueBatch(cfg *Config, b *batch.Batch, weights, values, dValues []float32) (Stats, error) {
	var total Stats
	for i := range b.Rows {
		start, end := b.Span(i)
		mask := b.LossMask[start:end]
		take := func(column []float32) []float32 { return Trainable(mask, column[start:end]) }
		row := ValueTokens[float32]{Values: take(values), OldValues: take(b.Values), Returns: take(b.Returns), Weights: take(weights)}
		gradient := make([]float32, len(row.Values))
		s, err := Value(cfg, row, gradient)
		if err != nil {
			return Stats{}, fmt.Errorf("row %d: %w", i, err)
		}
		spread(dValues[start:end], mask, gradient)
		total.Merge(s)
	}
	return total, nil
}

// spread writes one entry of x to each trainable token.
func spread(column []float32, mask []bool, x []float32) {
	for t, m := range mask {
		if m {
			column[t], x = x[0], x[1:]
		}
	}
}

// TestSplitInvariance: any split of the mini-batch, in any order,
// gives the gradient of the whole, bit for bit.
func TestSplitInvariance(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	for _, aggregation := range []string{TokenMean, SeqMeanTokenSum, SeqMeanTokenMean, TrajectoryMean} {
		for _, loss := range []string{LossPPO, LossGSPO, LossCISPO, LossPG} {
			cfg := defaults()
			cfg.Loss, cfg.Aggregation, cfg.KLCoef, cfg.RolloutCorrection = loss, aggregation, .1, CorrectionTruncate
			b := testBatch(rng, 6)
			logProbs := slices.Clone(b.OldLogProbs)
			for k := range logProbs {
				logProbs[k] += float32(.2 * rng.NormFloat64())
			}
			weights, err := Weights[float32](aggregation, b)
			if err != nil {
				t.Fatal(err)
			}
			whole, wholeValues := make([]float32, len(weights)), make([]float32, len(weights))
			stats, err := policyBatch(&cfg, b, weights, logProbs, whole)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := valueBatch(&cfg, b, weights, b.Values, wholeValues); err != nil {
				t.Fatal(err)
			}
			order := rng.Perm(len(b.Rows))
			var loss float64
			for len(order) > 0 {
				n := 1 + rng.IntN(len(order))
				rows := order[:n]
				order = order[n:]
				part := b.Select(rows)
				gradient, valueGradient := make([]float32, part.Tokens()), make([]float32, part.Tokens())
				w := batch.Gather(b, weights, rows)
				s, err := policyBatch(&cfg, part, w, batch.Gather(b, logProbs, rows), gradient)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := valueBatch(&cfg, part, w, part.Values, valueGradient); err != nil {
					t.Fatal(err)
				}
				loss += s.Loss()
				if !slices.Equal(gradient, batch.Gather(b, whole, rows)) || !slices.Equal(valueGradient, batch.Gather(b, wholeValues, rows)) {
					t.Fatalf("%s, %s: the gradient depends on the split", aggregation, cfg.Loss)
				}
			}
			if !near(loss, stats.Loss(), 1e-9) {
				t.Errorf("%s, %s: losses of the parts add up to %v: want %v", aggregation, cfg.Loss, loss, stats.Loss())
			}
		}
	}
}

// TestAggregationCheck is the worked example of the formulas.
func TestAggregationCheck(t *testing.T) {
	t.Parallel()
	b := maskBatch([][]int{{1, 1, 0}, {1, 0, 0}})
	losses := []float64{1, 2, math.NaN(), 4, math.NaN(), math.NaN()}
	for _, c := range []struct {
		aggregation string
		one         bool // both rows are one trajectory
		want        float64
	}{
		{TokenMean, false, 7.0 / 3}, {SeqMeanTokenSum, false, 3.5}, {SeqMeanTokenMean, false, 2.75},
		{TrajectoryMean, true, 7.0 / 3}, {TrajectoryMean, false, 2.75},
	} {
		b.Rows[1].TrajectoryID, b.Rows[1].InvIter = "b", 0
		if c.one {
			b.Rows[1].TrajectoryID, b.Rows[1].InvIter = "a", 1
		}
		weights, err := Weights[float64](c.aggregation, b)
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for k, w := range weights {
			if b.LossMask[k] {
				sum += w * losses[k]
			} else if w != 0 {
				t.Errorf("%s: weight %v at a token that is not trainable", c.aggregation, w)
			}
		}
		if !near(sum, c.want, 1e-7) {
			t.Errorf("%s, one trajectory %v: %v: want %v", c.aggregation, c.one, sum, c.want)
		}
	}
	if _, err := Weights[float64]("mean", b); err == nil || !strings.Contains(err.Error(), `aggregation: "mean"`) {
		t.Errorf("unknown aggregation: error %v", err)
	}
}

// TestCuttingKeepsTheWeightOfATrajectory: under token-mean and trajectory-mean a cut
// changes no weight, under seq-mean-token-sum all by one factor, and under
// seq-mean-token-mean it changes what one trajectory weighs against another; rows
// without a trainable token count for nothing under any mode.
func TestCuttingKeepsTheWeightOfATrajectory(t *testing.T) {
	t.Parallel()
	whole := maskBatch([][]int{{1, 0, 1, 1, 0, 1}, {1, 1}})
	cut := maskBatch([][]int{{1, 0, 1}, {0}, {1, 0, 1}, {1, 1}})
	for i, id := range []string{"a", "a", "a", "b"} {
		cut.Rows[i].TrajectoryID, cut.Rows[i].InvIter = id, max(0, 2-i)
	}
	for aggregation, want := range map[string]struct{ a, b float64 }{ // change of the weights in a and in b
		TokenMean: {1, 1}, TrajectoryMean: {1, 1}, SeqMeanTokenSum: {2. / 3, 2. / 3}, SeqMeanTokenMean: {4. / 3, 2. / 3},
	} {
		before, err := Weights[float64](aggregation, whole)
		if err != nil {
			t.Fatal(err)
		}
		after, err := Weights[float64](aggregation, cut)
		if err != nil {
			t.Fatal(err)
		}
		x, y := Trainable(whole.LossMask, before), Trainable(cut.LossMask, after)
		for k := range x { // four tokens of a, two of b
			factor := want.a
			if k >= 4 {
				factor = want.b
			}
			if !near(y[k], factor*x[k], 1e-7) {
				t.Errorf("%s: weights %v, after cutting %v: want %v times", aggregation, x, y, factor)
				break
			}
		}
	}
	empty, err := Weights[float64](SeqMeanTokenSum, maskBatch([][]int{{0, 0}}))
	if err != nil || !slices.Equal(empty, []float64{0, 0}) {
		t.Errorf("no trainable token: %v, %v: want zeros", empty, err)
	}
}

func TestKLShapingAtMaskedTokens(t *testing.T) {
	t.Parallel()
	b := maskBatch([][]int{{1, 0, 0, 1}})
	b.Rewards, b.OldLogProbs, b.RefLogProbs = make([]float32, 4), []float32{0, 0, 0, 0}, []float32{-1, -1, -1, -1}
	cfg := defaults()
	cfg.KLCoef, cfg.KLKind, cfg.KLIn = 1, K1, KLInReward
	if err := ShapeRewards(cfg, b); err != nil {
		t.Fatal(err)
	}
	if err := advantage.Compute(b, advantage.Config{Estimator: "reinforce++", Gamma: .9}); err != nil {
		t.Fatal(err)
	}
	if !near(float64(b.Returns[0]), -1.9, 1e-6) {
		t.Errorf("G_0 is %v: want -1.9, one decay between the two decisions", b.Returns[0])
	}
	cfg.KLIn = KLInLoss
	before := slices.Clone(b.Rewards)
	if err := ShapeRewards(cfg, b); err != nil || !slices.Equal(before, b.Rewards) {
		t.Errorf("KL in the loss changed the rewards: %v, %v", b.Rewards, err)
	}
}

func TestShapeRewardsPlacesScores(t *testing.T) {
	t.Parallel()
	b := maskBatch([][]int{{1, 1, 0}})
	b.Rows[0].Score, b.Rows[0].HasScore = 2, true
	b.OldLogProbs, b.RefLogProbs = []float32{0, 0, float32(math.NaN())}, []float32{-1, -1, -1}
	cfg := defaults()
	cfg.KLCoef, cfg.KLKind, cfg.KLIn = .5, K1, KLInReward
	if err := ShapeRewards(cfg, b); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Rewards, []float32{-.5, 1.5, 0}) {
		t.Errorf("rewards %v: want -.5 1.5 0", b.Rewards)
	}
	b.OldLogProbs[1] = float32(math.NaN())
	if err := ShapeRewards(cfg, b); err == nil || !strings.Contains(err.Error(), `"a", inv_iter 0, response token 1`) {
		t.Errorf("NaN at a trainable token: error %v", err)
	}
}

func TestNonFiniteAtTrainableTokenIsNamed(t *testing.T) {
	t.Parallel()
	b := maskBatch([][]int{{1}, {0, 1, 1}})
	fill := func() []float32 { return make([]float32, 4) }
	b.OldLogProbs, b.Advantages, b.Values, b.Returns, b.RefLogProbs, b.RolloutLogProbs = fill(), fill(), fill(), fill(), fill(), fill()
	b.Advantages[3] = 1
	weights := []float32{1, 1, 1, 1}
	cfg := defaults()
	for name, column := range map[string][]float32{"log_probs": fill(), "old_log_probs": b.OldLogProbs, "advantages": b.Advantages, "ref_log_probs": b.RefLogProbs, "rollout_log_probs": b.RolloutLogProbs, "returns": b.Returns} {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			saved := column[3]
			column[3] = float32(bad)
			logProbs := fill()
			if name == "log_probs" {
				logProbs = column
			}
			_, err := policyBatch(&cfg, b, weights, logProbs, fill())
			if name == "returns" {
				_, err = valueBatch(&cfg, b, weights, b.Values, fill())
			}
			if err == nil {
				t.Errorf("%s: no error for %v", name, bad)
			} else if want := `row 1: ` + name + `: trainable token 1: `; !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q: want %q in it", name, err, want)
			}
			column[3] = saved
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.ValueClip = 0
	var total Stats
	values, returns := []float64{1, 2, 3, 5}, []float64{1, 2, 4, 4}
	for k := range values { // four rows of one token, merged in order
		s, err := Value(&cfg, ValueTokens[float64]{Values: values[k : k+1], Returns: returns[k : k+1], Weights: []float64{.25}}, make([]float64, 1))
		if err != nil {
			t.Fatal(err)
		}
		total.Merge(s)
		logRatio := math.Log(float64(k + 1))
		s, err = Policy(&cfg, PolicyTokens[float64]{LogProbs: []float64{0}, OldLogProbs: []float64{-logRatio}, Advantages: []float64{1}, Weights: []float64{.25}, Entropies: []float64{float64(k)}}, make([]float64, 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		total.Merge(s)
	}
	m := total.Metrics()
	// Var(R) = 6.75/3, residuals 0 0 1 −1: Var = 2/3.
	if !near(m.ExplainedVariance, 1-2/6.75, 1e-12) || !near(m.ValueMean, 2.75, 1e-12) || !near(m.ReturnMean, 2.75, 1e-12) || !near(m.ValueLoss, .25, 1e-12) {
		t.Errorf("value metrics: %+v", m)
	}
	if !near(m.RatioMin, 1, 1e-6) || !near(m.RatioMax, 4, 1e-6) || !near(m.RatioP50, 3, 1e-6) || !near(m.Entropy, 1.5, 1e-12) || !near(m.ApproxKL, -math.Log(24)/4, 1e-12) || m.ClipFraction != .75 {
		t.Errorf("policy metrics: %+v", m)
	}
	if m := (&Stats{}).Metrics(); m != (Metrics{}) {
		t.Errorf("nothing collected: %+v: want zeros", m)
	}
}

// TestCombineMetrics: the metrics of parts, combined, are those of the whole, in all
// that is a mean, a sum or an extreme.
func TestCombineMetrics(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 2))
	for range 200 {
		cfg := defaults()
		cfg.KLCoef, cfg.EntropyCoef, cfg.RolloutCorrection, cfg.ValueClip = .1, .01, CorrectionTruncate, .1
		var whole Stats
		var parts []Metrics
		for range 1 + rng.IntN(5) {
			var part Stats
			for range 1 + rng.IntN(3) {
				if rng.IntN(4) > 0 { // an update may be of the critic only
					row := randomRow(rng, 1+rng.IntN(9))
					s, err := Policy(&cfg, row, make([]float64, len(row.LogProbs)), nil)
					if err != nil {
						t.Fatal(err)
					}
					part.Merge(s)
				}
				n := 1 + rng.IntN(9)
				random := func() []float64 {
					out := make([]float64, n)
					for k := range out {
						out[k] = rng.NormFloat64()
					}
					return out
				}
				s, err := Value(&cfg, ValueTokens[float64]{Values: random(), OldValues: random(), Returns: random(), Weights: random()}, make([]float64, n))
				if err != nil {
					t.Fatal(err)
				}
				part.Merge(s)
			}
			whole.Merge(part)
			parts = append(parts, part.Metrics())
		}
		got, want := CombineMetrics(parts), whole.Metrics()
		for _, loss := range want.losses() { // sums over the parts so far
			*loss /= float64(len(parts))
		}
		for _, m := range []*Metrics{&got, &want} {
			for _, x := range []*float64{&m.RatioP01, &m.RatioP50, &m.RatioP99, &m.ExplainedVariance} { // no means
				*x = 0
			}
		}
		if got.Tokens != want.Tokens || got.ValueTokens != want.ValueTokens || got.RatioMin != want.RatioMin || got.RatioMax != want.RatioMax {
			t.Fatalf("combined %+v: want %+v", got, want)
		}
		for _, fields := range []func(*Metrics) []*float64{(*Metrics).losses, (*Metrics).policyMeans, (*Metrics).valueMeans} {
			theirs := fields(&want)
			for k, x := range fields(&got) {
				if !near(*x, *theirs[k], 1e-9) {
					t.Fatalf("combined %+v: want %+v", got, want)
				}
			}
		}
	}
	if got := CombineMetrics(nil); got != (Metrics{}) {
		t.Errorf("of no updates: %+v", got)
	}
	// Learners that do not tell how many tokens they saw.
	got := CombineMetrics([]Metrics{{KL: 1, RatioP50: 2, ValueMean: 4}, {KL: 3, RatioP50: 2, ValueMean: 0}})
	if want := (Metrics{KL: 2, RatioP50: 2, ValueMean: 2}); got != want {
		t.Errorf("without tokens: %+v: want %+v", got, want)
	}
}

// TestMetricsFields: every number of Metrics is combined somewhere.
func TestMetricsFields(t *testing.T) {
	t.Parallel()
	m := Metrics{}
	combined := len(m.losses()) + len(m.policyMeans()) + len(m.valueMeans()) + len([]any{m.RatioMin, m.RatioMax, m.Tokens, m.ValueTokens})
	if n := reflect.TypeFor[Metrics]().NumField(); n != combined {
		t.Errorf("%d fields, %d of them combined", n, combined)
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	if err := defaults().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		`loss: "ppp"`:               func(c *Config) { c.Loss = "ppp" },
		"clip_low: 2":               func(c *Config) { c.ClipLow = 2 },
		"clip_high: NaN":            func(c *Config) { c.ClipHigh = math.NaN() },
		"dual_clip: 0.5":            func(c *Config) { c.DualClip = .5 },
		"value_clip: -1":            func(c *Config) { c.ValueClip = -1 },
		"kl_coef: +Inf":             func(c *Config) { c.KLCoef = math.Inf(1) },
		`kl_kind: "k4"`:             func(c *Config) { c.KLKind = "k4" },
		`kl_in: "both"`:             func(c *Config) { c.KLIn = "both" },
		"entropy_coef: NaN":         func(c *Config) { c.EntropyCoef = math.NaN() },
		`aggregation: ""`:           func(c *Config) { c.Aggregation = "" },
		`rollout_correction: "tis"`: func(c *Config) { c.RolloutCorrection = "tis" },
		"rollout_cap: 0.5":          func(c *Config) { c.RolloutCap = .5 },
	} {
		cfg := defaults()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v: want %q", err, want)
		}
	}
}

func TestColumnsMustFit(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.EntropyCoef = .1
	one := []float64{0}
	if _, err := Policy(&cfg, PolicyTokens[float64]{LogProbs: one, OldLogProbs: one, Advantages: one, Weights: one}, make([]float64, 1), nil); err == nil || !strings.Contains(err.Error(), "entropies") {
		t.Errorf("entropy bonus without entropies: error %v", err)
	}
	if _, err := Policy(&cfg, PolicyTokens[float64]{LogProbs: one, OldLogProbs: nil, Advantages: one, Weights: one}, make([]float64, 1), nil); err == nil || !strings.Contains(err.Error(), "old_log_probs") {
		t.Errorf("no old log-probs: error %v", err)
	}
	if _, err := Value(&cfg, ValueTokens[float64]{Values: one, Returns: one, Weights: one}, make([]float64, 1)); err == nil || !strings.Contains(err.Error(), "old_values") {
		t.Errorf("value clip without old values: error %v", err)
	}
}

// BenchmarkPolicy runs the loss of a row of 8192 trainable tokens. Its limit is
// one exponential a token, about 10 ns.
func BenchmarkPolicy(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	wide := randomRow(rng, 8192)
	cfg := defaults()
	row := PolicyTokens[float32]{LogProbs: convert[float32](wide.LogProbs), OldLogProbs: convert[float32](wide.OldLogProbs), Advantages: convert[float32](wide.Advantages), Weights: convert[float32](wide.Weights)}
	gradient := make([]float32, 8192)
	for b.Loop() {
		if _, err := Policy(&cfg, row, gradient, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(8192*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtoken/s")
}
