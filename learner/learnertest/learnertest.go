// Package learnertest is the conformance suite of learner.Learner and learner.Critic,
// and a learner at the far end of a slow connection.
package learnertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/ppo"
)

// Subject is a learner, and a critic if there is one, with what the suite has to know
// of them. The factory gives the same ones every time.
type Subject struct {
	Learner learner.Learner
	Critic  learner.Critic
	// Vocabulary is the number of ids.
	Vocabulary int
	// LearningRate is one at which an update makes a difference.
	LearningRate float64
	// Tolerance bounds the rounding of log-probs and values, in nats.
	Tolerance float64
}

var laws = []struct {
	name string
	hold func(factory func() (Subject, error)) error
}{
	{"log-probs", logProbs},
	{"values", values},
	{"updates", updates},
	{"every row", everyRow},
	{"critic", critic},
	{"save and load", saveAndLoad},
	{"cancellation", cancellation},
}

// Run checks learners law by law.
func Run(t *testing.T, factory func() (Subject, error)) {
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			if err := law.hold(factory); err != nil {
				t.Error(err)
			}
		})
	}
}

// Check returns what Run would report, joined.
func Check(factory func() (Subject, error)) error {
	var failed []error
	for _, law := range laws {
		if err := law.hold(factory); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", law.name, err))
		}
	}
	return errors.Join(failed...)
}

// Batch returns a batch of random trajectories of several segments, with log-probs,
// advantages, values and returns.
func Batch(seed uint64, vocabulary int) *batch.Batch {
	rng := rand.New(rand.NewPCG(seed, 2))
	b := &batch.Batch{CuSeqLens: []int64{0}}
	for id := range 3 {
		segments := 1 + rng.IntN(3)
		for k := range segments {
			prompt, response := 2+rng.IntN(5), 3+rng.IntN(5)
			b.Rows = append(b.Rows, batch.Row{TrajectoryID: fmt.Sprint(id), GroupID: "g", InvIter: segments - 1 - k, PromptLen: prompt})
			for t := range prompt + response {
				trainable := t >= prompt && (t == prompt || rng.IntN(3) > 0)
				b.TokenIDs = append(b.TokenIDs, rng.Int32N(int32(vocabulary)))
				b.LossMask = append(b.LossMask, trainable)
				column := func(c *[]float32, x float64) {
					if !trainable {
						x = 0
					}
					*c = append(*c, float32(x))
				}
				column(&b.OldLogProbs, -math.Log(float64(vocabulary)))
				column(&b.Advantages, rng.NormFloat64())
				column(&b.Values, 0.1*rng.NormFloat64())
				column(&b.Returns, rng.NormFloat64())
			}
			b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
		}
	}
	return b
}

func (s *Subject) update() learner.UpdateConfig {
	return learner.UpdateConfig{
		Loss: ppo.Config{Loss: ppo.LossPG, ClipLow: 0.2, ClipHigh: 0.2, KLKind: ppo.K3, KLIn: ppo.KLInLoss, Aggregation: ppo.TokenMean,
			RolloutCorrection: ppo.CorrectionNone, RolloutCap: 2},
		LearningRate: s.LearningRate,
	}
}

// column checks the form of a token column that a learner gave, and that each row's
// part does not depend on the other rows or on their order.
func column(b *batch.Batch, tolerance float64, least, most float64, of func(*batch.Batch) ([]float32, error)) error {
	whole, err := of(b)
	if err != nil {
		return err
	}
	if len(whole) != b.Tokens() {
		return fmt.Errorf("%d entries for %d tokens", len(whole), b.Tokens())
	}
	for t, x := range whole {
		switch {
		case !b.LossMask[t] && x != 0:
			return fmt.Errorf("token %d, not trainable: %v, want 0", t, x)
		case b.LossMask[t] && !(float64(x) >= least && float64(x) <= most):
			return fmt.Errorf("token %d: %v, want a number from %v to %v", t, x, least, most)
		}
	}
	order := rand.New(rand.NewPCG(3, 3)).Perm(len(b.Rows))
	shuffled, err := of(b.Select(order))
	if err != nil {
		return err
	}
	want := batch.Gather(b, whole, order)
	if len(shuffled) != len(want) {
		return fmt.Errorf("%d entries for %d tokens of the rows in another order", len(shuffled), len(want))
	}
	for t := range want {
		if !near(shuffled[t], want[t], tolerance) {
			return fmt.Errorf("token %d of the rows in another order: %v, want %v", t, shuffled[t], want[t])
		}
	}
	return nil
}

