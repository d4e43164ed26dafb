package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bounded"
)

// state is what a resumed run has to know besides weights and optimizers.
type state struct {
	Step int `json:"step"`
	// WarmStart is the evaluation of the base model, sampled, WarmStartGreedy its success
	// without sampling.
	WarmStartGreedy float64     `json:"warm_start_greedy_success"`
	WarmStart       *Evaluation `json:"warm_start"`
	// ValueScale is the unit of values; see scaledCritic.
	ValueScale      float64 `json:"value_scale"`
	TrainableTokens int64   `json:"trainable_tokens"`
	WallSeconds     float64 `json:"wall_seconds"`
	PeakRSSBytes    int64   `json:"peak_rss_bytes"`
}

// maxState bounds state.json, which has a few hundred bytes.
const maxState = 1 << 20

const (
	checkpointsName = "checkpoints"
	stateName       = "state.json"
)

// checkpoint writes checkpoints/step-NNNNNN and removes the oldest ones.
func (r *run) checkpoint(ctx context.Context) error {
	s := r.state
	s.WallSeconds += r.wall()
	s.PeakRSSBytes = max(s.PeakRSSBytes, peakRSS())
	path := filepath.Join(r.dir, checkpointsName, checkpointName(s.Step))
	if _, err := os.Stat(path); err == nil {
		return nil // written by the run that is resumed
	}
	err := CreateDirectory(path, func(temporary string) error {
		if err := r.Learner.Save(ctx, temporary); err != nil {
			return err
		}
		if r.readsValues() {
			if err := r.Critic.Save(ctx, temporary); err != nil {
				return err
			}
		}
		return atomicfile.Write(filepath.Join(temporary, stateName), func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(s)
		})
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	names, err := checkpoints(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names[:max(0, len(names)-r.cfg.Train.KeepCheckpoints)] {
		if err := removeDirectory(filepath.Join(r.dir, checkpointsName, name)); err != nil {
			return fmt.Errorf("remove old checkpoint: %w", err)
		}
	}
	return nil
}

// removeDirectory renames before it deletes, so that a killed process never
// leaves half a checkpoint under a checkpoint's name.
func removeDirectory(path string) error {
	hidden := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".removed")
	if err := os.Rename(path, hidden); err != nil {
		return err
	}
	return os.RemoveAll(hidden)
}

// checkpoints lists the names of a run's checkpoints, oldest first.
func checkpoints(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, checkpointsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "step-") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

// LatestCheckpoint returns the path of a run's newest checkpoint.
func LatestCheckpoint(dir string) (string, error) {
	names, err := checkpoints(dir)
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fmt.Errorf("%s: no checkpoint yet", dir)
	}
	return filepath.Join(dir, checkpointsName, names[len(names)-1]), nil
}

// loadCheckpoint reads the newest checkpoint of a run. A run that was killed
// before its first one starts from the beginning. The error of one that is damaged says
// how to go on from the one before.
func (r *run) loadCheckpoint(ctx context.Context) (state, error) {
	dir := r.dir
	if err := removeLeftovers(filepath.Join(dir, checkpointsName)); err != nil {
		return state{}, err
	}
	if err := removeLeftovers(filepath.Join(dir, "rollouts")); err != nil {
		return state{}, err
	}
	names, err := checkpoints(dir)
	if err != nil || len(names) == 0 {
		return state{}, err
	}
	path := filepath.Join(dir, checkpointsName, names[len(names)-1])
	s, err := r.readCheckpoint(ctx, path)
	if err != nil && len(names) > 1 {
		err = fmt.Errorf("%w: delete %s to go on from %s", err, path, names[len(names)-2])
	}
	return s, err
}

func (r *run) readCheckpoint(ctx context.Context, path string) (state, error) {
	s, err := readState(filepath.Join(path, stateName))
	if err != nil {
		return state{}, err
	}
	if want := checkpointName(s.Step); want != filepath.Base(path) {
		return state{}, fmt.Errorf("%s: step %d in the checkpoint %s: want %s", filepath.Join(path, stateName), s.Step, filepath.Base(path), want)
	}
	if err := r.Learner.Load(ctx, path); err != nil {
		return state{}, fmt.Errorf("%s: %w", path, err)
	}
	if r.readsValues() {
		if err := r.Critic.Load(ctx, path); err != nil {
			return state{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	return s, nil
}

func readState(path string) (s state, err error) {
	text, err := bounded.ReadFile(path, maxState)
	if err != nil {
		return s, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if s.Step < 0 || s.WarmStart == nil {
		return s, fmt.Errorf("%s: step %d, warm_start %v: want a step from 0 and the evaluation of the base", path, s.Step, s.WarmStart)
	}
	if s.ValueScale < 0 {
		return s, fmt.Errorf("%s: value_scale: %v: want 0 or more", path, s.ValueScale)
	}
	return s, nil
}

func checkpointName(step int) string { return fmt.Sprintf("step-%06d", step) }
