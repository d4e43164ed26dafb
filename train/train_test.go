package train_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/train"
	"github.com/infinirl/infinirl/trajectory"
)

// small is the key-to-door configuration cut down to seconds.
func small(t *testing.T, overrides ...string) config.Config {
	t.Helper()
	cfg, err := config.Shipped("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	for _, assignment := range append([]string{
		"rollout.groups=8", "train.steps=3", "train.minibatches=2", "eval.tasks=16",
	}, overrides...) {
		if err := cfg.Set(assignment); err != nil {
			t.Fatal(err)
		}
	}
	if err := cfg.Validate(); err != nil {
		if key, _, idle := strings.Cut(err.Error(), ": without effect"); idle { // beside a later override
			return small(t, slices.DeleteFunc(overrides, func(a string) bool { return strings.HasPrefix(a, key+"=") })...)
		}
		t.Fatal(err)
	}
	return cfg
}

// untimed returns a run's metrics and summary without what differs between two
// runs of one seed.
func untimed(t *testing.T, dir string) ([]train.StepMetrics, train.Summary) {
	t.Helper()
	steps, err := train.ReadMetrics(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		steps[i].Timing = train.Timing{}
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s train.Summary
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	s.WallSeconds, s.PeakRSSBytes, s.TrainTokensPerSecond, s.RolloutTokensPerSecond = 0, 0, 0, 0
	return steps, s
}

func TestTwoRunsOfOneSeedAreOne(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a, b, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "other")
	// Neither threads nor trajectories in flight may matter to the first two.
	for dir, overrides := range map[string][]string{
		a:     {"threads=1", "rollout.concurrency=7"},
		b:     {"threads=2", "rollout.concurrency=64"},
		other: {"seed=2"},
	} {
		if _, err := assembly.Train(ctx, small(t, overrides...), train.Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	stepsA, summaryA := untimed(t, a)
	stepsB, summaryB := untimed(t, b)
	if !reflect.DeepEqual(stepsA, stepsB) || !reflect.DeepEqual(summaryA, summaryB) {
		t.Errorf("two runs of one seed differ:\n%+v\n%+v\n%+v\n%+v", stepsA, stepsB, summaryA, summaryB)
	}
	if steps, _ := untimed(t, other); reflect.DeepEqual(stepsA, steps) {
		t.Error("two seeds gave the same run")
	}
	if _, err := assembly.Train(ctx, small(t), train.Options{Dir: a}); !errors.Is(err, train.ErrInput) || !errors.Is(err, os.ErrExist) {
		t.Errorf("a run into a directory that exists: error %v", err)
	}
}

// A run that is cancelled wherever, and resumed, ends as one that was not.
func TestResumedRunEndsAsAnUninterruptedOne(t *testing.T) {
	t.Parallel()
	whole, cut := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "cut")
	cfg := small(t, "train.checkpoint_every=2", "train.steps=4")
	if _, err := assembly.Train(context.Background(), cfg, train.Options{Dir: whole}); err != nil {
		t.Fatal(err)
	}
	resumes := 0
	for after := 1; ; after++ { // cancel at the first, second, … line of progress
		ctx, cancel := context.WithCancel(context.Background())
		lines := &cancelAfter{lines: after, cancel: cancel}
		_, err := assembly.Train(ctx, cfg, train.Options{Dir: cut, Resume: after > 1, Progress: train.NewProgress(lines, false)})
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if resumes++; resumes > 20 {
			t.Fatal("the run never ends")
		}
	}
	if resumes < 4 {
		t.Errorf("the run was interrupted %d times, want a few", resumes)
	}
	stepsWhole, summaryWhole := untimed(t, whole)
	stepsCut, summaryCut := untimed(t, cut)
	if !reflect.DeepEqual(stepsWhole, stepsCut) || !reflect.DeepEqual(summaryWhole, summaryCut) {
		t.Errorf("after %d interruptions the run differs:\n%+v\n%+v\n%+v\n%+v", resumes, stepsWhole, stepsCut, summaryWhole, summaryCut)
	}
	sameRollouts(t, whole, cut)
}

// sameRollouts holds the saved batches of two runs against each other, byte by byte.
func sameRollouts(t *testing.T, a, b string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(a, "rollouts", "*.safetensors"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no rollouts in %s: %v", a, err)
	}
	for _, name := range names {
		x, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		y, err := os.ReadFile(filepath.Join(b, "rollouts", filepath.Base(name)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x, y) {
			t.Errorf("%s differs between the two runs", filepath.Base(name))
		}
	}
}

// cancelAfter cancels once a number of lines were written.
type cancelAfter struct {
	lines  int
	cancel func()
}

func (c *cancelAfter) Write(p []byte) (int, error) {
	if c.lines--; c.lines == 0 {
		c.cancel()
	}
	return len(p), nil
}

// recording keeps every prompt and completion of a sampler.
type recording struct {
	policy.Sampler
	mu    sync.Mutex
	turns map[string][]turn
}

type turn struct {
	prompt     []int32
	completion policy.Completion
}

func (r *recording) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	c, err := r.Sampler.Sample(ctx, request)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns[request.SessionID] = append(r.turns[request.SessionID], turn{slices.Clone(request.Prompt), c})
	return c, err
}

// What the learner trains on is what the sampler saw: every prompt token for
// token, and with unchanged weights every log-prob.
func TestTheLearnerSeesWhatTheSamplerSaw(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"search", "keytodoor"} {
		cfg, err := config.Shipped(name)
		if err != nil {
			t.Fatal(err)
		}
		run, err := assembly.Open(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		seen := &recording{Sampler: run.Sampler, turns: map[string][]turn{}}
		engine, err := rollout.New(run.Tasks, run.Renderer, seen, run.Condenser, rollout.Config{MaxReply: cfg.Rollout.MaxReply,
			MaxTurns: cfg.Rollout.MaxTurns, Temperature: 1, Concurrency: 16, Backoff: policy.DefaultBackoff})
		if err != nil {
			t.Fatal(err)
		}
		jobs := make([]rollout.Job, 48)
		for i := range jobs {
			task := run.Tasks.Task(env.Train, i)
			jobs[i] = rollout.Job{Task: task, TrajectoryID: task.ID, GroupID: task.ID, Seed: uint64(i)}
		}
		closed, err := engine.Collect(context.Background(), jobs, nil)
		if err != nil {
			t.Fatal(err)
		}
		segments := 0
		for _, t := range closed {
			segments += len(t.Segments)
		}
		if segments < 3*len(jobs) {
			t.Fatalf("%s: %d segments of %d trajectories: the window does not cut", name, segments, len(jobs))
		}
		b, err := batch.FromTrajectories(closed)
		if err != nil {
			t.Fatal(err)
		}
		checkPrompts(t, b, seen.turns)
		if b.OldLogProbs, err = run.Learner.LogProbs(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for i, trainable := range b.LossMask {
			if trainable {
				worst = max(worst, math.Abs(float64(b.OldLogProbs[i]-b.RolloutLogProbs[i])))
			}
		}
		if worst > 1e-4 {
			t.Errorf("%s: log-probs of learner and sampler differ by up to %g, want at most 1e-4", name, worst)
		}
		t.Logf("%s: %d rows, log-probs differ by at most %g", name, len(b.Rows), worst)
	}
}

// checkPrompts walks through all rows: before each sampled turn stands exactly the
// prompt that it was sampled from.
func checkPrompts(t *testing.T, b *batch.Batch, turns map[string][]turn) {
	t.Helper()
	next := map[string]int{}
	for i, row := range b.Rows {
		start, end := b.Span(i)
		for at := start; at < end; at++ {
			if !b.LossMask[at] {
				continue
			}
			id := row.TrajectoryID
			if next[id] == len(turns[id]) {
				t.Fatalf("%s: more turns are trained on than were sampled", id)
			}
			sampled := turns[id][next[id]]
			next[id]++
			if !slices.Equal(b.TokenIDs[start:at], sampled.prompt) {
				t.Fatalf("%s, inv_iter %d, token %d: the row is not the prompt that was sampled from", id, row.InvIter, at-start)
			}
			n := len(sampled.completion.Tokens)
			if !slices.Equal(b.TokenIDs[at:at+n], sampled.completion.Tokens) || !slices.Equal(b.RolloutLogProbs[at:at+n], sampled.completion.LogProbs) {
				t.Fatalf("%s, inv_iter %d, token %d: the row is not what was sampled", id, row.InvIter, at-start)
			}
			at += n
		}
	}
	for id := range turns {
		if next[id] != len(turns[id]) {
			t.Errorf("%s: %d of %d turns are trained on", id, next[id], len(turns[id]))
		}
	}
}

// Files of a run directory: all that docs/formats.md promises, nothing temporary.
func TestRunDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := assembly.Train(context.Background(), small(t), train.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			name, _ := filepath.Rel(dir, path)
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"checkpoints/step-000002/actor/config.json", "checkpoints/step-000002/actor/model.safetensors",
		"checkpoints/step-000002/critic/config.json", "checkpoints/step-000002/critic/model.safetensors",
		"checkpoints/step-000002/optimizer-actor.safetensors", "checkpoints/step-000002/optimizer-critic.safetensors",
		"checkpoints/step-000002/state.json",
		"checkpoints/step-000003/actor/config.json", "checkpoints/step-000003/actor/model.safetensors",
		"checkpoints/step-000003/critic/config.json", "checkpoints/step-000003/critic/model.safetensors",
		"checkpoints/step-000003/optimizer-actor.safetensors", "checkpoints/step-000003/optimizer-critic.safetensors",
		"checkpoints/step-000003/state.json",
		"config.yaml", "events.out.tfevents.infinirl", "metrics.jsonl",
		"rollouts/step-000001.safetensors", "rollouts/step-000002.safetensors", "rollouts/step-000003.safetensors",
		"summary.json",
	}
	if !slices.Equal(files, want) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(files, "\n"), strings.Join(want, "\n"))
	}
	file, err := os.Open(filepath.Join(dir, "rollouts/step-000003.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b, err := batch.ReadSafetensors(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.Advantages == nil || b.Returns == nil || b.Values == nil || b.OldLogProbs == nil {
		t.Error("the rollouts lack what they were trained on")
	}
	if actor, err := assembly.LatestActor(dir); err != nil {
		t.Error(err)
	} else if _, err := lm.Load(actor); err != nil {
		t.Error(err)
	}
}

