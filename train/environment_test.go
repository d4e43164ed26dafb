package train_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/train"
)

// What the environment counts is in the metrics of a step, as the mean over its
// trajectories, and in the evaluations.
func TestMetricsOfTheEnvironmentAreAveraged(t *testing.T) {
	t.Parallel()
	cfg, err := config.Shipped("errands")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []string{"train.steps=1", "rollout.groups=2", "train.minibatches=1", "train.epochs=1", "eval.tasks=4"} {
		if err := cfg.Set(o); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := assembly.Train(context.Background(), cfg, train.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	steps, summary := untimed(t, dir)
	file, err := os.Open(filepath.Join(dir, "rollouts", "step-000001.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b, err := batch.ReadSafetensors(file)
	if err != nil {
		t.Fatal(err)
	}
	played, err := b.Trajectories()
	if err != nil {
		t.Fatal(err)
	}
	share := 0.0
	for _, p := range played {
		right, replies := 0.0, 0.0
		for _, row := range p.Rows {
			start, end := b.Span(row)
			for i := start; i < end; i++ {
				right += float64(b.Rewards[i])
				if b.LossMask[i] && (i == start || !b.LossMask[i-1]) {
					replies++
				}
			}
		}
		share += right / (replies - 1) / float64(len(played)) // the first call only looks
	}
	if got := steps[0].Environment["right_keys"]; len(steps[0].Environment) != 1 || math.Abs(got-share) > 1e-6 || got == 0 {
		t.Errorf("environment: %v, the rollouts have %.4f of the keys right", steps[0].Environment, share)
	}
	if got := summary.Sampled.Environment["right_keys"]; got <= 0 || got >= 1 || summary.Sampled.ReturnMean < 40*got || summary.Sampled.ReturnMean > 48*got {
		t.Errorf("evaluation: %v of the keys right, return %v", got, summary.Sampled.ReturnMean)
	}
}
