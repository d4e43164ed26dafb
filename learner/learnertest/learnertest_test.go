package learnertest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/learner/learnertest"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/ppo"
)

func subject() (learnertest.Subject, error) { return subjectOf(lm.LoRA{}) }

func subjectOf(l lm.LoRA) (learnertest.Subject, error) {
	base, err := lm.NewActor(lm.Config{VocabSize: 19, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 2, NumAttentionHeads: 2,
		MaxPositionEmbeddings: 64, InitializerRange: 0.2, EmbeddingInit: 0.5}, 1)
	if err != nil {
		return learnertest.Subject{}, err
	}
	cfg := embedded.Config{Threads: 2, Temperature: 1, MaxGradNorm: 1, LoRA: l}
	actor, err := embedded.NewActor(base, cfg)
	if err != nil {
		return learnertest.Subject{}, err
	}
	critic, err := embedded.NewCritic(base, cfg)
	return learnertest.Subject{Learner: actor, Critic: critic, Vocabulary: 19, LearningRate: 0.01, Tolerance: 1e-6}, err
}

func TestEmbedded(t *testing.T) { learnertest.Run(t, subject) }

func TestEmbeddedLoRA(t *testing.T) {
	for _, l := range []lm.LoRA{{Rank: 4}, {Rank: 1, Alpha: 8, Targets: []string{"q_proj", "v_proj"}}} {
		learnertest.Run(t, func() (learnertest.Subject, error) { return subjectOf(l) })
	}
}

func TestRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := learnertest.Check(func() (learnertest.Subject, error) {
			s, err := subject()
			wire := learnertest.Wire{Latency: 50 * time.Millisecond}
			s.Learner, s.Critic = learnertest.Remote{Learner: s.Learner, Wire: wire}, learnertest.RemoteCritic{Critic: s.Critic, Wire: wire}
			return s, err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// Each mutant breaks one promise, and the suite says which.
func TestMutantsFail(t *testing.T) {
	t.Parallel()
	for _, mutant := range []struct {
		name, want string
		change     func(learner.Learner) learner.Learner
	}{
		{"a row is dropped", "every row: row", func(l learner.Learner) learner.Learner { return dropping{l} }},
		{"log-probs in the order of other rows", "rows in another order", func(l learner.Learner) learner.Learner { return &sorted{Learner: l} }},
		{"updates that do not count", "updates: version", func(l learner.Learner) learner.Learner { return still{l} }},
		{"advantages turned around", "took its log-prob", func(l learner.Learner) learner.Learner { return backwards{l} }},
		{"other weights saved", "after loading", func(l learner.Learner) learner.Learner { return forgetful{l} }},
	} {
		err := learnertest.Check(func() (learnertest.Subject, error) {
			s, err := subject()
			s.Learner = mutant.change(s.Learner)
			return s, err
		})
		if err == nil || !strings.Contains(err.Error(), mutant.want) {
			t.Errorf("%s: error %v, want %q", mutant.name, err, mutant.want)
		}
	}
}

// dropping leaves out the last row of every mini-batch.
type dropping struct{ learner.Learner }

func (d dropping) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (learner.UpdateResult, error) {
	return d.Learner.Update(ctx, mini.Select(first(len(mini.Rows)-1)), cfg)
}

// sorted answers the second time as it did the first.
type sorted struct {
	learner.Learner
	first []float32
}

func (s *sorted) LogProbs(ctx context.Context, b *batch.Batch) ([]float32, error) {
	if s.first != nil && len(s.first) == b.Tokens() {
		return s.first, nil
	}
	var err error
	s.first, err = s.Learner.LogProbs(ctx, b)
	return s.first, err
}

type still struct{ learner.Learner }

func (still) Version() int64 { return 0 }

type backwards struct{ learner.Learner }

func (w backwards) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (learner.UpdateResult, error) {
	mini = mini.Select(first(len(mini.Rows)))
	for t := range mini.Advantages {
		mini.Advantages[t] = -mini.Advantages[t]
	}
	return w.Learner.Update(ctx, mini, cfg)
}

// forgetful saves the weights of another learner.
type forgetful struct{ learner.Learner }

func (f forgetful) Save(ctx context.Context, dir string) error {
	s, err := subject()
	if err != nil {
		return err
	}
	for range f.Version() { // of the same count
		if _, err := s.Learner.Update(ctx, learnertest.Batch(1, 19), learner.UpdateConfig{Loss: ppo.Config{Loss: ppo.LossPG, Aggregation: ppo.TokenMean, RolloutCorrection: ppo.CorrectionNone}, LearningRate: 0.01}); err != nil {
			return err
		}
	}
	return s.Learner.Save(ctx, dir)
}

// first lists the first n rows.
func first(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}
