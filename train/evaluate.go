package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// Evaluation is how a policy did on unseen tasks.
type Evaluation struct {
	Success               float64 `json:"success"`
	Tasks                 int     `json:"tasks"`
	SegmentsPerTrajectory float64 `json:"segments_per_trajectory"`
	TokensPerTrajectory   float64 `json:"tokens_per_trajectory"`
	Temperature           float64 `json:"temperature"`
	Failed                int     `json:"failed"` // episodes that an error ended: no successes
	// What the model was asked and went through (prefill and decode), a trajectory.
	PolicyCallsPerTrajectory  float64 `json:"policy_calls_per_trajectory"`
	SummaryCallsPerTrajectory float64 `json:"summary_calls_per_trajectory"`
	PolicyTokensPerTrajectory float64 `json:"policy_tokens_per_trajectory"`
	// SameBoundaries is the share of segments whose prompt comes out the same, token
	// for token, when the trajectories are condensed once more.
	SameBoundaries float64 `json:"same_boundaries"`
}

// Summary is summary.json: what a run came to.
type Summary struct {
	Env              string  `json:"env"`
	WarmStartSuccess float64 `json:"warm_start_success"` // base model, sampled
	EvalSuccess      float64 `json:"eval_success"`       // trained model, sampled
	GreedySuccess    float64 `json:"greedy_success"`     // trained model, greedy
	EvalTasks        int     `json:"eval_tasks"`
	Steps            int     `json:"steps"`
	// Segments and tokens are those of the sampled evaluation.
	SegmentsPerTrajectory  float64 `json:"segments_per_trajectory"`
	TokensPerTrajectory    float64 `json:"tokens_per_trajectory"`
	ContextWindow          int     `json:"context_window"`
	TrainableTokens        int64   `json:"trainable_tokens"`
	TrainTokensPerSecond   float64 `json:"train_tokens_per_second"`
	RolloutTokensPerSecond float64 `json:"rollout_tokens_per_second"`
	WallSeconds            float64 `json:"wall_seconds"`
	PeakRSSBytes           int64   `json:"peak_rss_bytes"`
	Seed                   uint64  `json:"seed"`
	// LogProbDriftMax is the largest over all steps.
	LogProbDriftMax float64 `json:"log_prob_drift_max"`
	// Sampled and Greedy are the whole evaluations after training.
	Sampled Evaluation `json:"sampled"`
	Greedy  Evaluation `json:"greedy"`
}

const summaryName = "summary.json"

// evaluate plays the unseen tasks, the same ones and with the same seeds every
// time.
func (r *run) evaluate(ctx context.Context, what string, temperature float64) (Evaluation, error) {
	rng := rand.New(rand.NewPCG(r.cfg.Seed, streamEval))
	jobs := make([]rollout.Job, r.cfg.Eval.Tasks)
	for i := range jobs {
		task := r.suite.Task(env.Eval, i)
		jobs[i] = rollout.Job{Task: task, TrajectoryID: "eval/" + task.ID, GroupID: task.ID, Seed: rng.Uint64()}
	}
	results, err := r.rollouts(ctx, what, jobs, temperature)
	if err != nil {
		return Evaluation{}, err
	}
	m, _, _ := r.summarise(results)
	if m.Failed == len(results) {
		return Evaluation{}, fmt.Errorf("%s: all %d episodes failed, the first of them: %w", what, m.Failed, results[0].Err)
	}
	e := Evaluation{Success: m.Success, Tasks: len(jobs), SegmentsPerTrajectory: m.SegmentsPerTrajectory,
		TokensPerTrajectory: m.TokensPerTrajectory, Temperature: temperature, Failed: m.Failed}
	for _, result := range results {
		cost, err := result.Trajectory.Cost()
		if err != nil {
			return Evaluation{}, err
		}
		n := float64(len(results))
		e.PolicyCallsPerTrajectory += float64(cost.Replies) / n
		e.PolicyTokensPerTrajectory += float64(cost.Processed()) / n
		for _, entry := range result.Trajectory.Entries {
			if entry.Summary && entry.Sampled() {
				e.SummaryCallsPerTrajectory += 1 / n
			}
		}
	}
	e.SameBoundaries, err = r.sameBoundaries(ctx, results, temperature)
	return e, err
}