// A run directory that was tampered with, or that another process is at, is refused
// in one line.
func TestDamagedRunsAreRefused(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "run")
	if _, err := assembly.Train(context.Background(), small(t, "train.steps=2"), train.Options{Dir: whole}); err != nil {
		t.Fatal(err)
	}
	const state = "checkpoints/step-000002/state.json"
	rewrite := func(name string, change func(string) string) func(dir string) error {
		return func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, name), []byte(change(string(text))), 0o644)
		}
	}
	for name, test := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"negative step":      {rewrite(state, func(s string) string { return strings.Replace(s, `"step": 2`, `"step": -5`, 1) }), "step -5"},
		"other step":         {rewrite(state, func(s string) string { return strings.Replace(s, `"step": 2`, `"step": 1`, 1) }), "step 1 in the checkpoint step-000002"},
		"empty state":        {rewrite(state, func(string) string { return "{}" }), "warm_start"},
		"unknown key":        {rewrite(state, func(s string) string { return strings.Replace(s, `"step"`, `"stepz"`, 1) }), "stepz"},
		"no state":           {func(dir string) error { return os.Remove(filepath.Join(dir, state)) }, "state.json"},
		"metrics cut":        {rewrite("metrics.jsonl", func(s string) string { return s[:len(s)/2] }), "lines, but the checkpoint is of step 2"},
		"metrics doubled":    {rewrite("metrics.jsonl", func(s string) string { return s[:strings.Index(s, "\n")+1] + s }), "metrics.jsonl:2: step 1"},
		"actor truncated":    {rewrite("checkpoints/step-000002/actor/model.safetensors", func(s string) string { return s[:len(s)/2] }), "to go on from step-000001"},
		"optimizer":          {rewrite("checkpoints/step-000002/optimizer-critic.safetensors", func(s string) string { return s[:99] }), "step-000002"},
		"configuration":      {rewrite(train.ConfigName, func(s string) string { return s + "more: 1\n" }), "unknown key more"},
		"two documents":      {rewrite(train.ConfigName, func(s string) string { return s + "---\nseed: 3\n" }), "more than one"},
		"empty config":       {rewrite(train.ConfigName, func(string) string { return "" }), "config.yaml"},
		"not a run":          {func(dir string) error { return os.Remove(filepath.Join(dir, train.ConfigName)) }, "not a run directory"},
		"another process at": {nil, "another process"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		if test.damage == nil {
			file, err := os.Open(filepath.Join(dir, train.ConfigName))
			if err != nil {
				t.Fatal(err)
			}
			if err := train.LockFile(file); err != nil {
				t.Fatal(err)
			}
			defer file.Close()
		} else if err := test.damage(dir); err != nil {
			t.Fatal(err)
		}
		_, err := assembly.Resume(context.Background(), dir, nil)
		if !errors.Is(err, train.ErrInput) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", name, err, test.want)
		}
	}
}

