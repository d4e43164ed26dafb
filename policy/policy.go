// Package policy defines who continues a prompt: token ids in, token ids out.
package policy

import "context"

// Request asks for one continuation.
type Request struct {
	// SessionID names the conversation, so that its key-value cache can be reused.
	SessionID string
	Prompt    []int32
	MaxTokens int
	// Stop lists id sequences that end the continuation; they stay in the result.
	Stop        [][]int32
	Temperature float64 // 0 is greedy
	TopP        float64 // 0 and 1: the whole distribution
	// Seed makes the continuation reproducible, whatever else is being sampled.
	Seed uint64
}

// FinishReason tells why sampling stopped.
type FinishReason string

const (
	FinishStop   FinishReason = "stop"
	FinishLength FinishReason = "length"
)

// Completion is what was sampled.
type Completion struct {
	Tokens []int32
	// LogProbs are those of the sampled tokens under the distribution they were
	// drawn from (temperature and top-p applied); under greedy decoding, under the
	// model's distribution at temperature 1.
	LogProbs      []float32
	FinishReason  FinishReason
	PolicyVersion int64
}

// Sampler continues prompts. It is safe for concurrent use, and the result of a
// request depends only on the request and the weights.
type Sampler interface {
	Sample(ctx context.Context, reqs []Request) ([]Completion, error)
}
