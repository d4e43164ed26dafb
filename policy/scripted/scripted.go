// Package scripted lets a scripted actor play as a policy: it reads the prompt's
// token ids, and nothing else, and answers with token ids.
package scripted

import (
	"context"
	"fmt"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/policy"
)

// Renderer is one that can also read a whole prompt back.
type Renderer interface {
	chat.Renderer
	DecodeMessages(ids []int32) ([]chat.Message, error)
}

// Sampler is a policy.Sampler whose continuations an actor decides.
type Sampler struct {
	renderer Renderer
	actor    func(seed uint64) curriculum.Actor
}

// New returns a sampler that asks actor(seed) what to say, with each request's seed.
func New(renderer Renderer, actor func(seed uint64) curriculum.Actor) *Sampler {
	return &Sampler{renderer, actor}
}

// Sample answers a request from its prompt alone. An actor has no distribution: the
// log-probs are not known.
func (s *Sampler) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	if err := ctx.Err(); err != nil {
		return policy.Completion{}, err
	}
	if request.MaxTokens < 1 {
		return policy.Completion{}, fmt.Errorf("scripted policy, session %s: MaxTokens is %d, want at least 1", request.SessionID, request.MaxTokens)
	}
	tokens, err := s.continuation(request)
	if err != nil {
		return policy.Completion{}, fmt.Errorf("scripted policy, session %s: %w", request.SessionID, err)
	}
	if len(tokens) > request.MaxTokens {
		return policy.Completion{Tokens: tokens[:request.MaxTokens], FinishReason: policy.FinishLength}, nil
	}
	return policy.Completion{Tokens: tokens, FinishReason: policy.FinishStop}, nil
}

func (s *Sampler) continuation(req policy.Request) ([]int32, error) {
	prefix := s.renderer.GenerationPrefix()
	if len(req.Prompt) < len(prefix) || !slices.Equal(req.Prompt[len(req.Prompt)-len(prefix):], prefix) {
		return nil, fmt.Errorf("the prompt does not end with the generation prefix %v", prefix)
	}
	window, err := s.renderer.DecodeMessages(req.Prompt[:len(req.Prompt)-len(prefix)])
	if err != nil {
		return nil, err
	}
	said, err := s.actor(req.Seed).Act(window)
	if err != nil {
		return nil, err
	}
	return chat.Reply(s.renderer, said)
}
