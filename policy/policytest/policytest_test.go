package policytest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/policytest"
	"github.com/infinirl/infinirl/policy/scripted"
)

const vocabulary = 23

// embedded is a small model of the embedded engine.
func embedded() (policytest.Subject, error) {
	model, err := lm.NewActor(lm.Config{VocabSize: vocabulary, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 2, NumAttentionHeads: 2,
		MaxPositionEmbeddings: 64, InitializerRange: 0.3, EmbeddingInit: 0.5}, 1)
	if err != nil {
		return policytest.Subject{}, err
	}
	model.Threads = 2
	sampler, err := lm.NewSampler(model, lm.Options{Threads: 2})
	if err != nil {
		return policytest.Subject{}, err
	}
	score := func(ctx context.Context, prompt, tokens []int32) ([]float32, error) {
		row := lm.Sequence{Tokens: append(append([]int32{}, prompt...), tokens...)}
		for i := range tokens {
			row.Targets = append(row.Targets, int32(len(prompt)+i))
		}
		out := [][]float32{make([]float32, len(tokens))}
		err := model.LogProbs(ctx, []lm.Sequence{row}, 1, out, nil)
		return out[0], err
	}
	return policytest.Subject{Sampler: sampler, Prompts: policytest.RandomPrompts(8, vocabulary), Stop: [][]int32{{3}, {4, 5}},
		Repeatable: true, Score: score, Tolerance: 1e-6, Close: sampler.Close}, nil
}

// wrapped is the embedded one inside another.
func wrapped(wrap func(policytest.Subject) policytest.Subject) func() (policytest.Subject, error) {
	return func() (policytest.Subject, error) {
		s, err := embedded()
		if err != nil {
			return s, err
		}
		return wrap(s), nil
	}
}

func hostile(s policytest.Subject) policytest.Subject {
	s.Sampler = policytest.NewHostile(s.Sampler, 1)
	return s
}

func translated(s policytest.Subject) policytest.Subject {
	tokens := policytest.NewPermutation(vocabulary, 5)
	s.Sampler = policytest.Translated{Inside: s.Sampler, Tokens: tokens}
	for i := range s.Prompts {
		s.Prompts[i] = tokens.To(s.Prompts[i])
	}
	for i := range s.Stop {
		s.Stop[i] = tokens.To(s.Stop[i])
	}
	inside := s.Score
	s.Score = func(ctx context.Context, prompt, ids []int32) ([]float32, error) {
		return inside(ctx, tokens.From(prompt), tokens.From(ids))
	}
	return s
}

// demonstrator is a scripted policy: it answers without log-probs.
func demonstrator() (policytest.Subject, error) {
	world := keytodoor.World()
	s := policytest.Subject{Sampler: scripted.New(world.Renderer, world.Demonstrator), Stop: world.Renderer.Stop(), Repeatable: true}
	for i := range 8 {
		e := world.Tasks.New(0)
		o, err := e.Reset(context.Background(), world.Tasks.Task(env.Eval, i))
		if err != nil {
			return s, err
		}
		prompt, err := world.Renderer.Start(o.Messages, o.Tools)
		if err != nil {
			return s, err
		}
		look, err := world.Expert().Act(o.Messages)
		if err != nil {
			return s, err
		}
		if o, err = e.Step(context.Background(), look); err != nil { // now there is a key to choose
			return s, err
		}
		if prompt, err = world.Renderer.Extend(prompt, append([]chat.Message{look}, o.Messages...)); err != nil {
			return s, err
		}
		s.Prompts = append(s.Prompts, append(prompt, world.Renderer.GenerationPrefix()...))
	}
	return s, nil
}

func TestEmbedded(t *testing.T)   { policytest.Run(t, embedded) }
func TestTranslated(t *testing.T) { policytest.Run(t, wrapped(translated)) }
func TestScripted(t *testing.T)   { policytest.Run(t, demonstrator) }

// What a hostile server does is made up for by asking again.
func TestHostile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := policytest.Check(wrapped(hostile)); err != nil {
			t.Error(err)
		}
	})
}

// Each mutant breaks one promise, and the suite says which.
func TestMutantsFail(t *testing.T) {
	for _, mutant := range []struct {
		name, want string
		wrap       func(policy.Sampler) policy.Sampler
	}{
		{"answers of two requests swapped", "whose answer", func(s policy.Sampler) policy.Sampler { return &swapping{Sampler: late{s}} }},
		{"zeros for unknown log-probs", "all log-probs are 0", changing(func(c *policy.Completion) { clear(c.LogProbs) })},
		{"one log-prob missing", "log-probs of", changing(func(c *policy.Completion) { c.LogProbs = c.LogProbs[1:] })},
		{"a stop that is none", "no stop sequence", changing(func(c *policy.Completion) { c.FinishReason = policy.FinishStop })},
		{"an old version", "weights", changing(func(c *policy.Completion) { c.FirstVersion, c.LastVersion = 0, 0 })},
		{"more tokens than asked for", "tokens: want 1 to", changing(func(c *policy.Completion) {
			c.Tokens = append(c.Tokens, c.Tokens...)
			for len(c.Tokens) <= 12 {
				c.Tokens = append(c.Tokens, c.Tokens...)
			}
		})},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := policytest.Check(wrapped(func(s policytest.Subject) policytest.Subject {
				s.Sampler = mutant.wrap(s.Sampler)
				return s
			}))
			if err == nil || !strings.Contains(err.Error(), mutant.want) {
				t.Errorf("%s: error %v, want %q", mutant.name, err, mutant.want)
			}
		})
	}
}

// changing changes every answer.
func changing(change func(*policy.Completion)) func(policy.Sampler) policy.Sampler {
	return func(s policy.Sampler) policy.Sampler { return changed{s, change} }
}

type changed struct {
	policy.Sampler
	change func(*policy.Completion)
}

func (c changed) Sample(ctx context.Context, r policy.Request) (policy.Completion, error) {
	completion, err := c.Sampler.Sample(ctx, r)
	if err == nil {
		c.change(&completion)
	}
	return completion, err
}

func (c changed) TakeWeights(ctx context.Context, w policy.Weights) error {
	return c.Sampler.(policy.WeightTaker).TakeWeights(ctx, w)
}

// late answers after a while, so that requests that are made at once are in flight at
// once.
type late struct{ policy.Sampler }

func (l late) Sample(ctx context.Context, r policy.Request) (policy.Completion, error) {
	time.Sleep(time.Millisecond) // of the bubble's clock
	return l.Sampler.Sample(ctx, r)
}

// swapping hands the answers of two requests in flight to each other.
type swapping struct {
	policy.Sampler
	mu       sync.Mutex
	inFlight int
	waiting  *exchange
}

type exchange struct {
	completion policy.Completion
	done       chan policy.Completion
}

func (s *swapping) Sample(ctx context.Context, r policy.Request) (policy.Completion, error) {
	s.mu.Lock()
	s.inFlight++
	s.mu.Unlock()
	c, err := s.Sampler.Sample(ctx, r)
	s.mu.Lock()
	s.inFlight--
	switch {
	case s.waiting != nil:
		other := s.waiting
		s.waiting = nil
		other.done <- c
		c = other.completion
	case s.inFlight > 0:
		mine := &exchange{c, make(chan policy.Completion, 1)}
		s.waiting = mine
		s.mu.Unlock()
		return <-mine.done, err
	}
	s.mu.Unlock()
	return c, err
}
