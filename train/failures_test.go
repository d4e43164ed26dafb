package train_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/train"
)

// failing is an environment whose steps fail from a task on.
type failing struct {
	env.Tasks
	from int
	n    *atomic.Int64
}

func (f failing) New(seed uint64) env.Environment {
	return &failingEnvironment{Environment: f.Tasks.New(seed), fails: f.n.Add(1) > int64(f.from)}
}

type failingEnvironment struct {
	env.Environment
	fails bool
}

func (f *failingEnvironment) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	if f.fails {
		return env.Observation{}, errors.New("the sandbox is gone")
	}
	return f.Environment.Step(ctx, action)
}

// A run whose trajectories mostly fail shows the first error and stops.
func TestRunsThatMostlyFailStop(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]int{"evaluating the base": 32, "step 1": 32 + 16 + 16} { // after the openings; after both evaluations too
		cfg := small(t)
		run, err := assembly.Open(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		parts := run.Parts
		parts.Tasks = failing{run.Tasks, from, new(atomic.Int64)}
		trainer, err := train.New(parts, cfg.Loop())
		if err != nil {
			t.Fatal(err)
		}
		_, err = trainer.Run(context.Background(), train.Options{Dir: filepath.Join(t.TempDir(), "run"), Description: []byte("{}\n")})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "the sandbox is gone") || !strings.Contains(err.Error(), "--resume") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// everyOther is an environment of which every other trajectory fails, once both
// evaluations have been played.
type everyOther struct {
	env.Tasks
	n *atomic.Int64
}

func (e everyOther) New(seed uint64) env.Environment {
	n := e.n.Add(1)
	return &failingEnvironment{Environment: e.Tasks.New(seed), fails: n > 32+16+16 && n%2 == 0}
}

// Where failures leave groups of one, the error tells of the failures.
func TestFailuresThatLeaveNothingToCompare(t *testing.T) {
	t.Parallel()
	cfg := small(t, "advantage.estimator=grpo", "train.truncated=zero", "rollout.group_size=2", "rollout.concurrency=1")
	run, err := assembly.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	parts := run.Parts
	parts.Tasks = everyOther{run.Tasks, new(atomic.Int64)}
	trainer, err := train.New(parts, cfg.Loop())
	if err != nil {
		t.Fatal(err)
	}
	_, err = trainer.Run(context.Background(), train.Options{Dir: filepath.Join(t.TempDir(), "run"), Description: []byte("{}\n")})
	if err == nil || !strings.Contains(err.Error(), "trajectories failed, the first one so:") || !strings.Contains(err.Error(), "the sandbox is gone") {
		t.Errorf("error %v, want one that tells of the failures", err)
	}
}

// unversioned samples from new weights and does not say so.
type unversioned struct{ policy.Sampler }

func (u unversioned) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	c, err := u.Sampler.Sample(ctx, request)
	c.FirstVersion, c.LastVersion = 0, 0
	return c, err
}

func (u unversioned) TakeWeights(ctx context.Context, weights policy.Weights) error {
	return u.Sampler.(policy.WeightTaker).TakeWeights(ctx, weights)
}

// Trajectories of weights that are too old are not trained on, and the error says so.
func TestStaleTrajectoriesAreLeftOut(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	run, err := assembly.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	parts := run.Parts
	parts.Sampler = unversioned{parts.Sampler}
	trainer, err := train.New(parts, cfg.Loop())
	if err != nil {
		t.Fatal(err)
	}
	_, err = trainer.Run(context.Background(), train.Options{Dir: filepath.Join(t.TempDir(), "run"), Description: []byte("{}\n")})
	if err == nil || !strings.Contains(err.Error(), "step 2") || !strings.Contains(err.Error(), "rollout.max_staleness") {
		t.Errorf("error %v, want one of step 2 that names rollout.max_staleness", err)
	}
}
