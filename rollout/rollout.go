// Package rollout plays trajectories: it asks the policy for actions, steps the
// environment, and has the condenser cut the window when it is full. It knows
// nothing of training.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/trajectory"
)

// Config says how trajectories are played. Lengths are tokens.
type Config struct {
	MaxReply    int // longest assistant turn
	MaxTurns    int // assistant turns before the trajectory is truncated
	Temperature float64
	Concurrency int // trajectories in flight at once
	// Backoff says how requests that failed for a passing reason are repeated.
	Backoff policy.Backoff
}

// Job is one trajectory to play.
type Job struct {
	Task         env.Task
	TrajectoryID string
	GroupID      string
	// Seed determines what is sampled, and what the environment leaves to chance.
	Seed uint64
}

// Engine plays one family of tasks with one policy.
type Engine struct {
	tasks     env.Tasks
	renderer  chat.Renderer
	sampler   policy.Sampler
	condenser condense.Condenser
	cfg       Config
}

// New returns an engine.
func New(tasks env.Tasks, renderer chat.Renderer, sampler policy.Sampler, condenser condense.Condenser, cfg Config) (*Engine, error) {
	for _, k := range []struct {
		name  string
		value int
	}{{"MaxReply", cfg.MaxReply}, {"MaxTurns", cfg.MaxTurns}, {"Concurrency", cfg.Concurrency}, {"Backoff.Attempts", cfg.Backoff.Attempts}} {
		if k.value < 1 {
			return nil, fmt.Errorf("rollout: %s: %d: want 1 or more", k.name, k.value)
		}
	}
	return &Engine{tasks: tasks, renderer: renderer, sampler: policy.Retry(sampler, cfg.Backoff), condenser: condenser, cfg: cfg}, nil
}

