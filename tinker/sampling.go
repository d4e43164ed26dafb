package tinker

import (
	"context"
	"fmt"
	"sync/atomic"
)

// SamplingSession samples from weights that do not change. It is safe for concurrent
// use.
type SamplingSession struct {
	client *Client
	id     string
	seq    atomic.Int64
}

// SamplingSession continues with a session that Model.SaveForSampler has opened. There
// must be one only of each: it numbers what it asks for.
func (c *Client) SamplingSession(id string) *SamplingSession {
	return &SamplingSession{client: c, id: id}
}

// ID names the session on the server.
func (s *SamplingSession) ID() string { return s.id }

// Sample continues a prompt n times.
func (s *SamplingSession) Sample(ctx context.Context, prompt []int32, n int, params SamplingParams, promptLogProbs bool) (Sampled, error) {
	if err := s.client.usable(); err != nil {
		return Sampled{}, wrap("asample", err)
	}
	if params.Stop == nil {
		params.Stop = []int32{}
	}
	request := sample{NumSamples: n, Prompt: Text(prompt), Params: params, SamplingSessionID: s.id, SeqID: int(s.seq.Add(1) - 1), PromptLogProbs: promptLogProbs, Type: "sample"}
	var out Sampled
	if err := s.client.operation(ctx, "asample", request, &out); err != nil {
		return Sampled{}, wrap("asample", err)
	}
	if len(out.Sequences) != n {
		return Sampled{}, fmt.Errorf("tinker: asample: %d sequences: want %d", len(out.Sequences), n)
	}
	return out, nil
}
