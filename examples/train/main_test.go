package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/infinirl/infinirl/train"
)

// Two steps of own parts: trajectories are cut, rewards come, and the policy moves.
func TestTwoSteps(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	summary, err := run(context.Background(), "../environment/numbers.jsonl", 2, train.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Env != "numbers" || summary.Steps != 2 || summary.EvalTasks != 64 || summary.WarmStartSuccess < 0.2 || summary.WarmStartSuccess > 0.7 {
		t.Errorf("%+v, want two steps from a policy that guesses", summary)
	}
	text, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); steps++ {
		var m train.StepMetrics
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if m.Failed > 0 || m.SegmentsPerTrajectory < 1.5 || m.Success < 0.2 || m.ActorGradNorm == 0 || m.AdvantageStd == 0 {
			t.Errorf("step %d: %+v, want trajectories that are cut, some of them successful, and an update", m.Step, m)
		}
	}
	if steps != 2 {
		t.Errorf("%d lines of metrics, want 2", steps)
	}
}