// Run plays the jobs and hands each trajectory to ended as it ends, with the number of
// its job, one at a time, in whatever order that is. A trajectory that fails is one of
// status failed; Run itself fails when ctx is done, or with the error of ended.
func (e *Engine) Run(ctx context.Context, jobs []Job, ended func(job int, t *trajectory.Trajectory) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	var hearing sync.Mutex
	for range min(e.cfg.Concurrency, len(jobs)) {
		workers.Go(func() {
			for i := range next {
				t := e.play(ctx, jobs[i])
				hearing.Lock()
				if ctx.Err() == nil {
					if err := ended(i, t); err != nil {
						cancel(err)
					}
				}
				hearing.Unlock()
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
	return context.Cause(ctx)
}

// Collect is Run for those who need all trajectories at once, in the order of the jobs.
// ended, if not nil, hears how many have ended.
func (e *Engine) Collect(ctx context.Context, jobs []Job, ended func(n int)) ([]*trajectory.Trajectory, error) {
	all, n := make([]*trajectory.Trajectory, len(jobs)), 0
	err := e.Run(ctx, jobs, func(job int, t *trajectory.Trajectory) error {
		all[job] = t
		if n++; ended != nil {
			ended(n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// play runs one trajectory from reset to close.
func (e *Engine) play(ctx context.Context, job Job) *trajectory.Trajectory {
	environment := e.tasks.New(job.Seed)
	recorder := trajectory.NewRecorder(job.TrajectoryID, job.GroupID, e.renderer, e.condenser)
	success, status, err := e.turns(ctx, job, environment, recorder)
	if closing := environment.Close(); closing != nil {
		status, err = trajectory.Failed, errors.Join(err, fmt.Errorf("close the environment: %w", closing))
	}
	if ctx.Err() != nil {
		status = trajectory.Aborted
	}
	var next []int32
	if status == trajectory.Truncated {
		next = e.next(recorder, err)
	}
	if forgetter, ok := e.sampler.(policy.Forgetter); ok {
		forgetter.Forget(job.TrajectoryID)
	}
	t := recorder.Close(status)
	t.Next = next
	t.HasSuccess, t.Success = true, success && status == trajectory.Finished
	if err != nil {
		t.Error = err.Error()
	}
	t.HasScore = status.Trainable()
	for i := range t.Entries {
		t.Score += t.Entries[i].Reward
	}
	return t
}

// next is the prompt that a truncated trajectory would have gone on from, had it not been
// for the number of turns, or for that of segments, which is an error of the condenser. It is
// nil if the window ended it, or could not hold another turn.
func (e *Engine) next(recorder *trajectory.Recorder, ended error) []int32 {
	prompt, err := []int32(nil), ended
	var limit *condense.LimitError
	switch {
	case ended == nil:
		prompt, err = recorder.Prompt(e.cfg.MaxReply)
		if errors.As(err, &limit) { // both at once
			prompt, err = recorder.Beyond(e.cfg.MaxReply)
		}
	case errors.As(ended, &limit):
		prompt, err = recorder.Beyond(e.cfg.MaxReply)
	}
	if err != nil {
		return nil
	}
	return slices.Clone(prompt)
}

// turns alternates between policy and environment until one of them, or the
// condenser, ends the trajectory.
func (e *Engine) turns(ctx context.Context, job Job, environment env.Environment, recorder *trajectory.Recorder) (success bool, status trajectory.Status, err error) {
	observation, err := environment.Reset(ctx, job.Task)
	if err != nil {
		return false, trajectory.Failed, fmt.Errorf("reset to task %s: %w", job.Task.ID, err)
	}
	if err := recorder.Start(observation.Messages, observation.Tools); err != nil {
		return false, trajectory.Failed, fmt.Errorf("task %s: %w", job.Task.ID, err)
	}
	for request, turn := 0, 0; turn < e.cfg.MaxTurns; request++ {
		prompt, err := recorder.Prompt(e.cfg.MaxReply)
		if err != nil {
			if status, ended := trajectory.StatusOf(err); ended {
				return false, status, err
			}
			return false, trajectory.Failed, err
		}
		ask, reply := recorder.Asked(), e.cfg.MaxReply
		if ask != nil {
			reply = ask.Tokens
		}
		action, err := e.act(ctx, job, request, prompt, reply, recorder)
		if err != nil {
			return false, trajectory.Failed, fmt.Errorf("turn %d: %w", turn, err)
		}
		if ask != nil {
			continue // a summary: the environment does not hear of it
		}
		turn++
		observation, err = environment.Step(ctx, action)
		if err != nil {
			return false, trajectory.Failed, fmt.Errorf("turn %d: step: %w", turn, err)
		}
		recorder.Reward(observation.Reward)
		if err := count(recorder.Trajectory(), observation.Metrics); err != nil {
			return false, trajectory.Failed, fmt.Errorf("turn %d: step: %w", turn, err)
		}
		if err := recorder.Observe(observation.Messages...); err != nil {
			return false, trajectory.Failed, fmt.Errorf("turn %d: %w", turn, err)
		}
		if observation.Done {
			return observation.Success, trajectory.Finished, nil
		}
	}
	return false, trajectory.Truncated, nil
}

// count keeps the newest metrics of the environment.
func count(t *trajectory.Trajectory, metrics map[string]float64) error {
	for name, value := range metrics {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("metric %s: %v: want a finite number", name, value)
		}
	}
	if metrics != nil {
		t.Metrics = metrics
	}
	return nil
}

// act samples one assistant turn, or a summary, and records it.
func (e *Engine) act(ctx context.Context, job Job, request int, prompt []int32, reply int, recorder *trajectory.Recorder) (chat.Message, error) {
	c, err := e.sampler.Sample(ctx, policy.Request{
		SessionID:   job.TrajectoryID,
		Prompt:      prompt,
		MaxTokens:   reply,
		Stop:        e.renderer.Stop(),
		Temperature: e.cfg.Temperature,
		Seed:        rand.NewPCG(job.Seed, uint64(request)).Uint64(),
	})
	if err != nil {
		return chat.Message{}, err
	}
	if c.FinishReason != policy.FinishStop && c.FinishReason != policy.FinishLength {
		return chat.Message{}, fmt.Errorf("the sampler finished for the reason %q: want %s, %s or %s", c.FinishReason, policy.FinishStop, policy.FinishLength, policy.FinishAbort)
	}
	if len(c.Tokens) > reply {
		return chat.Message{}, fmt.Errorf("the sampler gave %d tokens, asked for were %d", len(c.Tokens), reply)
	}
	return recorder.Reply(c.Tokens, c.LogProbs, trajectory.Versions{First: c.FirstVersion, Last: c.LastVersion})
}