// Every estimator, loss, aggregation and way to charge KL can be trained with by
// configuration alone, and makes a difference. (A rollout correction makes none
// here, where sampler and learner agree to the bit: package ppo tests it.)
func TestTrainUsesEveryEstimatorAndLoss(t *testing.T) {
	t.Parallel()
	var settings []string
	add := func(key, byDefault string, names ...string) {
		for _, name := range names {
			if name != byDefault {
				settings = append(settings, key+"="+name)
			}
		}
	}
	add("advantage.estimator", "gae", advantage.Names()...)
	add("ppo.loss", ppo.LossPPO, ppo.LossPPO, ppo.LossGSPO, ppo.LossCISPO, ppo.LossPG)
	add("ppo.aggregation", ppo.TokenMean, ppo.TokenMean, ppo.SeqMeanTokenSum, ppo.SeqMeanTokenMean, ppo.TrajectoryMean)
	add("ppo.kl_kind", ppo.K3, ppo.K1, ppo.K2, ppo.K3)
	add("", "", "ppo.kl_in=reward", "ppo.entropy_coef=0.01", "advantage.lambda_alpha=0.05", "advantage.whiten=false", "train.critic_warmup=1",
		"train.weight_decay=0.1", "train.final_lr=0.5", "train.epochs=1", "ppo.value_clip=0.01", "train.max_grad_norm=0.01",
		"train.scale_values=true", "train.critic_epochs=1", "train.critic_minibatches=4", "train.target_kl=1e-9")
	play := func(t *testing.T, overrides ...string) []train.StepMetrics {
		dir := filepath.Join(t.TempDir(), "run")
		base := []string{"train.steps=2", "eval.tasks=2", "rollout.groups=16", "train.minibatches=2", "ppo.kl_coef=0.05", "advantage.lambda=0.9", "advantage.gamma=0.99"}
		if _, err := assembly.Train(context.Background(), small(t, append(base, overrides...)...), train.Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		steps, _ := untimed(t, dir)
		return steps
	}
	baseline := play(t)
	for _, setting := range settings {
		setting = strings.TrimPrefix(setting, "=")
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			if reflect.DeepEqual(play(t, setting), baseline) {
				t.Error("it makes no difference")
			}
		})
	}
}

