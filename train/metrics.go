package train

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/train/tensorboard"
)

// StepMetrics is one line of metrics.jsonl; docs/metrics.md explains every field.
// Two runs with one seed on one machine write the same lines but for Timing.
type StepMetrics struct {
	Step int `json:"step"`
	// Of the step's rollouts.
	Success               float64 `json:"success"`
	ReturnMean            float64 `json:"return_mean"`
	Trajectories          int     `json:"trajectories"`
	Failed                int     `json:"failed"`
	Truncated             int     `json:"truncated"`
	Overflowed            int     `json:"overflowed"` // of the truncated: the window could not hold them
	Stale                 int     `json:"stale"`      // left out: their policy was too old
	SegmentsPerTrajectory float64 `json:"segments_per_trajectory"`
	TokensPerTrajectory   float64 `json:"tokens_per_trajectory"`
	TrainableTokens       int     `json:"trainable_tokens"`
	RowTokens             int     `json:"row_tokens"`
	// Environment are the environment's own metrics, each a mean over the trajectories that
	// state it; nil if none does.
	Environment map[string]float64 `json:"environment,omitempty"`
	// Credit is what was assigned, before the update.
	Credit        CreditMetrics `json:"credit"`
	AdvantageMean float64       `json:"advantage_mean"`
	AdvantageStd  float64       `json:"advantage_std"`
	// LogProbDriftMean and LogProbDriftMax are the mean and the largest difference
	// between the sampler's log-probs and the learner's before the update, over trainable
	// tokens, in nats; 0 unless the learner recomputes them.
	LogProbDriftMean float64 `json:"log_prob_drift_mean"`
	LogProbDriftMax  float64 `json:"log_prob_drift_max"`
	// Of the update, over all its epochs and mini-batches.
	Update         ppo.Metrics `json:"update"`
	ActorUpdates   int         `json:"actor_updates"` // optimizer steps
	CriticUpdates  int         `json:"critic_updates"`
	ActorGradNorm  float64     `json:"actor_grad_norm"`
	CriticGradNorm float64     `json:"critic_grad_norm"`
	Timing         Timing      `json:"timing"`
}

// Success is the metric of every environment: the share of trajectories that solved their
// task. Others are the environment's own.
const Success = "success"

// Metric returns the success of a step, or the environment's metric of that name, and
// whether it states one.
func (m StepMetrics) Metric(name string) (float64, bool) {
	return metric(name, m.Success, m.Environment)
}

func (m StepMetrics) states(name string) bool {
	_, ok := m.Metric(name)
	return ok
}

func metric(name string, success float64, environment map[string]float64) (float64, bool) {
	if name == Success {
		return success, true
	}
	value, ok := environment[name]
	return value, ok
}

// Reached returns the index of the first step at which the mean of a metric over it and the
// two steps before reached a threshold; len(steps) if none did.
func Reached(steps []StepMetrics, name string, threshold float64) int {
	const window = 3
	for i := window - 1; i < len(steps); i++ {
		sum := 0.0
		for _, m := range steps[i-window+1 : i+1] {
			value, ok := m.Metric(name)
			if !ok {
				value = math.NaN()
			}
			sum += value
		}
		if sum/window >= threshold {
			return i
		}
	}
	return len(steps)
}

// Timing is what differs between two runs of one seed.
type Timing struct {
	RolloutSeconds         float64 `json:"rollout_seconds"`
	TrainSeconds           float64 `json:"train_seconds"`
	RolloutTokensPerSecond float64 `json:"rollout_tokens_per_second"`
	TrainTokensPerSecond   float64 `json:"train_tokens_per_second"`
}

// metricsFile appends to metrics.jsonl and mirrors it as TensorBoard events.
type metricsFile struct {
	lines  *os.File
	events *os.File
	board  *tensorboard.Writer
}

const (
	metricsName = "metrics.jsonl"
	eventsName  = "events.out.tfevents.infinirl"
)

// openMetrics keeps the lines of the first steps and drops what a killed run
// wrote after its last checkpoint.
func openMetrics(dir string, steps int) (*metricsFile, []StepMetrics, error) {
	kept, err := ReadMetrics(dir)
	if err != nil {
		return nil, nil, inputError{err}
	}
	if len(kept) < steps {
		return nil, nil, inputError{fmt.Errorf("%s: %d lines, but the checkpoint is of step %d: restore the file or start a new run", filepath.Join(dir, metricsName), len(kept), steps)}
	}
	kept = kept[:steps]
	path := filepath.Join(dir, metricsName)
	err = atomicfile.Write(path, func(w io.Writer) error {
		for i := range kept {
			if err := json.NewEncoder(w).Encode(kept[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	m := &metricsFile{}
	if m.lines, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		return nil, nil, err
	}
	if m.events, err = os.Create(filepath.Join(dir, eventsName)); err != nil {
		m.lines.Close()
		return nil, nil, err
	}
	if m.board, err = tensorboard.NewWriter(m.events, time.Now()); err != nil {
		m.Close()
		return nil, nil, fmt.Errorf("write %s: %w", m.events.Name(), err)
	}
	for i := range kept {
		if err := m.event(kept[i]); err != nil {
			m.Close()
			return nil, nil, err
		}
	}
	return m, kept, nil
}

// Append writes one step. The line is synced: a step that has a checkpoint has
// its line.
func (m *metricsFile) Append(step StepMetrics) error {
	line, err := json.Marshal(step)
	if err != nil {
		return fmt.Errorf("metrics of step %d: %w", step.Step, err)
	}
	if _, err := m.lines.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := m.lines.Sync(); err != nil {
		return err
	}
	return m.event(step)
}

func (m *metricsFile) event(step StepMetrics) error {
	text, err := json.Marshal(step)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	scalars := map[string]float64{}
	flatten("", fields, scalars)
	if err := m.board.Scalars(time.Now(), int64(step.Step), scalars); err != nil {
		return fmt.Errorf("write %s: %w", m.events.Name(), err)
	}
	return nil
}

// flatten names the numbers of nested objects as TensorBoard does: group/name.
func flatten(prefix string, fields map[string]any, into map[string]float64) {
	for name, value := range fields {
		switch v := value.(type) {
		case float64:
			into[prefix+name] = v
		case map[string]any:
			flatten(prefix+name+"/", v, into)
		}
	}
}

// Close closes both files.
func (m *metricsFile) Close() error { return cmp.Or(m.lines.Close(), m.events.Close()) }

// maxMetrics bounds metrics.jsonl: a million lines of two kilobytes.
const maxMetrics = 2 << 30

// ReadMetrics reads the metrics of a run directory. A last line that was cut by
// the end of its process is left out.
func ReadMetrics(dir string) ([]StepMetrics, error) {
	path := filepath.Join(dir, metricsName)
	text, err := bounded.ReadFile(path, maxMetrics)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if end := bytes.LastIndexByte(text, '\n'); end < len(text)-1 {
		text = text[:end+1]
	}
	var steps []StepMetrics
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		var step StepMetrics
		if err := json.Unmarshal(scanner.Bytes(), &step); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, len(steps)+1, err)
		}
		if step.Step != len(steps)+1 {
			return nil, fmt.Errorf("%s:%d: step %d: want %d", path, len(steps)+1, step.Step, len(steps)+1)
		}
		steps = append(steps, step)
	}
	return steps, scanner.Err()
}
