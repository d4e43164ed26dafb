// Package policy defines who continues a prompt: token ids in, token ids out.
package policy

import (
	"context"
	"errors"
)

// Request asks for one continuation.
type Request struct {
	// SessionID names the conversation, so that its key-value cache can be reused.
	SessionID string
	Prompt    []int32
	MaxTokens int
	// Stop lists id sequences that end the continuation; they stay in the result.
	Stop        [][]int32
	Temperature float64 // 0 is greedy
	// Seed makes the continuation reproducible where the server can.
	Seed uint64
}

// FinishReason tells why sampling stopped.
type FinishReason string

// The reasons. A continuation that was aborted, as servers do when they take new
// weights, is part of one: nothing can be said of how it would have gone on.
const (
	FinishStop   FinishReason = "stop"
	FinishLength FinishReason = "length"
	FinishAbort  FinishReason = "abort"
)

// Completion is what was sampled.
type Completion struct {
	Tokens []int32
	// LogProbs are those of the sampled tokens under the distribution they were
	// drawn from (temperature applied); under greedy decoding, under the model's
	// distribution at temperature 1. Nil: not known.
	LogProbs     []float32
	FinishReason FinishReason
	// FirstVersion and LastVersion are those of the weights that sampled the first and
	// the last token.
	FirstVersion, LastVersion int64
}

// Sampler continues prompts: one request, one answer. It is safe for concurrent use,
// answers in any order, and belongs to a model server. An error that may pass is marked
// by Transient; Retry asks again. policytest.Run is the conformance suite.
type Sampler interface {
	Sample(ctx context.Context, request Request) (Completion, error)
}

// Forgetter is implemented by samplers that keep something of a session.
type Forgetter interface {
	// Forget tells that a session has ended.
	Forget(sessionID string)
}

// Weights tell a sampler which policy to sample from.
type Weights struct {
	// Version counts the learner's updates.
	Version int64
	// Location is where the weights are: a path, an address, the name of an adapter.
	// Empty: the sampler shares the learner's memory.
	Location string
}

// WeightTaker is implemented by samplers that can change their weights while they
// run. Completions that begin after TakeWeights has returned are of the new version.
type WeightTaker interface {
	TakeWeights(ctx context.Context, weights Weights) error
}

// transient marks an error that may pass.
type transient struct{ error }

func (e transient) Unwrap() error { return e.error }

// Transient marks an error that may pass: a connection that broke, a server that is
// busy. nil stays nil.
func Transient(err error) error {
	if err == nil {
		return nil
	}
	return transient{err}
}

// IsTransient tells whether an error is marked by Transient.
func IsTransient(err error) bool {
	var t transient
	return errors.As(err, &t)
}
