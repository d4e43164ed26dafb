package train

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/trajectory"
)

// Evaluation is how a policy did on unseen tasks.
type Evaluation struct {
	Success    float64 `json:"success"`
	ReturnMean float64 `json:"return_mean"`
	// Environment are the environment's own metrics, as those of a training step.
	Environment           map[string]float64 `json:"environment,omitempty"`
	Tasks                 int                `json:"tasks"`
	SegmentsPerTrajectory float64            `json:"segments_per_trajectory"`
	TokensPerTrajectory   float64            `json:"tokens_per_trajectory"`
	Temperature           float64            `json:"temperature"`
	Failed                int                `json:"failed"` // trajectories that an error ended: no successes
	// What the model was asked and went through (prefill and decode), a trajectory.
	PolicyCallsPerTrajectory  float64 `json:"policy_calls_per_trajectory"`
	SummaryCallsPerTrajectory float64 `json:"summary_calls_per_trajectory"`
	PolicyTokensPerTrajectory float64 `json:"policy_tokens_per_trajectory"`
	// SameBoundaries is the share of segments whose prompt comes out the same, token
	// for token, when the trajectories are condensed once more.
	SameBoundaries float64 `json:"same_boundaries"`
}

// Metric is that of StepMetrics.
func (e Evaluation) Metric(name string) (float64, bool) {
	return metric(name, e.Success, e.Environment)
}

// Summary is summary.json: what a run came to.
type Summary struct {
	Env              string  `json:"env"`
	WarmStartSuccess float64 `json:"warm_start_success"`        // base model, sampled
	WarmStartGreedy  float64 `json:"warm_start_greedy_success"` // base model, greedy
	EvalSuccess      float64 `json:"eval_success"`              // trained model, sampled
	GreedySuccess    float64 `json:"greedy_success"`            // trained model, greedy
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
	// WarmStart and Sampled are the whole evaluations before and after training, sampled,
	// Greedy that after it, greedy.
	WarmStart Evaluation `json:"warm_start"`
	Sampled   Evaluation `json:"sampled"`
	Greedy    Evaluation `json:"greedy"`
}

const summaryName = "summary.json"