func near(a, b float32, tolerance float64) bool { return math.Abs(float64(a)-float64(b)) <= tolerance }

func logProbs(factory func() (Subject, error)) error {
	s, err := factory()
	if err != nil {
		return err
	}
	return column(Batch(1, s.Vocabulary), s.Tolerance, -1e3, 0, func(b *batch.Batch) ([]float32, error) {
		return s.Learner.LogProbs(context.Background(), b)
	})
}

func values(factory func() (Subject, error)) error {
	s, err := factory()
	if err != nil || s.Critic == nil {
		return err
	}
	ctx := context.Background()
	mini := Batch(2, s.Vocabulary)
	if _, err := s.Critic.Update(ctx, mini, s.update()); err != nil { // a fresh head may be 0
		return err
	}
	if err := column(mini, s.Tolerance, -1e3, 1e3, func(b *batch.Batch) ([]float32, error) { return s.Critic.Values(ctx, b) }); err != nil {
		return err
	}
	// V_t is the value of the prompt that ends before t.
	column, err := s.Critic.Values(ctx, mini)
	if err != nil {
		return err
	}
	var prompts [][]int32
	var want []float32
	for i := range mini.Rows {
		start, _ := mini.Span(i)
		first := start + mini.Rows[i].PromptLen
		prompts, want = append(prompts, mini.TokenIDs[start:first]), append(want, column[first])
	}
	got, err := s.Critic.StateValues(ctx, prompts)
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d values of %d states", len(got), len(want))
	}
	for i := range want {
		if !near(got[i], want[i], s.Tolerance) {
			return fmt.Errorf("state %d: value %v, the critic gives %v at the token after it", i, got[i], want[i])
		}
	}
	return nil
}

// updates checks that learning goes the right way, counts, and is reported.
func updates(factory func() (Subject, error)) error {
	s, err := factory()
	if err != nil {
		return err
	}
	ctx := context.Background()
	mini := Batch(4, s.Vocabulary)
	trainable := 0
	for t, m := range mini.LossMask {
		if m {
			mini.Advantages[t] = 1
			trainable++
		}
	}
	before, err := s.Learner.LogProbs(ctx, mini)
	if err != nil {
		return err
	}
	version := s.Learner.Version()
	for n := range int64(3) {
		result, err := s.Learner.Update(ctx, mini, s.update())
		if err != nil {
			return err
		}
		if got := s.Learner.Version(); got != version+n+1 {
			return fmt.Errorf("version %d after %d updates of version %d", got, n+1, version)
		}
		if result.Metrics.Tokens != 0 && result.Metrics.Tokens != trainable {
			return fmt.Errorf("metrics of %d tokens, %d are trainable", result.Metrics.Tokens, trainable)
		}
		if !(result.GradNorm >= 0) || math.IsInf(result.GradNorm, 0) {
			return fmt.Errorf("gradient norm %v", result.GradNorm)
		}
	}
	weights, err := s.Learner.Publish(ctx)
	if err != nil {
		return err
	}
	if weights.Version != s.Learner.Version() {
		return fmt.Errorf("published version %d, the learner is at %d", weights.Version, s.Learner.Version())
	}
	after, err := s.Learner.LogProbs(ctx, mini)
	if err != nil {
		return err
	}
	if a, b := total(before), total(after); !(b > a) {
		return fmt.Errorf("three updates towards what was sampled took its log-prob from %v to %v", a, b)
	}
	return nil
}

func total(column []float32) (sum float64) {
	for _, x := range column {
		sum += float64(x)
	}
	return sum
}

// everyRow checks that each row of a mini-batch counts: with its advantages turned
// around, the update is another one.
func everyRow(factory func() (Subject, error)) error {
	ctx := context.Background()
	after := func(turned int) ([]float32, error) {
		s, err := factory()
		if err != nil {
			return nil, err
		}
		mini := Batch(5, s.Vocabulary)
		if turned >= 0 {
			start, end := mini.Span(turned)
			for t := start; t < end; t++ {
				mini.Advantages[t] = -3 * mini.Advantages[t]
			}
		}
		if _, err := s.Learner.Update(ctx, mini, s.update()); err != nil {
			return nil, err
		}
		return s.Learner.LogProbs(ctx, mini)
	}
	want, err := after(-1)
	if err != nil {
		return err
	}
	again, err := after(-1)
	if err != nil {
		return err
	}
	noise := distance(want, again)
	s, err := factory()
	if err != nil {
		return err
	}
	for i := range Batch(5, s.Vocabulary).Rows {
		got, err := after(i)
		if err != nil {
			return err
		}
		if d := distance(want, got); !(d > 10*noise && d > 1e-7) {
			return fmt.Errorf("row %d makes no difference to an update (%g, between equal updates %g)", i, d, noise)
		}
	}
	return nil
}

