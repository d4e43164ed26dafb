// Package rollouttest plays the synthetic worlds by the rollout itself, without a model.
package rollouttest

import (
	"testing"

	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/scripted"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// PlayExpert plays the first tasks of the split eval with the world's expert, which
// reads the prompts' token ids alone and replies in at most reply tokens.
func PlayExpert(t *testing.T, world curriculum.World, rule condense.Config, reply, tasks int) []*trajectory.Trajectory {
	t.Helper()
	return PlayExpertIn(t, world, world.Renderer, rule, reply, tasks)
}

// PlayExpertIn is PlayExpert in what another renderer writes.
func PlayExpertIn(t *testing.T, world curriculum.World, renderer scripted.Renderer, rule condense.Config, reply, tasks int) []*trajectory.Trajectory {
	t.Helper()
	condenser, err := condense.New(rule)
	if err != nil {
		t.Fatal(err)
	}
	expert := scripted.New(renderer, func(uint64) curriculum.Actor { return world.Expert() })
	engine, err := rollout.New(world.Tasks, renderer, expert, condenser, rollout.Config{
		MaxReply: reply, MaxTurns: 100, Concurrency: 1, Backoff: policy.DefaultBackoff,
	})
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]rollout.Job, tasks)
	for i := range jobs {
		task := world.Tasks.Task(env.Eval, i)
		jobs[i] = rollout.Job{Task: task, TrajectoryID: task.ID}
	}
	played, err := engine.Collect(t.Context(), jobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return played
}
