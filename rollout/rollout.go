// Package rollout plays episodes: it asks the policy for actions, steps the
// environment, and has the condenser cut the window when it is full. It knows
// nothing of training.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/trajectory"
)

// Config says how episodes are played. Lengths are tokens.
type Config struct {
	Condense    condense.Config
	MaxReply    int // longest assistant turn
	MaxTurns    int // assistant turns before the episode is truncated
	Temperature float64
	TopP        float64
	Concurrency int // episodes in flight at once
	// Forget, if set, is called with the session id of each episode that ended.
	Forget func(sessionID string)
}

// Job is one episode to play.
type Job struct {
	Task         env.Task
	TrajectoryID string
	GroupID      string
	// Seed determines what is sampled.
	Seed uint64
}

// Result is how an episode ended.
type Result struct {
	Job        Job
	Trajectory *trajectory.Trajectory
	Success    bool
	// Next is the prompt that a truncated episode would have gone on from: the state
	// s_T whose value is the bootstrap. Nil if the window itself ended the episode.
	Next []int32
	// Err is why the trajectory's status is failed, aborted, truncated by the
	// condenser or context_overflow.
	Err error
}

// Engine plays the episodes of one suite with one policy.
type Engine struct {
	suite     env.Suite
	sampler   policy.Sampler
	condenser condense.Condenser
	cfg       Config
}

// New returns an engine; the condense configuration must be valid.
func New(suite env.Suite, sampler policy.Sampler, cfg Config) (*Engine, error) {
	condenser, err := condense.New(cfg.Condense)
	if err != nil {
		return nil, err
	}
	for _, k := range []struct {
		name  string
		value int
	}{{"MaxReply", cfg.MaxReply}, {"MaxTurns", cfg.MaxTurns}, {"Concurrency", cfg.Concurrency}} {
		if k.value < 1 {
			return nil, fmt.Errorf("rollout: %s: %d: want 1 or more", k.name, k.value)
		}
	}
	return &Engine{suite: suite, sampler: sampler, condenser: condenser, cfg: cfg}, nil
}

// Run plays the jobs and returns their results in the order of the jobs, whatever
// the order in which they end. ended, if not nil, hears each end, one at a time.
// An episode that fails is a result with status failed; Run itself fails only
// when ctx is done.
func (e *Engine) Run(ctx context.Context, jobs []Job, ended func(Result)) ([]Result, error) {
	results := make([]Result, len(jobs))
	next := make(chan int)
	var workers sync.WaitGroup
	var hearing sync.Mutex
	for range min(e.cfg.Concurrency, len(jobs)) {
		workers.Go(func() {
			for i := range next {
				results[i] = e.play(ctx, jobs[i])
				if ended != nil {
					hearing.Lock()
					ended(results[i])
					hearing.Unlock()
				}
			}
		})
	}
feed:
	for i := range jobs {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return results, nil
}

// play runs one episode from reset to close.
func (e *Engine) play(ctx context.Context, job Job) Result {
	environment := e.suite.New()
	recorder := trajectory.NewRecorder(job.TrajectoryID, job.GroupID, e.suite.Codec(), e.condenser, 0)
	success, status, err := e.episode(ctx, job, environment, recorder)
	if closing := environment.Close(); closing != nil {
		status, err = trajectory.Failed, errors.Join(err, fmt.Errorf("close the environment: %w", closing))
	}
	if ctx.Err() != nil {
		status = trajectory.Aborted
	}
	result := Result{Job: job, Success: success && status == trajectory.Finished, Err: err}
	if status == trajectory.Truncated && err == nil {
		// Only the number of turns ended it. The window may not hold another turn.
		if next, err := recorder.Prompt(e.cfg.MaxReply); err == nil {
			result.Next = slices.Clone(next)
		}
	}
	if e.cfg.Forget != nil {
		e.cfg.Forget(job.TrajectoryID)
	}
	t := recorder.Close(status)
	t.HasScore = status.Trainable()
	for i := range t.Entries {
		t.Score += t.Entries[i].Reward
	}
	result.Trajectory = t
	return result
}

// episode alternates between policy and environment until one of them, or the
// condenser, ends the episode.
func (e *Engine) episode(ctx context.Context, job Job, environment env.Environment, recorder *trajectory.Recorder) (success bool, status trajectory.Status, err error) {
	observation, err := environment.Reset(ctx, job.Task)
	if err != nil {
		return false, trajectory.Failed, fmt.Errorf("reset to task %s: %w", job.Task.ID, err)
	}
	if err := recorder.Observe(observation.Messages...); err != nil {
		return false, trajectory.Failed, err
	}
	for request, turn := 0, 0; turn < e.cfg.MaxTurns; request++ {
		prompt, err := recorder.Prompt(e.cfg.MaxReply)
		if err != nil {
			if status, ended := trajectory.StatusOf(err); ended {
				return false, status, err
			}
			return false, trajectory.Failed, err
		}
		reply := e.cfg.MaxReply
		tokens, summarizing := recorder.Summarizing()
		if summarizing {
			reply = tokens
		}
		action, err := e.act(ctx, job, request, prompt, reply, recorder)
		if err != nil {
			return false, trajectory.Failed, fmt.Errorf("turn %d: %w", turn, err)
		}
		if summarizing {
			continue // the environment does not hear of it
		}
		turn++
		observation, err = environment.Step(ctx, action)
		if err != nil {
			return false, trajectory.Failed, fmt.Errorf("turn %d: step: %w", turn, err)
		}
		recorder.Reward(observation.Reward)
		if err := recorder.Observe(observation.Messages...); err != nil {
			return false, trajectory.Failed, fmt.Errorf("turn %d: %w", turn, err)
		}
		if observation.Done {
			return observation.Success, trajectory.Finished, nil
		}
	}
	return false, trajectory.Truncated, nil
}

// act samples one assistant turn, or a summary, and records it.
func (e *Engine) act(ctx context.Context, job Job, request int, prompt []int32, reply int, recorder *trajectory.Recorder) (chat.Message, error) {
	completions, err := e.sampler.Sample(ctx, []policy.Request{{
		SessionID:   job.TrajectoryID,
		Prompt:      prompt,
		MaxTokens:   reply,
		Stop:        e.suite.Codec().Stop(),
		Temperature: e.cfg.Temperature,
		TopP:        e.cfg.TopP,
		Seed:        rand.NewPCG(job.Seed, uint64(request)).Uint64(),
	}})
	if err != nil {
		return chat.Message{}, err
	}
	if len(completions) != 1 {
		return chat.Message{}, errors.New("the sampler did not answer the one request")
	}
	c := completions[0]
	return recorder.Reply(c.Tokens, c.LogProbs, c.PolicyVersion)
}
