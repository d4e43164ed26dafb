// Package ablation trains from one base model under several ways to assign credit, or to
// cut the window, and compares what comes out.
package ablation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/train"
)

// Method is one way to train: a configuration with some keys overridden, as in
// "advantage.estimator=gae".
type Method struct {
	Name      string   `json:"name"`
	Overrides []string `json:"overrides"`
}

// Plan is what is compared: every method on every seed, counted up from the first.
type Plan struct {
	Env     string   `json:"env"`
	Over    string   `json:"over"`
	Methods []Method `json:"methods"`
	First   uint64   `json:"first_seed"`
	Seeds   int      `json:"seeds"`
}

// NewPlan compares the methods of a question.
func NewPlan(env, over string, first uint64, seeds int) (Plan, error) {
	methods, err := Methods(over)
	return Plan{Env: env, Over: over, Methods: methods, First: first, Seeds: seeds}, err
}

// The files of a comparison beside its runs.
const (
	planName   = "plan.json"
	resultName = "ablation.json"
	curvesName = "curves.svg"
)

// ReadPlan reads the plan of a comparison that was begun.
func ReadPlan(dir string) (Plan, error) {
	var plan Plan
	const most = 1 << 20
	path := filepath.Join(dir, planName)
	text, err := bounded.ReadFile(path, most)
	if err != nil {
		return plan, fmt.Errorf("%s is no comparison: %w", dir, err)
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return plan, fmt.Errorf("%s: %w", path, err)
	}
	if len(plan.Methods) == 0 || plan.Seeds < 1 {
		return plan, fmt.Errorf("%s: %d methods on %d seeds: want at least one of each", path, len(plan.Methods), plan.Seeds)
	}
	return plan, nil
}

// Runner trains methods. It knows the configuration that they override.
type Runner interface {
	// Check returns the error that training a method would fail with at its start.
	Check(ctx context.Context, m Method) error
	// Train trains a method from a seed, in a run directory.
	Train(ctx context.Context, m Method, seed uint64, dir string, progress *train.Progress) (*train.Summary, error)
	// Resume goes on with a run of Train.
	Resume(ctx context.Context, dir string, progress *train.Progress) (*train.Summary, error)
	// Epochs is how often the method goes through each step's trajectories.
	Epochs(m Method) int
}

// The two questions that methods can be compared over.
const (
	OverCredit   = "credit"   // how credit is assigned
	OverCondense = "condense" // how the window is cut
)

// Methods returns what is compared over a question.
func Methods(over string) ([]Method, error) {
	switch over {
	case OverCredit:
		// full-context plays in a window that never fills: no cuts, the upper bound that
		// condensing should reach at less cost.
		return []Method{
			{"cross-segment", []string{"advantage.estimator=gae"}},
			{"per-segment", []string{"advantage.estimator=per-segment"}},
			{"grpo", []string{"advantage.estimator=grpo"}},
			{"full-context", []string{"advantage.estimator=gae", "condense.rule=none", "condense.high=2048"}},
		}, nil
	case OverCondense:
		var methods []Method
		for _, rule := range []string{condense.None, condense.ToolFIFO, condense.ToolClear, condense.DiscardAll, condense.Summary} {
			// The learner's own log-probs beside the sampler's show the drift.
			methods = append(methods, Method{rule, []string{"condense.rule=" + rule, "train.old_log_probs=learner"}})
		}
		return methods, nil
	}
	return nil, fmt.Errorf("--over %s: want %s or %s", over, OverCredit, OverCondense)
}

