package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/suites"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/scripted"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// windows are the context windows of the shipped configurations.
var windows = map[string]condense.Config{
	"search":    {Rule: condense.ToolFIFO, Mode: condense.Pair, High: 160, Low: 110, KeepLast: 1},
	"keytodoor": {Rule: condense.ToolFIFO, Mode: condense.Pair, High: 80, Low: 60, KeepLast: 1},
}

func play(t *testing.T, name string, n int, cfg rollout.Config, wrap func(policy.Sampler) policy.Sampler, actor func(env.Suite) func(uint64) env.Actor) []rollout.Result {
	t.Helper()
	suite, err := suites.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	var sampler policy.Sampler = scripted.New(suite.Codec().(scripted.Codec), actor(suite))
	if wrap != nil {
		sampler = wrap(sampler)
	}
	engine, err := rollout.New(suite, sampler, cfg)
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]rollout.Job, n)
	for i := range jobs {
		jobs[i] = rollout.Job{Task: suite.Task(env.Eval, i), TrajectoryID: fmt.Sprint(name, i), GroupID: fmt.Sprint(i), Seed: uint64(i)}
	}
	results, err := engine.Run(context.Background(), jobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func config(name string) rollout.Config {
	return rollout.Config{Condense: windows[name], MaxReply: 8, MaxTurns: 30, Temperature: 1, Concurrency: 4}
}

func expert(s env.Suite) func(uint64) env.Actor {
	return func(uint64) env.Actor { return s.Expert() }
}

// The condensed window shows all that is needed: an expert that reads nothing but
// the prompt's token ids always succeeds, over three segments or more.
func TestExpertSucceedsFromTheWindowAlone(t *testing.T) {
	t.Parallel()
	for name := range windows {
		segments, tokens := 0, 0
		results := play(t, name, 200, config(name), nil, expert)
		for _, r := range results {
			if r.Err != nil || !r.Success || r.Trajectory.Score != 1 {
				t.Fatalf("%s: success %v, score %v, status %s, error %v", r.Job.TrajectoryID, r.Success, r.Trajectory.Score, r.Trajectory.Status, r.Err)
			}
			segments += len(r.Trajectory.Segments)
			for _, e := range r.Trajectory.Entries {
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

func (r *recording) Sample(ctx context.Context, reqs []policy.Request) ([]policy.Completion, error) {
	completions, err := r.Sampler.Sample(ctx, reqs)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, req := range reqs {
		r.prompts[req.SessionID] = append(r.prompts[req.SessionID], slices.Clone(req.Prompt))
		r.replies[req.SessionID] = append(r.replies[req.SessionID], slices.Clone(completions[i].Tokens))
	}
	return completions, nil
}

// Every token that is trained on was sampled from exactly the row's tokens before
// it, once, and every prompt fits the window.
func TestRowsReproduceEveryPromptTheSamplerSaw(t *testing.T) {
	t.Parallel()
	for name := range windows {
		for _, mode := range []string{condense.Pair, condense.Result} {
			if mode == condense.Result && name != "keytodoor" {
				continue // without its call, a page does not tell the scripted actors where they are
			}
			cfg := config(name)
			seen := &recording{prompts: map[string][][]int32{}, replies: map[string][][]int32{}}
			results := play(t, name, 40, cfg, func(s policy.Sampler) policy.Sampler { seen.Sampler = s; return seen },
				func(s env.Suite) func(uint64) env.Actor { return s.Demonstrator })
			checkRows(t, results, seen, cfg)
		}
	}
}

func checkRows(t *testing.T, results []rollout.Result, seen *recording, cfg rollout.Config) {
	t.Helper()
	var closed []*trajectory.Trajectory
	for _, r := range results {
		closed = append(closed, r.Trajectory)
	}
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
			if len(prompt)+cfg.MaxReply > cfg.Condense.High {
				t.Errorf("%s, inv_iter %d: a prompt of %d tokens and a reply of %d exceed %d", id, row.InvIter, len(prompt), cfg.MaxReply, cfg.Condense.High)
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
	suite, err := suites.ByName("search")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := rollout.New(suite, scripted.New(suite.Codec().(scripted.Codec), expert(suite)), config("search"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	jobs := make([]rollout.Job, 1000)
	for i := range jobs {
		jobs[i] = rollout.Job{Task: suite.Task(env.Eval, i), TrajectoryID: fmt.Sprint(i), Seed: uint64(i)}
	}
	ended := 0
	_, err = engine.Run(ctx, jobs, func(rollout.Result) {
		if ended++; ended == 10 {
			cancel()
		}
	})
	if err != context.Canceled {
		t.Errorf("Run returned %v, want %v", err, context.Canceled)
	}
	if ended > 20 {
		t.Errorf("%d episodes ended after the context did", ended)
	}
}

// A task that does not fit the window ends its episode, with the reason.
func TestOverflowEndsTheEpisode(t *testing.T) {
	t.Parallel()
	cfg := config("search")
	cfg.Condense.High, cfg.Condense.Low = 20, 10
	for _, r := range play(t, "search", 3, cfg, nil, expert) {
		if r.Trajectory.Status != trajectory.ContextOverflow || r.Err == nil {
			t.Errorf("status %s, error %v, want %s with the reason", r.Trajectory.Status, r.Err, trajectory.ContextOverflow)
		}
	}
}

// An episode that the number of turns ends says what it would have gone on from: the
// prompt of the next turn.
func TestTruncatedEpisodesKeepTheirNextPrompt(t *testing.T) {
	t.Parallel()
	for name := range windows {
		cfg := config(name)
		cfg.MaxTurns = 4
		cut := play(t, name, 8, cfg, nil, expert)
		whole := &recording{prompts: map[string][][]int32{}, replies: map[string][][]int32{}}
		play(t, name, 8, config(name), func(s policy.Sampler) policy.Sampler { whole.Sampler = s; return whole }, expert)
		for _, r := range cut {
			id := r.Job.TrajectoryID
			if r.Trajectory.Status != trajectory.Truncated || r.Success {
				t.Errorf("%s: status %s, success %v", id, r.Trajectory.Status, r.Success)
			}
			if !slices.Equal(r.Next, whole.prompts[id][cfg.MaxTurns]) {
				t.Errorf("%s: the next prompt is not that of turn %d", id, cfg.MaxTurns)
			}
		}
	}
}
