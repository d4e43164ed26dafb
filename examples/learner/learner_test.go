package learner

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/learnertest"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/policytest"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/train"
)

const size = 17

func TestLearner(t *testing.T) {
	t.Parallel()
	learnertest.Run(t, func() (learnertest.Subject, error) {
		return learnertest.Subject{Learner: NewBigram(size, 0.8), Vocabulary: size, LearningRate: 0.5, Tolerance: 1e-6}, nil
	})
}

// taught returns a policy that is no longer uniform.
func taught(t testing.TB, temperature float64) *Bigram {
	t.Helper()
	b := NewBigram(size, temperature)
	for seed := range uint64(20) {
		if _, err := b.Update(context.Background(), learnertest.Batch(seed, size), update(ppo.LossPG)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Publish(context.Background()); err != nil {
		t.Fatal(err)
	}
	return b
}

func update(loss string) learner.UpdateConfig {
	return learner.UpdateConfig{LearningRate: 3, Loss: ppo.Config{Loss: loss, ClipLow: 0.2, ClipHigh: 0.2, KLKind: ppo.K3, KLIn: ppo.KLInLoss,
		Aggregation: ppo.TokenMean, RolloutCorrection: ppo.CorrectionNone, RolloutCap: 2}}
}

func TestSampler(t *testing.T) {
	t.Parallel()
	b := taught(t, 1)
	score := func(ctx context.Context, prompt, tokens []int32) ([]float32, error) {
		of := &batch.Batch{Rows: []batch.Row{{PromptLen: len(prompt)}}, TokenIDs: append(append([]int32{}, prompt...), tokens...)}
		of.CuSeqLens, of.LossMask = []int64{0, int64(len(of.TokenIDs))}, make([]bool, len(of.TokenIDs))
		for t := len(prompt); t < len(of.TokenIDs); t++ {
			of.LossMask[t] = true
		}
		column, err := b.LogProbs(ctx, of)
		return column[len(prompt):], err
	}
	policytest.Run(t, func() (policytest.Subject, error) {
		return policytest.Subject{Sampler: b.Sampler(), Prompts: policytest.RandomPrompts(8, size), Stop: [][]int32{{3}, {4, 5}},
			Repeatable: true, Score: score, Tolerance: 1e-6}, nil
	})
}

// A sampler samples from what it has taken, whatever the learner does meanwhile.
func TestTheSamplerKeepsItsWeights(t *testing.T) {
	t.Parallel()
	b := NewBigram(size, 1)
	s := b.Sampler()
	ctx, ask := context.Background(), policy.Request{Prompt: []int32{1}, MaxTokens: 1, Temperature: 1}
	want := -math.Log(size)
	check := func(when string, uniform bool, version int64) {
		t.Helper()
		c, err := s.Sample(ctx, ask)
		if err != nil || (math.Abs(float64(c.LogProbs[0])-want) < 1e-6) != uniform || c.LastVersion != version {
			t.Errorf("%s: %+v, error %v", when, c, err)
		}
	}
	for seed := range uint64(5) {
		if _, err := b.Update(ctx, learnertest.Batch(seed, size), update(ppo.LossPG)); err != nil {
			t.Fatal(err)
		}
	}
	check("after updates", true, 0)
	w, err := b.Publish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	check("after publishing", true, 0)
	if err := s.TakeWeights(ctx, w); err != nil {
		t.Fatal(err)
	}
	check("after taking", false, 5)
	if err := s.TakeWeights(ctx, policy.Weights{Location: "/elsewhere"}); err == nil {
		t.Error("weights from elsewhere are taken")
	}
}

// The gradient is that of the loss, by finite differences, entropy bonus, KL and
// temperature included. With a first step of momentum it is what the step went along.
func TestGradient(t *testing.T) {
	t.Parallel()
	ctx, mini := context.Background(), learnertest.Batch(3, size)
	cfg := update(ppo.LossPPO)
	cfg.Loss.EntropyCoef, cfg.Loss.KLCoef, cfg.LearningRate = 0.3, 0.2, 0
	base := taught(t, 0.7)
	clear(base.velocity)
	var err error
	if mini.OldLogProbs, err = base.LogProbs(ctx, mini); err != nil {
		t.Fatal(err)
	}
	mini.RefLogProbs, _ = NewBigram(size, 0.7).LogProbs(ctx, mini)
	loss := func() float64 {
		b := &Bigram{size: size, temperature: 0.7, logits: base.logits, velocity: make([]float32, len(base.velocity))} // the rate is 0
		result, err := b.Update(ctx, mini, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return result.Metrics.Loss
	}
	if _, err := base.Update(ctx, mini, cfg); err != nil {
		t.Fatal(err)
	}
	gradient, checked := append([]float32{}, base.velocity...), 0
	for j := 0; j < len(base.logits); j += 5 {
		const h = 1.0 / 64
		old := base.logits[j]
		base.logits[j] = old + h
		up := loss()
		base.logits[j] = old - h
		down := loss()
		base.logits[j] = old
		if want := (up - down) / (2 * h); math.Abs(want-float64(gradient[j])) > 2e-5+1e-2*math.Abs(want) {
			t.Errorf("logit %d: gradient %v, by finite differences %v", j, gradient[j], want)
		}
		if gradient[j] != 0 {
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("only %d gradients are not 0", checked)
	}
}

func TestErrorsLeaveTheWeights(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), taught(t, 1)
	before := append([]float32{}, b.logits...)
	for name, change := range map[string]func(*batch.Batch){
		"nothing to predict from": func(m *batch.Batch) { m.LossMask[0] = true },
		"an id too large":         func(m *batch.Batch) { m.TokenIDs[m.Tokens()-1], m.LossMask[m.Tokens()-1] = size, true },
		"advantages: ":            func(m *batch.Batch) { m.Advantages[m.Rows[0].PromptLen] = float32(math.NaN()) },
	} {
		mini := learnertest.Batch(3, size)
		change(mini)
		if _, err := b.Update(ctx, mini, update(ppo.LossPG)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	dir := t.TempDir()
	if err := NewBigram(size+1, 1).Save(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if err := b.Load(ctx, dir); err == nil || !strings.Contains(err.Error(), "want [17 17]") {
		t.Errorf("weights of another shape: error %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("no such format"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.Load(ctx, dir); err == nil {
		t.Error("a broken file is loaded")
	}
	for j := range before {
		if b.logits[j] != before[j] {
			t.Fatal("an update or a load that failed has changed the weights")
		}
	}
}

// The loop takes it as it takes any other, updates it, and goes on from its checkpoints.
// (A policy that looks at one token earns nothing here.)
func TestTraining(t *testing.T) {
	t.Parallel()
	cfg, err := config.Shipped("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"advantage.estimator=reinforce++", "rollout.groups=4", "rollout.max_turns=4", "train.steps=2", "train.actor_lr=1", "eval.tasks=4"} {
		if err := cfg.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	condenser, err := condense.New(cfg.Condenser(cfg.Condense.Rule))
	if err != nil {
		t.Fatal(err)
	}
	world := keytodoor.World()
	open := func() (*Bigram, *train.Trainer) {
		b := NewBigram(world.VocabularySize, cfg.Rollout.Temperature)
		trainer, err := train.New(train.Parts{Tasks: world.Tasks, Renderer: world.Renderer, Condenser: condenser, Learner: b, Sampler: b.Sampler()}, cfg.Loop())
		if err != nil {
			t.Fatal(err)
		}
		return b, trainer
	}
	dir := filepath.Join(t.TempDir(), "run")
	b, trainer := open()
	summary, err := trainer.Run(context.Background(), train.Options{Dir: dir, Description: []byte("{}\n")})
	if err != nil {
		t.Fatal(err)
	}
	updates := int64(2 * cfg.Train.Epochs * cfg.Train.Minibatches)
	if summary.Steps != 2 || b.Version() != updates {
		t.Errorf("%d steps and %d updates, want 2 and %d", summary.Steps, b.Version(), updates)
	}
	cfg.Train.Steps = 3
	again, trainer := open()
	if _, err := trainer.Run(context.Background(), train.Options{Dir: dir, Resume: true}); err != nil {
		t.Fatal(err)
	}
	if want := updates / 2 * 3; again.Version() != want {
		t.Errorf("%d updates after resuming for one more step, want %d", again.Version(), want)
	}
}