// The critic's passes are its own: however many it takes, it takes none from the policy.
// A target of the KL divergence ends the policy's passes, and not those of the critic.
func TestPassesOfPolicyAndCritic(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		overrides     []string
		actor, critic []int // updates in each step
	}{
		{nil, []int{4, 4}, []int{4, 4}},
		{[]string{"train.critic_epochs=3", "train.critic_minibatches=8"}, []int{4, 4}, []int{24, 24}},
		{[]string{"train.critic_epochs=1", "train.critic_warmup=1"}, []int{0, 4}, []int{2, 2}},
		// The first mini-batch of a step is seen by the policy that sampled it.
		{[]string{"train.target_kl=1e-9", "train.critic_epochs=3"}, []int{2, 2}, []int{6, 6}},
		{[]string{"advantage.estimator=grpo", "train.target_kl=1e3"}, []int{4, 4}, []int{0, 0}},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		cfg := small(t, append([]string{"train.steps=2", "eval.tasks=2"}, test.overrides...)...)
		if _, err := assembly.Train(context.Background(), cfg, train.Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		steps, _ := untimed(t, dir)
		for k, m := range steps {
			if m.ActorUpdates != test.actor[k] || m.CriticUpdates != test.critic[k] {
				t.Errorf("%v, step %d: %d updates of the policy and %d of the critic, want %d and %d", test.overrides, m.Step, m.ActorUpdates, m.CriticUpdates, test.actor[k], test.critic[k])
			}
		}
	}
}

