package ablation

import (
	"encoding/json"
	"path/filepath"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/train"
)

// Result is ablation.json. Every list has one entry a seed.
type Result struct {
	Env       string   `json:"env"`
	Metric    string   `json:"metric"`
	Threshold float64  `json:"threshold"`
	Seeds     []uint64 `json:"seeds"`
	// WarmStart is the metric of the base model, in each method's own window, and Reached
	// that after training, sampled, both on unseen tasks; Return the mean return beside it.
	WarmStart map[string][]float64 `json:"warm_start"`
	Reached   map[string][]float64 `json:"reached"`
	Return    map[string][]float64 `json:"return"`
	Success   map[string][]float64 `json:"success"`
	// Trajectories and Seconds are what was played, and how long that and learning took,
	// until the mean of the metric over three steps reached the threshold; null if it did not.
	Trajectories map[string][]*float64 `json:"trajectories_to_threshold"`
	Seconds      map[string][]*float64 `json:"seconds_to_threshold"`
	// RowTokens is what the learner went through in all: prompts and responses of
	// every row, once an epoch of the policy.
	RowTokens   map[string][]int64   `json:"row_tokens"`
	WallSeconds map[string][]float64 `json:"wall_seconds"`
	Segments    map[string][]float64 `json:"segments_per_trajectory"`
	// Curves are the metric, and Returns the mean return, of each step's rollouts; Played
	// are the trajectories up to that step.
	Curves  map[string][][]float64 `json:"curves"`
	Returns map[string][][]float64 `json:"return_curves"`
	Played  map[string][][]int     `json:"trajectories"`
	// Of the evaluation after training, per trajectory: what the model went through
	// (prefill and decode), what it was asked, and how much of that was summaries.
	PolicyTokens map[string][]float64 `json:"policy_tokens_per_trajectory"`
	PolicyCalls  map[string][]float64 `json:"policy_calls_per_trajectory"`
	SummaryCalls map[string][]float64 `json:"summary_calls_per_trajectory"`
	// LogProbDrift is the largest difference between sampler and learner over all
	// rollouts, in nats; 0 where the learner did not recompute log-probs.
	LogProbDrift map[string][]float64 `json:"log_prob_drift_max"`
	// SameBoundaries is the share of segments whose prompt comes out the same, token
	// for token, when the trajectories of the evaluation are condensed once more.
	SameBoundaries map[string][]float64 `json:"same_boundaries"`
}

// result gathers the runs that have ended.
func (c *comparison) result() *Result {
	r := &Result{
		Env: c.plan.Env, Metric: c.plan.Metric, Threshold: c.plan.Threshold,
		Trajectories: map[string][]*float64{}, Seconds: map[string][]*float64{}, RowTokens: map[string][]int64{},
		Curves: map[string][][]float64{}, Returns: map[string][][]float64{}, Played: map[string][][]int{},
	}
	for _, column := range []*map[string][]float64{&r.WarmStart, &r.Reached, &r.Return, &r.Success, &r.WallSeconds, &r.Segments, &r.PolicyTokens, &r.PolicyCalls,
		&r.SummaryCalls, &r.LogProbDrift, &r.SameBoundaries} {
		*column = map[string][]float64{}
	}
	for i := range c.plan.Seeds {
		r.Seeds = append(r.Seeds, c.plan.First+uint64(i))
	}
	for i, o := range c.outcomes {
		if o != nil {
			m := c.plan.Methods[i%len(c.plan.Methods)]
			r.add(m.Name, o, c.runner.Epochs(m))
		}
	}
	return r
}

// add appends one run.
func (r *Result) add(name string, o *outcome, epochs int) {
	var tokens int64
	curve, returns, played := []float64{}, []float64{}, []int{} // in JSON never null
	trajectories, seconds := 0, 0.0
	reached := train.Reached(o.steps, r.Metric, r.Threshold)
	var trajectoriesTo, secondsTo *float64
	for i, s := range o.steps {
		tokens += int64(s.RowTokens * epochs)
		trajectories += s.Trajectories
		seconds += s.Timing.RolloutSeconds + s.Timing.TrainSeconds
		value, _ := s.Metric(r.Metric)
		curve, returns, played = append(curve, value), append(returns, s.ReturnMean), append(played, trajectories)
		if i == reached {
			n, t := float64(trajectories), seconds
			trajectoriesTo, secondsTo = &n, &t
		}
	}
	r.Curves[name], r.Returns[name], r.Played[name] = append(r.Curves[name], curve), append(r.Returns[name], returns), append(r.Played[name], played)
	r.Trajectories[name], r.Seconds[name] = append(r.Trajectories[name], trajectoriesTo), append(r.Seconds[name], secondsTo)
	r.RowTokens[name] = append(r.RowTokens[name], tokens)
	e := o.summary.Sampled
	before, _ := o.summary.WarmStart.Metric(r.Metric)
	after, _ := e.Metric(r.Metric)
	for _, c := range []struct {
		column map[string][]float64
		value  float64
	}{
		{r.WarmStart, before}, {r.Reached, after}, {r.Return, e.ReturnMean}, {r.Success, e.Success},
		{r.WallSeconds, o.summary.WallSeconds}, {r.Segments, e.SegmentsPerTrajectory},
		{r.PolicyTokens, e.PolicyTokensPerTrajectory}, {r.PolicyCalls, e.PolicyCallsPerTrajectory}, {r.SummaryCalls, e.SummaryCallsPerTrajectory},
		{r.SameBoundaries, e.SameBoundaries}, {r.LogProbDrift, o.summary.LogProbDriftMax},
	} {
		c.column[name] = append(c.column[name], c.value)
	}
}

// write writes what is there so far.
func (c *comparison) write() error {
	r := c.result()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(c.opts.Dir, resultName), append(text, '\n')); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(c.opts.Dir, curvesName), r.chart(c.plan.Methods))
}
