package learner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/infinirl/infinirl/policy"
)

// Sampler samples from what a Bigram has published. It can do so while the Bigram is
// updated: each completion is of one set of weights, and says which.
type Sampler struct {
	of      *Bigram
	current atomic.Pointer[weights]
}

var _ policy.WeightTaker = (*Sampler)(nil)

// weights never change once they are taken.
type weights struct {
	logits  []float32
	version int64
}

// Sampler returns a sampler of the weights as they are.
func (b *Bigram) Sampler() *Sampler {
	s := &Sampler{of: b}
	s.current.Store(&weights{*b.published.Load(), b.version})
	return s
}

// TakeWeights goes over to what was published last.
func (s *Sampler) TakeWeights(_ context.Context, w policy.Weights) error {
	if w.Location != "" {
		return fmt.Errorf("weights at %s: want those of the learner in this memory", w.Location)
	}
	s.current.Store(&weights{*s.of.published.Load(), w.Version})
	return nil
}

// Sample draws token after token, until a stop sequence or the longest length.
func (s *Sampler) Sample(ctx context.Context, r policy.Request) (policy.Completion, error) {
	size := s.of.size
	switch {
	case len(r.Prompt) == 0 || slices.Min(r.Prompt) < 0 || int(slices.Max(r.Prompt)) >= size:
		return policy.Completion{}, fmt.Errorf("prompt: %v: want ids of 0 to %d, at least one", r.Prompt, size-1)
	case r.MaxTokens < 1:
		return policy.Completion{}, errors.New("max tokens: want 1 or more")
	case !(r.Temperature >= 0) || math.IsInf(r.Temperature, 0):
		return policy.Completion{}, fmt.Errorf("temperature: %v: want a finite number from 0", r.Temperature)
	}
	w := s.current.Load()
	c := policy.Completion{FinishReason: policy.FinishLength, FirstVersion: w.version, LastVersion: w.version}
	rng, pi, last := rand.New(rand.NewPCG(r.Seed, 0)), make([]float64, size), r.Prompt[len(r.Prompt)-1]
	for len(c.Tokens) < r.MaxTokens && c.FinishReason != policy.FinishStop {
		if err := ctx.Err(); err != nil {
			return policy.Completion{}, err
		}
		logits := w.logits[int(last)*size:][:size]
		if r.Temperature > 0 {
			logSoftmax(logits, r.Temperature, pi)
			last = draw(pi, rng.Float64())
		} else { // its log-prob is that at temperature 1
			logSoftmax(logits, 1, pi)
			last = int32(slices.Index(pi, slices.Max(pi)))
		}
		c.Tokens, c.LogProbs = append(c.Tokens, last), append(c.LogProbs, float32(pi[last]))
		for _, stop := range r.Stop {
			if n := len(c.Tokens) - len(stop); n >= 0 && slices.Equal(c.Tokens[n:], stop) {
				c.FinishReason = policy.FinishStop
			}
		}
	}
	return c, nil
}

// draw returns the token at u, 0 ≤ u < 1, of the cumulative distribution.
func draw(logPi []float64, u float64) int32 {
	for z, logP := range logPi {
		if u -= math.Exp(logP); u < 0 {
			return int32(z)
		}
	}
	return int32(len(logPi) - 1) // the sum was a rounding below u
}
