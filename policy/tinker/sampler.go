// Package tinker samples from servers that speak the Tinker protocol.
package tinker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/tinker"
)

// Config says what the model can do. Servers do not check it.
type Config struct {
	Vocabulary int // number of ids
	Positions  int // longest sequence; a continuation that reaches it ends, for its length
}

// Sampler samples from the weights that it has taken last: a sampling session for each
// version. It implements policy.Sampler and policy.WeightTaker.
//
// Some servers share one copy of the weights between all sessions and the learner, so
// that a request to an older session would take the learner back: versions only rise,
// and weights are taken when no request is in flight.
type Sampler struct {
	client *tinker.Client
	cfg    Config

	mu       sync.Mutex
	session  *tinker.SamplingSession // nil: no weights yet
	version  int64
	inFlight int
	taking   chan struct{} // closed when the weights are taken; nil: nobody takes any
	idle     chan struct{} // closed when the last request in flight has ended
}

var (
	_ policy.Sampler     = (*Sampler)(nil)
	_ policy.WeightTaker = (*Sampler)(nil)
)

// New returns a sampler that has to take weights before it samples.
func New(client *tinker.Client, cfg Config) (*Sampler, error) {
	if cfg.Vocabulary < 1 || cfg.Positions < 2 {
		return nil, fmt.Errorf("tinker sampler: vocabulary %d, positions %d: want both known", cfg.Vocabulary, cfg.Positions)
	}
	return &Sampler{client: client, cfg: cfg}, nil
}