func distance(a, b []float32) (largest float64) {
	for t := range a {
		largest = max(largest, math.Abs(float64(a[t])-float64(b[t])))
	}
	return largest
}

// critic checks that the critic learns its targets.
func critic(factory func() (Subject, error)) error {
	s, err := factory()
	if err != nil || s.Critic == nil {
		return err
	}
	ctx := context.Background()
	mini := Batch(6, s.Vocabulary)
	loss := func() (float64, error) {
		v, err := s.Critic.Values(ctx, mini)
		if err != nil {
			return 0, err
		}
		var sum float64
		for t, m := range mini.LossMask {
			if m {
				sum += math.Pow(float64(v[t])-float64(mini.Returns[t]), 2)
			}
		}
		return sum, nil
	}
	before, err := loss()
	if err != nil {
		return err
	}
	for range 20 {
		if _, err := s.Critic.Update(ctx, mini, s.update()); err != nil {
			return err
		}
	}
	after, err := loss()
	if err != nil {
		return err
	}
	if !(after < before) {
		return fmt.Errorf("twenty updates took the squared error from %v to %v", before, after)
	}
	return nil
}

// saveAndLoad checks that a learner that was saved and loaded goes on as the first.
func saveAndLoad(factory func() (Subject, error)) (err error) {
	ctx := context.Background()
	s, err := factory()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "learnertest-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	mini := Batch(7, s.Vocabulary)
	step := func(s Subject) error {
		if _, err := s.Learner.Update(ctx, mini, s.update()); err != nil {
			return err
		}
		if s.Critic == nil {
			return nil
		}
		_, err := s.Critic.Update(ctx, mini, s.update())
		return err
	}
	outputs := func(s Subject) ([]float32, error) {
		out, err := s.Learner.LogProbs(ctx, mini)
		if err != nil || s.Critic == nil {
			return out, err
		}
		v, err := s.Critic.Values(ctx, mini)
		return slices.Concat(out, v), err
	}
	if err := step(s); err != nil {
		return err
	}
	if err := s.Learner.Save(ctx, dir); err != nil {
		return err
	}
	if s.Critic != nil {
		if err := s.Critic.Save(ctx, dir); err != nil {
			return err
		}
	}
	loaded, err := factory()
	if err != nil {
		return err
	}
	if err := loaded.Learner.Load(ctx, dir); err != nil {
		return err
	}
	if loaded.Critic != nil {
		if err := loaded.Critic.Load(ctx, dir); err != nil {
			return err
		}
	}
	if a, b := s.Learner.Version(), loaded.Learner.Version(); a != b {
		return fmt.Errorf("version %d is %d after loading", a, b)
	}
	for n := range 2 { // as loaded, and after one more update of each
		a, err := outputs(s)
		if err != nil {
			return err
		}
		b, err := outputs(loaded)
		if err != nil {
			return err
		}
		if d := distance(a, b); d > s.Tolerance {
			return fmt.Errorf("%d updates after loading, log-probs or values differ by %g", n, d)
		}
		if err := errors.Join(step(s), step(loaded)); err != nil {
			return err
		}
	}
	return nil
}

func cancellation(factory func() (Subject, error)) error {
	s, err := factory()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	mini := Batch(8, s.Vocabulary)
	before, err := s.Learner.LogProbs(context.Background(), mini)
	if err != nil {
		return err
	}
	if _, err := s.Learner.LogProbs(ctx, mini); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("log-probs under a cancelled context: error %v", err)
	}
	if _, err := s.Learner.Update(ctx, mini, s.update()); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("an update under a cancelled context: error %v", err)
	}
	after, err := s.Learner.LogProbs(context.Background(), mini)
	if err != nil {
		return err
	}
	if distance(before, after) > s.Tolerance {
		return errors.New("an update that was cancelled has changed the weights")
	}
	return nil
}
