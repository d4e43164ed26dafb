package embedded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/learner/learnertest"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/ppo"
)

func base(t *testing.T) *lm.Model {
	t.Helper()
	m, err := lm.NewActor(lm.Config{VocabSize: 19, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 2, NumAttentionHeads: 2,
		MaxPositionEmbeddings: 64, InitializerRange: 0.2, EmbeddingInit: 0.5}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func actor(t *testing.T, base *lm.Model, l lm.LoRA) *embedded.Actor {
	t.Helper()
	a, err := embedded.NewActor(base, embedded.Config{Threads: 2, Temperature: 1, MaxGradNorm: 1, LoRA: l})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func step(t *testing.T, a *embedded.Actor) {
	t.Helper()
	_, err := a.Update(t.Context(), learnertest.Batch(1, 19), learner.UpdateConfig{
		Loss:         ppo.Config{Loss: ppo.LossPG, Aggregation: ppo.TokenMean, RolloutCorrection: ppo.CorrectionNone},
		LearningRate: 0.05,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The reference stays the base while the adapter is trained, and the sampler, which shares
// the base, samples from what was trained.
func TestAdapterSharesTheBase(t *testing.T) {
	t.Parallel()
	m := base(t)
	a := actor(t, m, lm.LoRA{Rank: 2})
	reference := embedded.NewReference(m, embedded.Config{Temperature: 1})
	mini := learnertest.Batch(1, 19)
	before, err := reference.LogProbs(t.Context(), mini)
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := a.Sampler(lm.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer sampler.Close()
	sample := func() policy.Completion {
		c, err := sampler.Sample(t.Context(), policy.Request{SessionID: "s", Prompt: []int32{3, 4, 5}, MaxTokens: 1, Temperature: 1, Seed: 2})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := sample()
	for range 3 {
		step(t, a)
	}
	weights, err := a.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := sampler.TakeWeights(t.Context(), weights); err != nil {
		t.Fatal(err)
	}
	c := sample()
	if c.LastVersion != 3 || c.LogProbs[0] == first.LogProbs[0] {
		t.Errorf("version %d, log-prob %g before and %g after three updates", c.LastVersion, first.LogProbs[0], c.LogProbs[0])
	}
	row := []lm.Sequence{{Tokens: append([]int32{3, 4, 5}, c.Tokens...), Targets: []int32{3}}}
	out := [][]float32{{0}}
	if err := a.Model().LogProbs(t.Context(), row, 1, out, nil); err != nil || out[0][0] != c.LogProbs[0] {
		t.Errorf("the sampler's log-prob is %g, the learner's %g, error %v", c.LogProbs[0], out[0][0], err)
	}
	after, err := reference.LogProbs(t.Context(), mini)
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		if before[i] != after[i] {
			t.Fatalf("token %d: the reference's log-prob went from %g to %g", i, before[i], after[i])
		}
	}
}

// What does not fit a learner is refused when it is loaded.
func TestLoadOfOtherWeights(t *testing.T) {
	t.Parallel()
	m := base(t)
	save := func(a *embedded.Actor) string {
		dir := t.TempDir()
		step(t, a)
		if err := a.Save(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	full, two := save(actor(t, m, lm.LoRA{})), save(actor(t, m, lm.LoRA{Rank: 2}))
	other := base(t)
	changed := actor(t, other, lm.LoRA{})
	step(t, changed)
	for _, c := range []struct {
		into *embedded.Actor
		dir  string
		want string
	}{
		{actor(t, m, lm.LoRA{}), two, "holds an adapter"},
		{actor(t, m, lm.LoRA{Rank: 2}), full, "want an adapter of rank 2"},
		{actor(t, m, lm.LoRA{Rank: 3}), two, "want rank 3"},
		{actor(t, m, lm.LoRA{Rank: 2, Alpha: 1}), two, "want rank 2, alpha 1"},
		{actor(t, changed.Model(), lm.LoRA{Rank: 2}), two, "base with other weights"},
	} {
		if err := c.into.Load(t.Context(), c.dir); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(two, embedded.ActorName, "adapter_model.safetensors")); err != nil {
		t.Error(err)
	}
}

// TakeActor trains in place what NewActor copies, with the same result.
func TestTakeActor(t *testing.T) {
	t.Parallel()
	m := base(t)
	copied := actor(t, m, lm.LoRA{})
	taken, err := embedded.TakeActor(m, embedded.Config{Threads: 2, Temperature: 1, MaxGradNorm: 1})
	if err != nil {
		t.Fatal(err)
	}
	if taken.Model() != m || copied.Model() == m {
		t.Error("TakeActor copies, or NewActor does not")
	}
	step(t, copied)
	step(t, taken)
	mini := learnertest.Batch(1, 19)
	a, err := copied.LogProbs(t.Context(), mini)
	if err != nil {
		t.Fatal(err)
	}
	b, err := taken.LogProbs(t.Context(), mini)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("token %d: log-prob %g and %g", i, a[i], b[i])
		}
	}
}
