// Package policytest is the conformance suite of policy.Sampler, and a sampler as
// servers can be: late, out of order, failing now and then.
package policytest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/policy"
)

// Subject is a sampler with what the suite has to know of it.
type Subject struct {
	Sampler policy.Sampler
	// Prompts are prompts that the sampler can continue, no two alike.
	Prompts [][]int32
	// Stop ends continuations, sometimes.
	Stop [][]int32
	// Repeatable says that equal requests get equal answers.
	Repeatable bool
	// Score, if not nil, gives the log-probs of tokens after a prompt at temperature 1, to
	// within Tolerance nats of the sampler's.
	Score     func(ctx context.Context, prompt, tokens []int32) ([]float32, error)
	Tolerance float64
	// Close, if not nil, ends the sampler.
	Close func() error

	// weights is the sampler where it takes weights: Retry hides that it does.
	weights policy.WeightTaker
}

// laws are what every sampler promises, by name.
var laws = []struct {
	name string
	hold func(Subject) error
}{
	{"answers", answers},
	{"whose answer", whoseAnswer},
	{"repeats", repeats},
	{"cancellation", cancellation},
	{"bad requests", badRequests},
	{"weights", weights},
}

// Run checks a sampler law by law; each law gets one of its own from the factory.
func Run(t *testing.T, factory func() (Subject, error)) {
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			if err := hold(law.hold, factory); err != nil {
				t.Error(err)
			}
		})
	}
}

// Check returns what Run would report, joined.
func Check(factory func() (Subject, error)) error {
	var failed []error
	for _, law := range laws {
		if err := hold(law.hold, factory); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", law.name, err))
		}
	}
	return errors.Join(failed...)
}

func hold(law func(Subject) error, factory func() (Subject, error)) (err error) {
	s, err := factory()
	if err != nil {
		return err
	}
	if s.Close != nil {
		defer func() { err = errors.Join(err, s.Close()) }()
	}
	if len(s.Prompts) < 4 {
		return fmt.Errorf("%d prompts: want at least four", len(s.Prompts))
	}
	s.weights, _ = s.Sampler.(policy.WeightTaker)
	s.Sampler = policy.Retry(s.Sampler, policy.DefaultBackoff) // what servers do now and then is not against the law
	return law(s)
}

const maxTokens = 12

func (s *Subject) request(i int) policy.Request {
	return policy.Request{
		SessionID: fmt.Sprint("session ", i), Prompt: slices.Clone(s.Prompts[i%len(s.Prompts)]), MaxTokens: maxTokens, Stop: s.Stop,
		Temperature: 1, Seed: uint64(i),
	}
}

// answers checks the form of answers.
func answers(s Subject) error {
	for i := range 16 {
		r := s.request(i)
		if i%4 == 3 {
			r.Temperature = 0
		}
		before := slices.Clone(r.Prompt)
		c, err := s.Sampler.Sample(context.Background(), r)
		if err != nil {
			return err
		}
		if !slices.Equal(before, r.Prompt) {
			return fmt.Errorf("request %d: the sampler has changed the prompt", i)
		}
		if err := wellFormed(r, c); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

func wellFormed(r policy.Request, c policy.Completion) error {
	stopped := slices.ContainsFunc(r.Stop, func(stop []int32) bool {
		n := len(c.Tokens) - len(stop)
		return n >= 0 && slices.Equal(c.Tokens[n:], stop)
	})
	switch {
	case len(c.Tokens) < 1 || len(c.Tokens) > r.MaxTokens:
		return fmt.Errorf("%d tokens: want 1 to %d", len(c.Tokens), r.MaxTokens)
	case c.FinishReason != policy.FinishStop && c.FinishReason != policy.FinishLength:
		return fmt.Errorf("finish reason %q: want %s or %s", c.FinishReason, policy.FinishStop, policy.FinishLength)
	case c.FinishReason == policy.FinishStop && !stopped:
		return fmt.Errorf("it stopped, and no stop sequence ends %v", c.Tokens)
	case c.FinishReason == policy.FinishLength && stopped:
		return fmt.Errorf("a stop sequence ends %v, and the reason is the length", c.Tokens)
	case c.LogProbs != nil && len(c.LogProbs) != len(c.Tokens):
		return fmt.Errorf("%d log-probs of %d tokens: want as many, or none", len(c.LogProbs), len(c.Tokens))
	case c.FirstVersion > c.LastVersion:
		return fmt.Errorf("versions %d to %d: want them to rise", c.FirstVersion, c.LastVersion)
	}
	zeros := len(c.LogProbs) > 0
	for k, p := range c.LogProbs {
		if !(p <= 0) || math.IsInf(float64(p), 0) {
			return fmt.Errorf("log-prob %v of token %d: want a finite number up to 0", p, k)
		}
		zeros = zeros && p == 0
	}
	if zeros && len(c.Tokens) > 3 && r.Temperature > 0 {
		return errors.New("all log-probs are 0: those that are not known are nil")
	}
	return nil
}

// whoseAnswer asks many things at once: every request gets its own answer, whatever the
// order in which they come.
func whoseAnswer(s Subject) error {
	const n = 48
	completions, err := all(s, n)
	if err != nil {
		return err
	}
	for i, c := range completions {
		r := s.request(i)
		if err := wellFormed(r, c); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if s.Repeatable {
			alone, err := s.Sampler.Sample(context.Background(), r)
			if err != nil {
				return err
			}
			if !slices.Equal(alone.Tokens, c.Tokens) {
				return fmt.Errorf("request %d got %v among others and %v alone", i, c.Tokens, alone.Tokens)
			}
		}
		if s.Score == nil || c.LogProbs == nil {
			continue
		}
		scores, err := s.Score(context.Background(), r.Prompt, c.Tokens)
		if err != nil {
			return err
		}
		for k := range scores {
			if d := math.Abs(float64(scores[k] - c.LogProbs[k])); !(d <= s.Tolerance) {
				return fmt.Errorf("request %d, token %d: log-prob %v, scored after its prompt %v", i, k, c.LogProbs[k], scores[k])
			}
		}
	}
	return nil
}

// all makes n requests at once.
func all(s Subject, n int) ([]policy.Completion, error) {
	completions, failed := make([]policy.Completion, n), make([]error, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			completions[i], failed[i] = s.Sampler.Sample(context.Background(), s.request(i))
		})
	}
	close(start)
	group.Wait()
	return completions, errors.Join(failed...)
}