// TakeWeights goes over to the sampling session that a learner has published.
func (s *Sampler) TakeWeights(ctx context.Context, weights policy.Weights) error {
	if weights.Location == "" {
		return errors.New("tinker sampler: weights without a location: want the sampling session of a learner on the same server")
	}
	if err := s.quiet(ctx); err != nil {
		return fmt.Errorf("tinker sampler: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		close(s.taking)
		s.taking = nil
	}()
	if s.session != nil {
		switch {
		case weights.Version < s.version:
			return fmt.Errorf("tinker sampler: weights of version %d after version %d: want them to rise: sampling older ones may take the learner back to them", weights.Version, s.version)
		case weights.Location == s.session.ID():
			if weights.Version != s.version {
				return fmt.Errorf("tinker sampler: sampling session %s is of version %d, not %d", weights.Location, s.version, weights.Version)
			}
			return nil // its numbers go on
		}
	}
	s.session, s.version = s.client.SamplingSession(weights.Location), weights.Version
	return nil
}

// quiet holds new requests back and waits until none is in flight.
func (s *Sampler) quiet(ctx context.Context) error {
	s.mu.Lock()
	for s.taking != nil {
		taking := s.taking
		s.mu.Unlock()
		if err := wait(ctx, taking); err != nil {
			return err
		}
		s.mu.Lock()
	}
	s.taking = make(chan struct{})
	var idle chan struct{}
	if s.inFlight > 0 {
		idle = make(chan struct{})
		s.idle = idle
	}
	s.mu.Unlock()
	if idle == nil {
		return nil
	}
	err := wait(ctx, idle)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.taking)
		s.taking, s.idle = nil, nil
	}
	return err
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin returns the weights that a request is answered by.
func (s *Sampler) begin(ctx context.Context) (*tinker.SamplingSession, int64, error) {
	s.mu.Lock()
	for s.taking != nil {
		taking := s.taking
		s.mu.Unlock()
		if err := wait(ctx, taking); err != nil {
			return nil, 0, err
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.session == nil {
		return nil, 0, errors.New("no weights yet: want TakeWeights first")
	}
	s.inFlight++
	return s.session, s.version, nil
}

func (s *Sampler) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight--; s.inFlight == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Sample continues a prompt; see policy.Sampler.
func (s *Sampler) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	fail := func(err error) (policy.Completion, error) {
		return policy.Completion{}, fmt.Errorf("tinker sampler: %w", err)
	}
	if ctx.Err() != nil {
		return fail(context.Cause(ctx))
	}
	if err := s.check(request); err != nil {
		return fail(err)
	}
	session, version, err := s.begin(ctx)
	if err != nil {
		return fail(err)
	}
	defer s.end()
	params := tinker.SamplingParams{MaxTokens: min(request.MaxTokens, s.cfg.Positions-len(request.Prompt)), Seed: Seed(request.Seed), Temperature: request.Temperature, TopK: -1, TopP: 1}
	for _, stop := range request.Stop {
		if len(stop) == 1 { // longer ones the protocol has not
			params.Stop = append(params.Stop, stop[0])
		}
	}
	sampled, err := session.Sample(ctx, request.Prompt, 1, params, false)
	if err != nil {
		return fail(err)
	}
	c, err := s.completion(request, params.MaxTokens, sampled.Sequences[0])
	if err != nil {
		return fail(err)
	}
	c.FirstVersion, c.LastVersion = version, version
	return c, nil
}

func (s *Sampler) check(r policy.Request) error {
	switch {
	case len(r.Prompt) == 0:
		return errors.New("the prompt is empty")
	case len(r.Prompt) >= s.cfg.Positions:
		return fmt.Errorf("a prompt of %d tokens: the model has %d positions", len(r.Prompt), s.cfg.Positions)
	case r.MaxTokens < 1:
		return fmt.Errorf("request: MaxTokens: %d: want at least 1", r.MaxTokens)
	case !(r.Temperature >= 0) || math.IsInf(r.Temperature, 1):
		return fmt.Errorf("request: Temperature: %v: want a finite number from 0", r.Temperature)
	}
	for i, stop := range r.Stop {
		if len(stop) == 0 {
			return fmt.Errorf("request: Stop[%d] is empty", i)
		}
	}
	return s.checkIDs(r.Prompt)
}

func (s *Sampler) checkIDs(ids []int32) error {
	for t, id := range ids {
		if id < 0 || int(id) >= s.cfg.Vocabulary {
			return fmt.Errorf("token %d: id %d: want one of the vocabulary of %d", t, id, s.cfg.Vocabulary)
		}
	}
	return nil
}

// Seed folds a seed into the 31 bits that every server takes.
func Seed(seed uint64) int64 {
	seed ^= seed >> 32
	return int64((seed ^ seed>>31) & math.MaxInt32)
}

// completion checks an answer, and ends it at the first stop sequence: what the server
// has sampled behind one that it does not know is dropped.
func (s *Sampler) completion(r policy.Request, most int, sequence tinker.Sequence) (policy.Completion, error) {
	c := policy.Completion{Tokens: sequence.Tokens, FinishReason: policy.FinishLength}
	switch n := len(c.Tokens); {
	case n == 0 || n > most:
		return c, fmt.Errorf("the server samples %d tokens: want 1 to %d", n, most)
	case sequence.LogProbs != nil && len(sequence.LogProbs) != n:
		return c, fmt.Errorf("the server gives %d log-probs of %d tokens", len(sequence.LogProbs), n)
	}
	if err := s.checkIDs(c.Tokens); err != nil {
		return c, fmt.Errorf("the server samples: %w", err)
	}
	// At other temperatures servers give those of temperature 1, or do not say which.
	if known := r.Temperature == 0 || r.Temperature == 1; known && sequence.LogProbs != nil {
		c.LogProbs = make([]float32, len(c.Tokens))
		for k, x := range sequence.LogProbs {
			const rounding = 1e-3
			if x == nil || !(*x <= rounding) {
				return c, fmt.Errorf("the log-prob of sampled token %d is %s: want a number up to 0", k, number(x))
			}
			c.LogProbs[k] = min(*x, 0)
		}
	}
	for k := range c.Tokens {
		if !slices.ContainsFunc(r.Stop, func(stop []int32) bool { return hasSuffix(c.Tokens[:k+1], stop) }) {
			continue
		}
		c.Tokens, c.FinishReason = c.Tokens[:k+1], policy.FinishStop
		if c.LogProbs != nil {
			c.LogProbs = c.LogProbs[:k+1]
		}
		return c, nil
	}
	if sequence.StopReason != tinker.StopReasonLength || len(c.Tokens) < most {
		return c, fmt.Errorf("the server ends a continuation after %d of %d tokens (%s), and no stop sequence ends it: want servers that leave it in", len(c.Tokens), most, sequence.StopReason)
	}
	return c, nil
}

func number(x *float32) string {
	if x == nil {
		return "null"
	}
	return fmt.Sprint(*x)
}

func hasSuffix(tokens, suffix []int32) bool {
	n := len(tokens) - len(suffix)
	return n >= 0 && slices.Equal(tokens[n:], suffix)
}