// sameBoundaries condenses the trajectories once more, from their messages, and
// returns the share of segments whose prompt is the same. Where the rule has the
// policy write summaries, it writes them again, with another seed.
func (r *run) sameBoundaries(ctx context.Context, results []rollout.Result, temperature float64) (float64, error) {
	condenser, err := condense.New(r.cfg.condenser())
	if err != nil {
		return 0, err
	}
	same, all := 0, 0
	for i, result := range results {
		t := result.Trajectory
		recording := trajectory.Recording{ID: t.ID, Group: t.GroupID, Reply: r.cfg.Rollout.MaxReply}
		for _, e := range t.Entries {
			if !e.Summary {
				recording.Messages = append(recording.Messages, e.Message)
			}
		}
		var sampling error
		seeds := rand.New(rand.NewPCG(^result.Job.Seed, uint64(i)))
		session := "again/" + t.ID
		recording.Summarize = func(prompt []int32, tokens int) ([]int32, error) {
			written, err := r.sampler.Sample(ctx, []policy.Request{{
				SessionID: session, Prompt: prompt, MaxTokens: tokens, Stop: r.suite.Codec().Stop(),
				Temperature: temperature, Seed: seeds.Uint64(),
			}})
			if err != nil {
				sampling = err
				return nil, err
			}
			return written[0].Tokens, nil
		}
		all += len(t.Segments)
		again, _, err := trajectory.Recut(recording, r.suite.Codec(), condenser)
		r.sampler.Forget(session)
		if sampling != nil {
			return 0, sampling
		}
		if err != nil {
			continue // a reply that is no message cannot be told again
		}
		for k := range min(len(t.Segments), len(again.Segments)) {
			a, errA := t.Prompt(k)
			b, errB := again.Prompt(k)
			if errA == nil && errB == nil && slices.Equal(a, b) {
				same++
			}
		}
	}
	return float64(same) / float64(max(1, all)), nil
}

// Evaluate plays unseen tasks with the base model of a configuration.
func Evaluate(ctx context.Context, cfg Config, temperature float64, progress *Progress) (e Evaluation, err error) {
	r := &run{cfg: cfg, progress: progress, started: time.Now()}
	base, err := r.openEnvironment()
	if err != nil {
		return e, err
	}
	if r.sampler, err = newSampler(base, cfg, 0); err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, r.sampler.Close()) }()
	return r.evaluate(ctx, "evaluating", temperature)
}

// finish evaluates the trained policy and writes the summary.
func (r *run) finish(ctx context.Context) (*Summary, error) {
	sampled, err := r.evaluate(ctx, "evaluating, sampled", r.cfg.Eval.Temperature)
	if err != nil {
		return nil, err
	}
	greedy, err := r.evaluate(ctx, "evaluating, greedy", 0)
	if err != nil {
		return nil, err
	}
	s := &Summary{
		Env:                   r.cfg.Env,
		WarmStartSuccess:      r.earlier.WarmStart.Success,
		EvalSuccess:           sampled.Success,
		GreedySuccess:         greedy.Success,
		EvalTasks:             sampled.Tasks,
		Steps:                 r.earlier.Step,
		SegmentsPerTrajectory: sampled.SegmentsPerTrajectory,
		TokensPerTrajectory:   sampled.TokensPerTrajectory,
		ContextWindow:         r.cfg.Condense.High,
		TrainableTokens:       r.earlier.TrainableTokens,
		WallSeconds:           r.earlier.WallSeconds + r.wall(),
		PeakRSSBytes:          max(r.earlier.PeakRSSBytes, peakRSS()),
		Seed:                  r.cfg.Seed,
		Sampled:               sampled,
		Greedy:                greedy,
	}
	var rolloutTokens, rowTokens, rolloutSeconds, trainSeconds float64
	for _, m := range r.history {
		rolloutTokens += m.TokensPerTrajectory * float64(m.Trajectories)
		rowTokens += float64(m.RowTokens * r.cfg.Train.Epochs)
		rolloutSeconds += m.Timing.RolloutSeconds
		trainSeconds += m.Timing.TrainSeconds
		s.LogProbDriftMax = max(s.LogProbDriftMax, m.LogProbDriftMax)
	}
	if len(r.history) > 0 {
		s.RolloutTokensPerSecond = rolloutTokens / rolloutSeconds
		s.TrainTokensPerSecond = rowTokens / trainSeconds
	}
	return s, atomicfile.Write(filepath.Join(r.dir, summaryName), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	})
}

// wall is the time this process has been at the run, in seconds.
func (r *run) wall() float64 { return time.Since(r.started).Seconds() }