func repeats(s Subject) error {
	if !s.Repeatable {
		return nil
	}
	differ := false
	for i := range 8 {
		r := s.request(i)
		a, err := s.Sampler.Sample(context.Background(), r)
		if err != nil {
			return err
		}
		r.SessionID = "another"
		b, err := s.Sampler.Sample(context.Background(), r)
		if err != nil {
			return err
		}
		if !slices.Equal(a.Tokens, b.Tokens) || !slices.Equal(a.LogProbs, b.LogProbs) {
			return fmt.Errorf("request %d: %v and %v of one seed", i, a, b)
		}
		r.Seed = ^r.Seed
		c, err := s.Sampler.Sample(context.Background(), r)
		if err != nil {
			return err
		}
		differ = differ || !slices.Equal(a.Tokens, c.Tokens)
	}
	if !differ {
		return errors.New("the seed makes no difference")
	}
	return nil
}

func cancellation(s Subject) error {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stopped)
	if _, err := s.Sampler.Sample(ctx, s.request(0)); !errors.Is(err, stopped) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("under a cancelled context: error %v", err)
	}
	_, err := s.Sampler.Sample(context.Background(), s.request(0))
	return err
}

func badRequests(s Subject) error {
	for name, change := range map[string]func(*policy.Request){
		"an empty prompt": func(r *policy.Request) { r.Prompt = nil },
		"a negative id":   func(r *policy.Request) { r.Prompt = []int32{-1} },
		"no tokens":       func(r *policy.Request) { r.MaxTokens = 0 },
	} {
		r := s.request(0)
		change(&r)
		if c, err := s.Sampler.Sample(context.Background(), r); err == nil {
			return fmt.Errorf("%s: answered by %v", name, c.Tokens)
		} else if policy.IsTransient(err) {
			return fmt.Errorf("%s: %w is said to pass", name, err)
		}
	}
	return nil
}

// weights checks that completions tell the version of the weights.
func weights(s Subject) error {
	if s.weights == nil {
		return nil
	}
	for _, version := range []int64{3, 4} {
		if err := s.weights.TakeWeights(context.Background(), policy.Weights{Version: version}); err != nil {
			return err
		}
		c, err := s.Sampler.Sample(context.Background(), s.request(int(version)))
		if err != nil {
			return err
		}
		if c.FirstVersion != version || c.LastVersion != version {
			return fmt.Errorf("versions %d to %d after taking version %d", c.FirstVersion, c.LastVersion, version)
		}
	}
	return nil
}

// RandomPrompts returns prompts of ids below vocabulary.
func RandomPrompts(n, vocabulary int) [][]int32 {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	prompts := make([][]int32, n)
	for i := range prompts {
		prompts[i] = []int32{int32(i % vocabulary)}
		for range 3 + rng.IntN(12) {
			prompts[i] = append(prompts[i], rng.Int32N(int32(vocabulary)))
		}
	}
	return prompts
}