// Trajectories that the number of turns cut off are bootstrapped with the critic's
// value of the state they would have gone on from, and that value reaches their
// first segments; by choice they count as ended, or are left out.
func TestTruncatedTrajectoriesAreBootstrapped(t *testing.T) {
	t.Parallel()
	last := func(truncated string) *batch.Batch {
		dir := filepath.Join(t.TempDir(), "run")
		// One step trains the critic, so that values are not 0 in the second.
		cfg := small(t, "train.steps=2", "eval.tasks=2", "rollout.max_turns=10", "train.minibatches=1", "train.truncated="+truncated, "advantage.whiten=false", "rollout.groups=16")
		if _, err := assembly.Train(context.Background(), cfg, train.Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(filepath.Join(dir, "rollouts", "step-000002.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		b, err := batch.ReadSafetensors(file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	count := func(b *batch.Batch) (truncated, bootstrapped int) {
		trajectories, err := b.Trajectories()
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range trajectories {
			if tr.Status != trajectory.Truncated {
				continue
			}
			truncated++
			if tr.BootstrapValue != 0 {
				bootstrapped++
			}
			// gamma = lambda = 1 and no reward: the return is the bootstrap everywhere.
			for _, i := range tr.Rows {
				start, end := b.Span(i)
				for at := start; at < end; at++ {
					if b.LossMask[at] && math.Abs(float64(b.Returns[at])-tr.BootstrapValue) > 1e-5 {
						t.Fatalf("%s, token %d: return %v, want the bootstrap %v", b.Describe(i), at-start, b.Returns[at], tr.BootstrapValue)
					}
				}
			}
		}
		return truncated, bootstrapped
	}
	if n, with := count(last("bootstrap")); n == 0 || with != n {
		t.Errorf("bootstrap: %d truncated trajectories, %d with a bootstrap value", n, with)
	}
	if n, with := count(last("zero")); n == 0 || with != 0 {
		t.Errorf("zero: %d truncated trajectories, %d with a bootstrap value", n, with)
	}
	if n, _ := count(last("drop")); n != 0 {
		t.Errorf("drop: %d truncated trajectories", n)
	}
}

// A run whose trajectories hardly ever come to their end says so, once, and what to do.
func TestRunsThatAreCutOffWarn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		overrides []string
		warnings  int
		want      string
	}{
		{[]string{"rollout.max_turns=3"}, 1, "advantage.gamma below 1"},
		{[]string{"rollout.max_segments=1"}, 1, "rollout.max_segments 1"},
		{[]string{"rollout.max_turns=3", "train.truncated=zero"}, 1, "want more of them\n"},
		{nil, 0, ""},
	} {
		var out bytes.Buffer
		cfg := small(t, append([]string{"train.steps=2", "eval.tasks=2"}, test.overrides...)...)
		if _, err := assembly.Train(context.Background(), cfg, train.Options{Dir: filepath.Join(t.TempDir(), "run"), Progress: train.NewProgress(&out, false)}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "trajectories are truncated"); n != test.warnings || !strings.Contains(out.String(), test.want) {
			t.Errorf("%v: %d warnings, want %d with %q:\n%s", test.overrides, n, test.warnings, test.want, out.String())
		}
	}
}

func TestSuccessMetricMustBeStated(t *testing.T) {
	t.Parallel()
	cfg := small(t, "train.success_metric=right_keys", "eval.tasks=2")
	_, err := assembly.Train(context.Background(), cfg, train.Options{Dir: filepath.Join(t.TempDir(), "run")})
	if !errors.Is(err, train.ErrInput) || !strings.Contains(err.Error(), "want one of success") {
		t.Errorf("error %v, want one that says which there are", err)
	}
}

// A metric that trajectories state at their end is not missed where none came to one.
func TestSuccessMetricOfTruncatedTrajectories(t *testing.T) {
	t.Parallel()
	cfg := small(t, "train.success_metric=right_keys", "eval.tasks=2", "rollout.max_turns=1", "train.steps=1")
	if _, err := assembly.Train(context.Background(), cfg, train.Options{Dir: filepath.Join(t.TempDir(), "run")}); err != nil {
		t.Error(err)
	}
}
