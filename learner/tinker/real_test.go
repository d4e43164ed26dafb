package tinker_test

import (
	"context"
	"math"
	"os"
	"testing"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/learner/learnertest"
	"github.com/infinirl/infinirl/learner/tinker"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	sampling "github.com/infinirl/infinirl/policy/tinker"
	"github.com/infinirl/infinirl/ppo"
	wire "github.com/infinirl/infinirl/tinker"
)

// A real server: SkyRL's on JAX at INFINIRL_TINKER_URL, whose base model is in the folder
// INFINIRL_TINKER_MODEL, of a size that the embedded engine can load. It needs room for
// eight adapters.
func TestRealServer(t *testing.T) {
	url, folder := os.Getenv("INFINIRL_TINKER_URL"), os.Getenv("INFINIRL_TINKER_MODEL")
	if url == "" || folder == "" {
		t.Skip("INFINIRL_TINKER_URL and INFINIRL_TINKER_MODEL name no server and its base model")
	}
	ctx := context.Background()
	model, err := lm.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	client, err := wire.Dial(ctx, wire.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg := tinker.Config{Profile: tinker.SkyRLJAX, BaseModel: folder, Rank: 8, Seed: 1, Temperature: 1, Vocabulary: model.Config().VocabSize, Positions: model.Config().MaxPositionEmbeddings}
	open := func(t *testing.T) *tinker.Learner {
		t.Helper()
		l, err := tinker.NewLearner(ctx, client, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	mini := learnertest.Batch(3, cfg.Vocabulary)
	logProbs := func(t *testing.T, l learner.Scorer, b *batch.Batch) []float32 {
		t.Helper()
		p, err := l.LogProbs(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	largest := func(t *testing.T, what string, a, b []float32, most float64) {
		t.Helper()
		var d float64
		for k := range a {
			d = max(d, math.Abs(float64(a[k])-float64(b[k])))
		}
		if t.Logf("%s: %.1e", what, d); !(d <= most) {
			t.Errorf("%s: %v: want at most %v", what, d, most)
		}
	}

	update := learner.UpdateConfig{Loss: ppo.Config{Loss: ppo.LossPPO, ClipLow: 0.2, ClipHigh: 0.2, Aggregation: ppo.TrajectoryMean, KLKind: ppo.K3, KLIn: ppo.KLInLoss, RolloutCorrection: ppo.CorrectionNone, RolloutCap: 2}, LearningRate: 0.001}
	t.Run("base model", func(t *testing.T) {
		// The base model is the embedded one.
		base := logProbs(t, open(t), mini)
		here := embedded.NewReference(model, embedded.Config{Temperature: 1})
		largest(t, "log-probs of the base model, there and here", base, logProbs(t, here, mini), 1e-4)
	})
	t.Run("native and surrogate", func(t *testing.T) {
		// A plain clip by the server and by the surrogate are one.
		l := open(t)
		mini := learnertest.Batch(3, cfg.Vocabulary)
		mini.OldLogProbs = logProbs(t, l, mini)
		forced := cfg
		forced.Profile.PPO = false
		surrogate, err := tinker.NewLearner(ctx, client, forced)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			a, err := l.Update(ctx, mini, update)
			if err != nil {
				t.Fatal(err)
			}
			b, err := surrogate.Update(ctx, mini, update)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("loss %.7f natively, %.7f by the surrogate; gradient norms %.7f, %.7f; clipped %.2f", a.Metrics.Loss, b.Metrics.Loss, a.GradNorm, b.GradNorm, a.Metrics.ClipFraction)
			near(t, "loss", b.Metrics.Loss, a.Metrics.Loss, 1e-3)
			near(t, "gradient norm", b.GradNorm, a.GradNorm, 1e-2)
		}
		trained := logProbs(t, l, mini)
		largest(t, "log-probs after three updates, natively and by the surrogate", trained, logProbs(t, surrogate, mini), 1e-2)
	})
	t.Run("save and load", func(t *testing.T) {
		// What was saved is what is loaded, in another model.
		l, dir := open(t), t.TempDir()
		if _, err := l.Update(ctx, mini, update); err != nil {
			t.Fatal(err)
		}
		if err := l.Save(ctx, dir); err != nil {
			t.Fatal(err)
		}
		loaded := open(t)
		if err := loaded.Load(ctx, dir); err != nil {
			t.Fatal(err)
		}
		largest(t, "log-probs after loading", logProbs(t, loaded, mini), logProbs(t, l, mini), 1e-4)
	})
	t.Run("sampler", func(t *testing.T) {
		// The sampler samples from what the learner has.
		sampler, err := sampling.New(client, sampling.Config{Vocabulary: cfg.Vocabulary, Positions: cfg.Positions})
		if err != nil {
			t.Fatal(err)
		}
		l := open(t)
		weights, err := l.Publish(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := sampler.TakeWeights(ctx, weights); err != nil {
			t.Fatal(err)
		}
		prompt := []int32{50, 43, 50, 61}
		c, err := sampler.Sample(ctx, policy.Request{Prompt: prompt, MaxTokens: 12, Temperature: 1, Seed: 7, Stop: [][]int32{{256}}})
		if err != nil {
			t.Fatal(err)
		}
		row := &batch.Batch{Rows: []batch.Row{{TrajectoryID: "t", PromptLen: len(prompt)}}, CuSeqLens: []int64{0, int64(len(prompt) + len(c.Tokens))}, TokenIDs: append(prompt, c.Tokens...)}
		for k := range row.TokenIDs {
			row.LossMask = append(row.LossMask, k >= len(prompt))
		}
		largest(t, "log-probs of the sampler and of the learner", logProbs(t, l, row)[len(prompt):], c.LogProbs, 1e-3)
	})
	t.Run("token critic", func(t *testing.T) {
		// A critic without a role for one learns targets.
		critic, err := tinker.NewTokenCritic(ctx, client, cfg, 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		for k := range mini.Returns {
			mini.Returns[k] = 0.9
		}
		error2 := func() (sum float64) {
			v, err := critic.Values(ctx, mini)
			if err != nil {
				t.Fatal(err)
			}
			for k, trainable := range mini.LossMask {
				if trainable {
					sum += math.Pow(float64(v[k])-0.9, 2)
				}
			}
			return sum
		}
		before := error2()
		for range 10 {
			if _, err := critic.Update(ctx, mini, update); err != nil {
				t.Fatal(err)
			}
		}
		after := error2()
		if t.Logf("squared error of the token critic: %.3f, after ten updates %.3f", before, after); !(after < before/2) {
			t.Errorf("squared error %v, after ten updates %v", before, after)
		}
	})
}
