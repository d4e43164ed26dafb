// Package scripted lets a scripted actor play as a policy: it reads the prompt's
// token ids, and nothing else, and answers with token ids.
package scripted

import (
	"context"
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/policy"
)

// Codec is a codec that can also read a whole prompt back.
type Codec interface {
	chat.Codec
	DecodeMessages(ids []int32) ([]chat.Message, error)
}

// Sampler is a policy.Sampler whose continuations an actor decides.
type Sampler struct {
	codec Codec
	actor func(seed uint64) env.Actor
}

// New returns a sampler that asks actor(seed) what to say, with each request's seed.
func New(codec Codec, actor func(seed uint64) env.Actor) *Sampler {
	return &Sampler{codec, actor}
}

// Sample answers every request from its prompt alone. Log-probs are 0: an actor
// has no distribution.
func (s *Sampler) Sample(ctx context.Context, reqs []policy.Request) ([]policy.Completion, error) {
	completions := make([]policy.Completion, len(reqs))
	for i, req := range reqs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tokens, err := s.continuation(req)
		if err != nil {
			return nil, fmt.Errorf("scripted policy, session %s: %w", req.SessionID, err)
		}
		completion := policy.Completion{Tokens: tokens, LogProbs: make([]float32, len(tokens)), FinishReason: policy.FinishStop}
		if req.MaxTokens > 0 && len(tokens) > req.MaxTokens {
			completion.Tokens, completion.LogProbs = tokens[:req.MaxTokens], completion.LogProbs[:req.MaxTokens]
			completion.FinishReason = policy.FinishLength
		}
		completions[i] = completion
	}
	return completions, nil
}

func (s *Sampler) continuation(req policy.Request) ([]int32, error) {
	prefix := s.codec.GenerationPrefix()
	if len(req.Prompt) < len(prefix) || !slices.Equal(req.Prompt[len(req.Prompt)-len(prefix):], prefix) {
		return nil, fmt.Errorf("the prompt does not end with the generation prefix %v", prefix)
	}
	window, err := s.codec.DecodeMessages(req.Prompt[:len(req.Prompt)-len(prefix)])
	if err != nil {
		return nil, err
	}
	said, err := s.actor(req.Seed).Act(window)
	if err != nil {
		return nil, err
	}
	ids, err := s.codec.Encode(said)
	if err != nil {
		return nil, err
	}
	return ids[len(prefix):], nil
}
