// Package train is the training loop: rollouts by the current policy, credit
// across the cuts, PPO updates on whole trajectories, and a run directory from
// which a run that was killed at any instant goes on as if it had not been.
//
// The loop gets its parts handed in and knows them by their interfaces alone. A step's
// tasks, sampling seeds and shuffles follow from the run's seed and the step's number, so
// the state to resume from is weights, optimizers and the number of steps done.
package train

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// Parts are what a run is made of.
type Parts struct {
	Tasks     env.Tasks
	Renderer  chat.Renderer
	Condenser condense.Condenser
	Sampler   policy.Sampler
	// Learner is needed to train, not to evaluate. Its sampler must be able to take its
	// weights.
	Learner learner.Learner
	// Critic is needed by estimators that read values, and used by no other.
	Critic learner.Critic
	// Reference is the policy that a KL penalty keeps close to; needed for one alone.
	Reference learner.Scorer
}

// ErrInput marks errors that are the user's to mend: a configuration, a
// checkpoint or a run directory that cannot be used.
var ErrInput = errors.New("unusable input")

// inputError is an error that is ErrInput without saying so.
type inputError struct{ error }

func (inputError) Is(target error) bool { return target == ErrInput }

func (e inputError) Unwrap() error { return e.error }

// BadInput marks an error as ErrInput; nil stays nil.
func BadInput(err error) error {
	if err == nil {
		return nil
	}
	return inputError{err}
}

// Trainer trains and evaluates one set of parts.
type Trainer struct {
	Parts
	cfg Config
	// pass is the order of the tasks in one pass over a set that has an end.
	pass struct {
		number int
		order  []int
	}
}

// New checks that the parts are there and that the configuration suits them.
func New(parts Parts, cfg Config) (*Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, inputError{err}
	}
	for _, p := range []struct {
		name string
		part any
	}{{"Tasks", parts.Tasks}, {"Renderer", parts.Renderer}, {"Condenser", parts.Condenser}, {"Sampler", parts.Sampler}} {
		if p.part == nil {
			return nil, fmt.Errorf("train: Parts.%s is missing", p.name)
		}
	}
	for _, split := range []env.Split{env.Train, env.Eval} {
		if parts.Tasks.Len(split) < 1 {
			return nil, inputError{fmt.Errorf("tasks %s: none in the split %s", parts.Tasks.Name(), split)}
		}
	}
	return &Trainer{Parts: parts, cfg: cfg}, nil
}

// trainable tells what is missing to train.
func (t *Trainer) trainable() error {
	_, takes := t.Sampler.(policy.WeightTaker)
	switch {
	case t.Learner == nil:
		return errors.New("train: Parts.Learner is missing")
	case !takes:
		return fmt.Errorf("train: the sampler %T cannot take new weights: what it samples would not be of the policy that is trained", t.Sampler)
	case t.readsValues() && t.Critic == nil:
		return inputError{fmt.Errorf("advantage: estimator %s reads values, and there is no critic", t.cfg.Advantage.Estimator)}
	case t.cfg.PPO.KLCoef != 0 && t.Reference == nil:
		return inputError{errors.New("ppo.kl_coef: there is no reference policy to compare with")}
	}
	return nil
}

// readsValues tells whether the estimator reads values: otherwise no critic is trained.
func (t *Trainer) readsValues() bool {
	estimator, err := advantage.Lookup(t.cfg.Advantage.Estimator)
	return err == nil && estimator.Values
}

// Check plays the opening of some tasks: a window that does not even hold system,
// task and one reply cannot be trained in.
func (t *Trainer) Check(ctx context.Context) error {
	const tasks = 32
	for i := range min(tasks, t.Tasks.Len(env.Eval)) {
		if err := t.checkOpening(ctx, t.Tasks.Task(env.Eval, i)); err != nil {
			return fmt.Errorf("task %s: %w", t.Tasks.Task(env.Eval, i).ID, err)
		}
	}
	return nil
}

func (t *Trainer) checkOpening(ctx context.Context, task env.Task) (err error) {
	environment := t.Tasks.New(0)
	defer func() { err = errors.Join(err, environment.Close()) }()
	observation, err := environment.Reset(ctx, task)
	if err != nil {
		return err
	}
	opening, err := t.Renderer.Start(observation.Messages, observation.Tools)
	if err != nil {
		return inputError{err}
	}
	tokens := len(opening) + len(t.Renderer.GenerationPrefix())
	if need := tokens + t.cfg.Rollout.MaxReply; need > t.cfg.Window { // both are bounded
		return inputError{fmt.Errorf("condense.high: %d: system and task take %d tokens and a reply up to %d: want %d or more", t.cfg.Window, tokens, t.cfg.Rollout.MaxReply, need)}
	}
	return nil
}

// Streams of random numbers of one seed; those of the steps' trajectories are 0, 1, 2, ….
const (
	streamTasks   = 1 << 40
	streamShuffle = 2 << 40
	streamEval    = 3 << 40
	streamPass    = 4 << 40
)

// task returns the k-th task that is trained on. Generated tasks never come twice, and
// runs of different seeds train on different ones; a set that has an end is gone through
// again and again, each time in another order.
func (t *Trainer) task(k int) env.Task {
	n := t.Tasks.Len(env.Train)
	if n >= env.Seeds {
		first := rand.New(rand.NewPCG(t.cfg.Seed, streamTasks)).IntN(1 << 30)
		return t.Tasks.Task(env.Train, first+k)
	}
	if pass := k / n; t.pass.order == nil || t.pass.number != pass {
		t.pass.number = pass
		t.pass.order = rand.New(rand.NewPCG(t.cfg.Seed, streamPass+uint64(pass))).Perm(n)
	}
	return t.Tasks.Task(env.Train, t.pass.order[k%n])
}

// jobs are the trajectories of a step: every task of a group the same, every seed its own.
func (t *Trainer) jobs(step int) []rollout.Job {
	rng := rand.New(rand.NewPCG(t.cfg.Seed, uint64(step)))
	size := t.cfg.Rollout.GroupSize
	jobs := make([]rollout.Job, t.cfg.Rollout.Groups*size)
	for i := range jobs {
		task := t.task(step*t.cfg.Rollout.Groups + i/size)
		group := fmt.Sprintf("step-%06d/%s", step+1, task.ID)
		if t.Tasks.Len(env.Train) < env.Seeds { // a step may come to the same task twice
			group = fmt.Sprintf("step-%06d/%d/%s", step+1, i/size, task.ID)
		}
		jobs[i] = rollout.Job{Task: task, TrajectoryID: fmt.Sprintf("%s/%d", group, i%size), GroupID: group, Seed: rng.Uint64()}
	}
	return jobs
}

// play plays jobs with the current weights.
func (t *Trainer) play(ctx context.Context, what string, jobs []rollout.Job, temperature float64, progress *Progress) ([]*trajectory.Trajectory, error) {
	engine, err := rollout.New(t.Tasks, t.Renderer, t.Sampler, t.Condenser, rollout.Config{
		MaxReply:    t.cfg.Rollout.MaxReply,
		MaxTurns:    t.cfg.Rollout.MaxTurns,
		Temperature: temperature,
		Concurrency: t.cfg.Rollout.Concurrency,
		Backoff:     policy.DefaultBackoff,
	})
	if err != nil {
		return nil, err
	}
	progress.Status(what, 0, len(jobs))
	return engine.Collect(ctx, jobs, func(ended int) { progress.Status(what, ended, len(jobs)) })
}
