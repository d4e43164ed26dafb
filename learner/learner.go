// Package learner defines who owns the trainable weights. A learner is blind to how
// credit was assigned: it sees tokens, log-probs, advantages, returns and masks.
package learner

import (
	"context"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/ppo"
)

// Scorer gives log-probs under a policy: that of a Learner, or a frozen reference.
type Scorer interface {
	// LogProbs returns a token column of b, [tokens], with the log-prob of every
	// trainable token at the sampling temperature, in nats, and 0 elsewhere.
	LogProbs(ctx context.Context, b *batch.Batch) ([]float32, error)
}

// Learner owns a policy. learnertest.Run is its conformance suite.
type Learner interface {
	Scorer
	// Update takes one optimizer step on a mini-batch of whole trajectories with
	// old_log_probs and advantages. An error leaves the weights as they were, or says
	// that it does not.
	Update(ctx context.Context, mini *batch.Batch, cfg UpdateConfig) (UpdateResult, error)
	// Publish makes the current weights available to samplers.
	Publish(ctx context.Context) (policy.Weights, error)
	// Save writes weights and optimizer state into a directory that exists, Load reads
	// them. A critic saves beside its learner: each has names of its own.
	Save(ctx context.Context, dir string) error
	Load(ctx context.Context, dir string) error
	// Version counts the updates of the policy.
	Version() int64
}

// Critic owns a value function. An estimator that reads no values needs none.
type Critic interface {
	// Values returns a token column of b, [tokens]: V_t, the value of the state before
	// token t, at trainable tokens, and 0 elsewhere.
	Values(ctx context.Context, b *batch.Batch) ([]float32, error)
	// StateValues returns the values of states, prompts of token ids.
	StateValues(ctx context.Context, prompts [][]int32) ([]float32, error)
	// Update takes one optimizer step on a mini-batch of whole trajectories with values
	// and returns.
	Update(ctx context.Context, mini *batch.Batch, cfg UpdateConfig) (UpdateResult, error)
	Save(ctx context.Context, dir string) error
	Load(ctx context.Context, dir string) error
}

// UpdateConfig is what the loop decides anew for each optimizer step.
type UpdateConfig struct {
	Loss         ppo.Config
	LearningRate float64
}

// UpdateResult is what one optimizer step reports.
type UpdateResult struct {
	// Metrics are those that the learner knows; what it does not is 0.
	Metrics ppo.Metrics
	// GradNorm is the global L2 norm of the gradient before clipping.
	GradNorm float64
}