// ReadSummary reads what a run that has ended came to.
func ReadSummary(dir string) (*Summary, error) {
	const most = 1 << 20
	path := filepath.Join(dir, summaryName)
	text, err := bounded.ReadFile(path, most)
	if err != nil {
		return nil, err
	}
	s := new(Summary)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// evaluate plays the unseen tasks, the same ones and with the same seeds every
// time.
func (t *Trainer) evaluate(ctx context.Context, what string, temperature float64, progress *Progress) (Evaluation, error) {
	rng := rand.New(rand.NewPCG(t.cfg.Seed, streamEval))
	jobs := make([]rollout.Job, min(t.cfg.Eval.Tasks, t.Tasks.Len(env.Eval)))
	for i := range jobs {
		task := t.Tasks.Task(env.Eval, i)
		jobs[i] = rollout.Job{Task: task, TrajectoryID: "eval/" + task.ID, GroupID: task.ID, Seed: rng.Uint64()}
	}
	played, err := t.play(ctx, what, jobs, temperature, progress)
	if err != nil {
		return Evaluation{}, err
	}
	if err := mostFailed(played); err != nil {
		return Evaluation{}, fmt.Errorf("%s: %w", what, err)
	}
	m := summarise(played)
	e := Evaluation{Success: m.Success, ReturnMean: m.ReturnMean, Environment: m.Environment, Tasks: len(jobs), SegmentsPerTrajectory: m.SegmentsPerTrajectory,
		TokensPerTrajectory: m.TokensPerTrajectory, Temperature: temperature, Failed: m.Failed}
	for _, p := range played {
		cost, err := p.Cost()
		if err != nil {
			return Evaluation{}, err
		}
		n := float64(len(played))
		e.PolicyCallsPerTrajectory += float64(cost.Replies) / n
		e.PolicyTokensPerTrajectory += float64(cost.Processed()) / n
		for _, entry := range p.Entries {
			if entry.Summary && entry.Sampled() {
				e.SummaryCallsPerTrajectory += 1 / n
			}
		}
	}
	e.SameBoundaries, err = t.sameBoundaries(ctx, jobs, played, temperature)
	return e, err
}

// sameBoundaries condenses the trajectories once more, from their messages, and
// returns the share of segments whose prompt is the same. Where the rule has the
// policy write summaries, it writes them again, with another seed.
func (t *Trainer) sameBoundaries(ctx context.Context, jobs []rollout.Job, played []*trajectory.Trajectory, temperature float64) (float64, error) {
	same, all := 0, 0
	sampler := policy.Retry(t.Sampler, policy.DefaultBackoff)
	for i, p := range played {
		recording := trajectory.Recording{ID: p.ID, Group: p.GroupID, Tools: p.Tools, Reply: t.cfg.Rollout.MaxReply}
		for _, e := range p.Entries {
			if !e.Summary {
				recording.Messages = append(recording.Messages, trajectory.RecordedMessage{Message: e.Message})
			}
		}
		var sampling error
		seeds := rand.New(rand.NewPCG(^jobs[i].Seed, uint64(i)))
		session := "again/" + p.ID
		recording.Summarize = func(prompt []int32, tokens int) ([]int32, error) {
			written, err := sampler.Sample(ctx, policy.Request{
				SessionID: session, Prompt: prompt, MaxTokens: tokens, Stop: t.Renderer.Stop(),
				Temperature: temperature, Seed: seeds.Uint64(),
			})
			sampling = err
			return written.Tokens, err
		}
		all += len(p.Segments)
		again, _, err := trajectory.Recut(recording, t.Renderer, t.Condenser)
		if forgetter, ok := sampler.(policy.Forgetter); ok {
			forgetter.Forget(session)
		}
		if sampling != nil {
			return 0, sampling
		}
		if err != nil {
			continue // a reply that is no message cannot be told again
		}
		for k := range min(len(p.Segments), len(again.Segments)) {
			a, errA := p.Prompt(k)
			b, errB := again.Prompt(k)
			if errA == nil && errB == nil && slices.Equal(a, b) {
				same++
			}
		}
	}
	return float64(same) / float64(max(1, all)), nil
}

// Evaluate plays unseen tasks with the sampler's weights as they are.
func (t *Trainer) Evaluate(ctx context.Context, temperature float64, progress *Progress) (Evaluation, error) {
	if progress == nil {
		progress = NewProgress(io.Discard, false)
	}
	if err := t.Check(ctx); err != nil {
		return Evaluation{}, err
	}
	return t.evaluate(ctx, "evaluating", temperature, progress)
}

// finish evaluates the trained policy and writes the summary.
func (r *run) finish(ctx context.Context) (*Summary, error) {
	sampled, err := r.evaluate(ctx, "evaluating, sampled", r.cfg.Eval.Temperature, r.progress)
	if err != nil {
		return nil, err
	}
	greedy, err := r.evaluate(ctx, "evaluating, greedy", 0, r.progress)
	if err != nil {
		return nil, err
	}
	s := &Summary{
		Env:                   r.Tasks.Name(),
		WarmStartSuccess:      r.state.WarmStart.Success,
		WarmStartGreedy:       r.state.WarmStartGreedy,
		EvalSuccess:           sampled.Success,
		GreedySuccess:         greedy.Success,
		EvalTasks:             sampled.Tasks,
		Steps:                 r.state.Step,
		SegmentsPerTrajectory: sampled.SegmentsPerTrajectory,
		TokensPerTrajectory:   sampled.TokensPerTrajectory,
		ContextWindow:         r.cfg.Window,
		TrainableTokens:       r.state.TrainableTokens,
		WallSeconds:           r.state.WallSeconds + r.wall(),
		PeakRSSBytes:          max(r.state.PeakRSSBytes, peakRSS()),
		Seed:                  r.cfg.Seed,
		WarmStart:             *r.state.WarmStart,
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