// Result is ablation.json. Every list has one entry a seed.
type Result struct {
	Env   string   `json:"env"`
	Seeds []uint64 `json:"seeds"`
	// WarmStart is the success of the base model, in each method's own window.
	WarmStart map[string][]float64 `json:"warm_start_success"`
	// Success on unseen tasks after training, sampled.
	Success map[string][]float64 `json:"success"`
	// RowTokens is what the learner went through in all: prompts and responses of
	// every row, once an epoch.
	RowTokens   map[string][]int64   `json:"row_tokens"`
	WallSeconds map[string][]float64 `json:"wall_seconds"`
	Segments    map[string][]float64 `json:"segments_per_trajectory"`
	// Curves are the success of each step's rollouts.
	Curves map[string][][]float64 `json:"curves"`
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

// Options says where a comparison lives and who hears of it.
type Options struct {
	Dir string
	// Resume goes on with a plan that was interrupted: runs that have ended stay as they
	// are.
	Resume bool
	// Description is the text of the configuration, for train.ConfigName.
	Description []byte
	Progress    *train.Progress
}

// Run trains a plan, each method and seed in a run directory of its own, and writes
// ablation.json and curves.svg beside them.
func Run(ctx context.Context, runner Runner, plan Plan, opts Options) (*Result, error) {
	dir, progress := opts.Dir, opts.Progress
	for _, method := range plan.Methods { // before anything is trained
		if err := runner.Check(ctx, method); err != nil {
			return nil, fmt.Errorf("%s: %w", method.Name, err)
		}
	}
	if !opts.Resume {
		if err := begin(plan, opts); err != nil {
			return nil, err
		}
	}
	r := &Result{Env: plan.Env, RowTokens: map[string][]int64{}, Curves: map[string][][]float64{}}
	for _, column := range []*map[string][]float64{&r.WarmStart, &r.Success, &r.WallSeconds, &r.Segments, &r.PolicyTokens, &r.PolicyCalls,
		&r.SummaryCalls, &r.LogProbDrift, &r.SameBoundaries} {
		*column = map[string][]float64{}
	}
	for i := range plan.Seeds {
		seed := plan.First + uint64(i)
		r.Seeds = append(r.Seeds, seed)
		for k, method := range plan.Methods {
			progress.Printf("\n%s, seed %d (run %d of %d)", method.Name, seed, i*len(plan.Methods)+k+1, plan.Seeds*len(plan.Methods))
			if err := r.train(ctx, runner, method, seed, filepath.Join(dir, fmt.Sprintf("%s-seed%d", method.Name, seed)), progress); err != nil {
				return nil, fmt.Errorf("%s, seed %d: %w", method.Name, seed, err)
			}
			if err := r.write(dir, plan.Methods); err != nil { // what is there so far
				return nil, err
			}
		}
	}
	return r, nil
}

// begin makes the directory of a comparison, with its plan. An empty one will do.
func begin(plan Plan, opts Options) error {
	text, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		return err
	}
	err = train.CreateDirectory(opts.Dir, func(temporary string) error {
		return errors.Join(
			atomicfile.WriteBytes(filepath.Join(temporary, train.ConfigName), opts.Description),
			atomicfile.WriteBytes(filepath.Join(temporary, planName), append(text, '\n')),
		)
	})
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: choose another --run, or add --resume to go on with it", err)
	}
	return err
}

// outcome trains one method on one seed, goes on with a run that was interrupted, or reads
// what one that has ended came to.
func outcome(ctx context.Context, runner Runner, method Method, seed uint64, dir string, progress *train.Progress) (*train.Summary, error) {
	if summary, err := train.ReadSummary(dir); err == nil {
		progress.Printf("success %.3f (it had ended)", summary.EvalSuccess)
		return summary, nil
	}
	if _, err := os.Stat(filepath.Join(dir, train.ConfigName)); err == nil {
		return runner.Resume(ctx, dir, progress)
	}
	return runner.Train(ctx, method, seed, dir, progress)
}

// train runs one method on one seed.
func (r *Result) train(ctx context.Context, runner Runner, method Method, seed uint64, dir string, progress *train.Progress) error {
	name := method.Name
	summary, err := outcome(ctx, runner, method, seed, dir, progress)
	if err != nil {
		return err
	}
	steps, err := train.ReadMetrics(dir)
	if err != nil {
		return err
	}
	var tokens int64
	curve := make([]float64, 0, len(steps))
	for _, s := range steps {
		tokens += int64(s.RowTokens * runner.Epochs(method))
		curve = append(curve, s.Success)
	}
	r.WarmStart[name] = append(r.WarmStart[name], summary.WarmStartSuccess)
	r.Success[name] = append(r.Success[name], summary.EvalSuccess)
	r.RowTokens[name] = append(r.RowTokens[name], tokens)
	r.WallSeconds[name] = append(r.WallSeconds[name], summary.WallSeconds)
	r.Segments[name] = append(r.Segments[name], summary.SegmentsPerTrajectory)
	r.Curves[name] = append(r.Curves[name], curve)
	e := summary.Sampled
	r.PolicyTokens[name] = append(r.PolicyTokens[name], e.PolicyTokensPerTrajectory)
	r.PolicyCalls[name] = append(r.PolicyCalls[name], e.PolicyCallsPerTrajectory)
	r.SummaryCalls[name] = append(r.SummaryCalls[name], e.SummaryCallsPerTrajectory)
	r.SameBoundaries[name] = append(r.SameBoundaries[name], e.SameBoundaries)
	r.LogProbDrift[name] = append(r.LogProbDrift[name], summary.LogProbDriftMax)
	return nil
}

func (r *Result) write(dir string, methods []Method) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, resultName), append(text, '\n')); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, curvesName), r.chart(methods))
}
