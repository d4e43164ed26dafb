package rollout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/errands"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/scripted"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// counted are tasks whose environments state one metric, "steps": what of makes of the
// number of steps so far, or none where that is 0.
type counted struct {
	env.Tasks
	of func(steps int) float64
}

func (c counted) New(seed uint64) env.Environment {
	return &countedEnvironment{Environment: c.Tasks.New(seed), of: c.of}
}

type countedEnvironment struct {
	env.Environment
	of    func(steps int) float64
	steps int
}

func (e *countedEnvironment) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	o, err := e.Environment.Step(ctx, action)
	e.steps++
	o.Metrics = nil
	if value := e.of(e.steps); value != 0 {
		o.Metrics = map[string]float64{"steps": value}
	}
	return o, err
}

// playErrands plays trajectories of one task with the expert.
func playErrands(t *testing.T, tasks env.Tasks, turns, n int) []*trajectory.Trajectory {
	t.Helper()
	world := errands.WithLuck()
	condenser, err := condense.New(condense.DefaultFor(condense.ToolFIFO, 80))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := rollout.New(tasks, world.Renderer, scripted.New(world.Renderer, expert(world)), condenser,
		rollout.Config{MaxReply: 8, MaxTurns: turns, Temperature: 1, Concurrency: 2, Backoff: policy.DefaultBackoff})
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]rollout.Job, n)
	for i := range jobs {
		jobs[i] = rollout.Job{Task: tasks.Task(env.Eval, 0), TrajectoryID: fmt.Sprint(i), Seed: uint64(i)}
	}
	played, err := engine.Collect(context.Background(), jobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return played
}

// What an environment counts last is its trajectory's, also of one that was cut short, and
// is kept where the trajectory is written.
func TestMetricsOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		turns int
		of    func(int) float64
		want  map[string]float64
	}{
		{"none", 60, func(int) float64 { return 0 }, nil},
		{"cut short", 7, func(k int) float64 { return float64(k) }, map[string]float64{"steps": 7}},
		{"not at the last step", 7, func(k int) float64 { return float64(k % 7) }, map[string]float64{"steps": 6}},
	} {
		played := playErrands(t, counted{errands.World().Tasks, test.of}, test.turns, 1)[0]
		if !reflect.DeepEqual(played.Metrics, test.want) {
			t.Errorf("%s: metrics %v, want %v", test.name, played.Metrics, test.want)
		}
		var text bytes.Buffer
		if err := trajectory.WriteAll(&text, []*trajectory.Trajectory{played}); err != nil {
			t.Fatal(err)
		}
		back, err := trajectory.ReadAll("metrics", &text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back[0].Metrics, test.want) {
			t.Errorf("%s: read back as %v, want %v", test.name, back[0].Metrics, test.want)
		}
	}
	whole := playErrands(t, errands.World().Tasks, 60, 1)[0]
	if want := map[string]float64{errands.MetricRightKeys: 1}; !reflect.DeepEqual(whole.Metrics, want) {
		t.Errorf("the expert of the errands: %v, want %v", whole.Metrics, want)
	}
}

// A metric that is no number is the environment's failure: JSON could not hold it.
func TestMetricsMustBeFinite(t *testing.T) {
	t.Parallel()
	for _, value := range []float64{math.NaN(), math.Inf(-1)} {
		tasks := counted{errands.World().Tasks, func(k int) float64 {
			if k == 3 {
				return value
			}
			return 1
		}}
		played := playErrands(t, tasks, 60, 1)[0]
		if played.Status != trajectory.Failed || !strings.Contains(played.Error, "turn 3: step: metric steps:") {
			t.Errorf("%v: status %s, error %q", value, played.Status, played.Error)
		}
		if _, err := json.Marshal(played); err != nil {
			t.Errorf("%v: %v", value, err)
		}
	}
}

// What the environment leaves to chance is drawn for each trajectory of a task.
func TestTrajectoriesOfOneTaskHaveTheirOwnLuck(t *testing.T) {
	t.Parallel()
	returns := map[float64]bool{}
	first, again := playErrands(t, errands.WithLuck().Tasks, 60, 12), playErrands(t, errands.WithLuck().Tasks, 60, 12)
	for i, p := range first {
		returns[p.Score] = true
		if p.Score != again[i].Score {
			t.Errorf("trajectory %d: return %v and then %v", i, p.Score, again[i].Score)
		}
	}
	if len(returns) < 4 {
		t.Errorf("12 trajectories of one task have the returns %v", returns)
	}
}
