package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/env/search"
	"github.com/infinirl/infinirl/env/toolcall"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/scripted"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// windows are the context windows of the shipped configurations.
var windows = map[string]condense.Config{
	"search":    {Rule: condense.ToolFIFO, High: 160, Low: 110, KeepLast: 1},
	"keytodoor": {Rule: condense.ToolFIFO, High: 80, Low: 60, KeepLast: 1},
}

var worlds = map[string]curriculum.World{"search": search.World(), "keytodoor": keytodoor.World()}

// setting is how trajectories are played in a test.
type setting struct {
	rollout.Config
	condense condense.Config
}

func newEngine(t testing.TB, name string, s setting, wrap func(policy.Sampler) policy.Sampler, actor func(curriculum.World) func(uint64) curriculum.Actor) *rollout.Engine {
	t.Helper()
	world := worlds[name]
	var sampler policy.Sampler = scripted.New(world.Renderer, actor(world))
	if wrap != nil {
		sampler = wrap(sampler)
	}
	condenser, err := condense.New(s.condense)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := rollout.New(world.Tasks, world.Renderer, sampler, condenser, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func jobsOf(name string, n int) []rollout.Job {
	jobs := make([]rollout.Job, n)
	for i := range jobs {
		jobs[i] = rollout.Job{Task: worlds[name].Tasks.Task(env.Eval, i), TrajectoryID: fmt.Sprint(name, i), GroupID: fmt.Sprint(i), Seed: uint64(i)}
	}
	return jobs
}

func play(t testing.TB, name string, n int, s setting, wrap func(policy.Sampler) policy.Sampler, actor func(curriculum.World) func(uint64) curriculum.Actor) []*trajectory.Trajectory {
	t.Helper()
	all, err := newEngine(t, name, s, wrap, actor).Collect(context.Background(), jobsOf(name, n), nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func config(name string) setting {
	return setting{rollout.Config{MaxReply: 8, MaxTurns: 30, Temperature: 1, Concurrency: 4, Backoff: policy.DefaultBackoff}, windows[name]}
}

func expert(w curriculum.World) func(uint64) curriculum.Actor {
	return func(uint64) curriculum.Actor { return w.Expert() }
}

// looker always looks.
func looker(curriculum.World) func(uint64) curriculum.Actor {
	return func(uint64) curriculum.Actor { return look{} }
}

type look struct{}

func (look) Act([]chat.Message) (chat.Message, error) { return toolcall.New("look", struct{}{}), nil }

func demonstrator(w curriculum.World) func(uint64) curriculum.Actor { return w.Demonstrator }

// The condensed window shows all that is needed: an expert that reads nothing but
// the prompt's token ids always succeeds, over three segments or more.
func TestExpertSucceedsFromTheWindowAlone(t *testing.T) {
	t.Parallel()
	for name := range windows {
		segments, tokens := 0, 0
		results := play(t, name, 200, config(name), nil, expert)
		for _, r := range results {
			if r.Error != "" || !r.Success || r.Score != 1 {
				t.Fatalf("%s: success %v, score %v, status %s, error %v", r.ID, r.Success, r.Score, r.Status, r.Error)
			}
			segments += len(r.Segments)
			for _, e := range r.Entries {
				tokens += len(e.IDs)
			}
		}
		n := float64(len(results))
		t.Logf("%s: %.2f segments and %.0f tokens a trajectory, window %d", name, float64(segments)/n, float64(tokens)/n, windows[name].High)
		if float64(segments)/n < 3 {
			t.Errorf("%s: %.2f segments a trajectory, want at least 3", name, float64(segments)/n)
		}
	}
}

// recording keeps every prompt a sampler was given and every reply it gave.
type recording struct {
	policy.Sampler
	mu      sync.Mutex
	prompts map[string][][]int32
	replies map[string][][]int32
}

func (r *recording) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	c, err := r.Sampler.Sample(ctx, request)
	if err != nil {
		return c, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prompts[request.SessionID] = append(r.prompts[request.SessionID], slices.Clone(request.Prompt))
	r.replies[request.SessionID] = append(r.replies[request.SessionID], slices.Clone(c.Tokens))
	return c, nil
}

// Every token that is trained on was sampled from exactly the row's tokens before
// it, once, and every prompt fits the window.
func TestRowsReproduceEveryPromptTheSamplerSaw(t *testing.T) {
	t.Parallel()
	for name := range windows {
		for _, mode := range []string{condense.Pair, condense.Result} {
			actor := demonstrator
			if mode == condense.Result { // without its call, a result does not tell the scripted actors where they are
				if name != "keytodoor" {
					continue
				}
				actor = looker
			}
			cfg := config(name)
			cfg.condense.Set("mode", mode)
			seen := &recording{prompts: map[string][][]int32{}, replies: map[string][][]int32{}}
			results := play(t, name, 40, cfg, func(s policy.Sampler) policy.Sampler { seen.Sampler = s; return seen }, actor)
			checkRows(t, results, seen, cfg)
		}
	}
}

func checkRows(t *testing.T, closed []*trajectory.Trajectory, seen *recording, cfg setting) {
	t.Helper()
	b, err := batch.FromTrajectories(closed)
	if err != nil {
		t.Fatal(err)
	}
	turn := map[string]int{}
	for i, row := range b.Rows {
		start, end := b.Span(i)
		tokens, mask := b.TokenIDs[start:end], b.LossMask[start:end]
		for at := 0; at < len(tokens); at++ {
			if !mask[at] {
				continue
			}
			id := row.TrajectoryID
			if turn[id] == len(seen.prompts[id]) {
				t.Fatalf("%s: more turns trained than sampled", id)
			}
			prompt, reply := seen.prompts[id][turn[id]], seen.replies[id][turn[id]]
			turn[id]++
			if !slices.Equal(tokens[:at], prompt) {
				t.Fatalf("%s, inv_iter %d, token %d: the row differs from the prompt that was sampled from", id, row.InvIter, at)
			}
			if len(prompt)+cfg.MaxReply > cfg.condense.High {
				t.Errorf("%s, inv_iter %d: a prompt of %d tokens and a reply of %d exceed %d", id, row.InvIter, len(prompt), cfg.MaxReply, cfg.condense.High)
			}
			if !slices.Equal(tokens[at:at+len(reply)], reply) || slices.Contains(mask[at:at+len(reply)], false) {
				t.Fatalf("%s, inv_iter %d, token %d: the row differs from what was sampled", id, row.InvIter, at)
			}
			at += len(reply)
		}
	}
	for id, prompts := range seen.prompts {
		if turn[id] != len(prompts) {
			t.Errorf("%s: %d of %d turns are trained", id, turn[id], len(prompts))
		}
	}
}

func TestRunStopsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, "search", config("search"), nil, expert)
	ctx, cancel := context.WithCancel(context.Background())
	ended := 0
	err := engine.Run(ctx, jobsOf("search", 1000), func(int, *trajectory.Trajectory) error {
		if ended++; ended == 10 {
			cancel()
		}
		return nil
	})
	if err != context.Canceled {
		t.Errorf("Run returned %v, want %v", err, context.Canceled)
	}
	if ended > 20 {
		t.Errorf("%d trajectories ended after the context did", ended)
	}
}

// What hears of the trajectories can end the run.
func TestRunStopsWithTheErrorOfItsHearer(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	ended := 0
	err := newEngine(t, "search", config("search"), nil, expert).Run(context.Background(), jobsOf("search", 1000), func(int, *trajectory.Trajectory) error {
		if ended++; ended == 10 {
			return full
		}
		return nil
	})
	if err != full || ended != 10 {
		t.Errorf("error %v after %d trajectories, want %v after 10", err, ended, full)
	}
}

// A task that does not fit the window ends its trajectory, with the reason.
func TestOverflowEndsTheTrajectory(t *testing.T) {
	t.Parallel()
	cfg := config("search")
	cfg.condense.High, cfg.condense.Low = 20, 10
	for _, r := range play(t, "search", 3, cfg, nil, expert) {
		if r.Status != trajectory.ContextOverflow || !strings.Contains(r.Error, "tokens") {
			t.Errorf("status %s, error %q, want %s with the reason", r.Status, r.Error, trajectory.ContextOverflow)
		}
	}
}

// A trajectory that the number of turns or of segments ends says what it would have gone on
// from: the prompt of the next turn.
func TestTruncatedTrajectoriesKeepTheirNextPrompt(t *testing.T) {
	t.Parallel()
	for name := range windows {
		cfg := config(name)
		cfg.MaxTurns = 4
		cut := play(t, name, 8, cfg, nil, expert)
		whole := &recording{prompts: map[string][][]int32{}, replies: map[string][][]int32{}}
		play(t, name, 8, config(name), func(s policy.Sampler) policy.Sampler { whole.Sampler = s; return whole }, expert)
		for _, r := range cut {
			id := r.ID
			if r.Status != trajectory.Truncated || r.Success {
				t.Errorf("%s: status %s, success %v", id, r.Status, r.Success)
			}
			if !slices.Equal(r.Next, whole.prompts[id][cfg.MaxTurns]) {
				t.Errorf("%s: the next prompt is not that of turn %d", id, cfg.MaxTurns)
			}
		}
		cfg = config(name)
		cfg.condense.MaxSegments = 2
		truncated := 0
		for _, r := range play(t, name, 8, cfg, nil, expert) {
			if r.Status == trajectory.Finished {
				continue
			}
			truncated++
			turns := 0
			for _, e := range r.Entries {
				if e.Sampled() {
					turns++
				}
			}
			if r.Status != trajectory.Truncated || len(r.Segments) != 2 || !slices.Equal(r.Next, whole.prompts[r.ID][turns]) {
				t.Errorf("%s: status %s, %d segments, and the next prompt is not that of turn %d", r.ID, r.Status, len(r.Segments), turns)
			}
		}
		if truncated == 0 {
			t.Errorf("%s: no trajectory has more than two segments", name)
		}
	}
}
