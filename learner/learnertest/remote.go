package learnertest

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/policy"
)

// Remote is a learner at the far end of a slow connection: batches reach it as the bytes
// of their file form, piece by piece, and every answer takes a while.
type Remote struct {
	learner.Learner
	Wire
}

// RemoteCritic is the same for a critic.
type RemoteCritic struct {
	learner.Critic
	Wire
}

// RemoteScorer is the same for a reference policy.
type RemoteScorer struct {
	learner.Scorer
	Wire
}

// LogProbs asks the far end.
func (r RemoteScorer) LogProbs(ctx context.Context, b *batch.Batch) ([]float32, error) {
	there, err := r.send(ctx, b)
	if err != nil {
		return nil, err
	}
	return r.Scorer.LogProbs(ctx, there)
}

// Wire is a slow connection.
type Wire struct {
	// Latency is the time that a piece of a batch, or an answer, takes.
	Latency time.Duration
	// Ids, if not nil, are those that the far end has for the ids here.
	Ids func([]int32) []int32
}

// send moves a batch to the far end.
func (w Wire) send(ctx context.Context, b *batch.Batch) (*batch.Batch, error) {
	reader, writer := io.Pipe()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		writer.CloseWithError(b.WriteSafetensors(slowly{ctx, writer, w.Latency}, batch.Plain))
	}()
	there, err := batch.ReadSafetensors(reader)
	reader.CloseWithError(err)
	<-sent
	if err != nil {
		return nil, fmt.Errorf("send a batch: %w", err)
	}
	if w.Ids != nil {
		there.TokenIDs = w.Ids(there.TokenIDs)
	}
	return there, policy.Pause(ctx, w.Latency)
}

// slowly writes in pieces.
type slowly struct {
	ctx  context.Context
	w    io.Writer
	wait time.Duration
}

func (s slowly) Write(data []byte) (int, error) {
	const piece = 1 << 16
	done := 0
	for done < len(data) {
		if err := policy.Pause(s.ctx, s.wait); err != nil {
			return done, err
		}
		n, err := s.w.Write(data[done:min(len(data), done+piece)])
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// LogProbs asks the far end.
func (r Remote) LogProbs(ctx context.Context, b *batch.Batch) ([]float32, error) {
	there, err := r.send(ctx, b)
	if err != nil {
		return nil, err
	}
	return r.Learner.LogProbs(ctx, there)
}

// Update asks the far end.
func (r Remote) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (learner.UpdateResult, error) {
	there, err := r.send(ctx, mini)
	if err != nil {
		return learner.UpdateResult{}, err
	}
	return r.Learner.Update(ctx, there, cfg)
}

// Values asks the far end.
func (r RemoteCritic) Values(ctx context.Context, b *batch.Batch) ([]float32, error) {
	there, err := r.send(ctx, b)
	if err != nil {
		return nil, err
	}
	return r.Critic.Values(ctx, there)
}

// StateValues asks the far end.
func (r RemoteCritic) StateValues(ctx context.Context, prompts [][]int32) ([]float32, error) {
	if err := policy.Pause(ctx, r.Latency); err != nil {
		return nil, err
	}
	if r.Ids != nil {
		there := make([][]int32, len(prompts))
		for i := range prompts {
			there[i] = r.Ids(prompts[i])
		}
		prompts = there
	}
	return r.Critic.StateValues(ctx, prompts)
}

// Update asks the far end.
func (r RemoteCritic) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (learner.UpdateResult, error) {
	there, err := r.send(ctx, mini)
	if err != nil {
		return learner.UpdateResult{}, err
	}
	return r.Critic.Update(ctx, there, cfg)
}
