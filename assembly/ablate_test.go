package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/ablation"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/train"
)

// A comparison that is interrupted wherever, and resumed, comes to what one that was
// left alone does, whose runs were trained two at once.
func TestResumedComparison(t *testing.T) {
	t.Parallel()
	cfg, err := config.Shipped("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	// GRPO has no λ: what is set for some methods may idle in others.
	for _, o := range []string{"train.steps=2", "rollout.groups=4", "train.minibatches=1", "eval.tasks=4", "advantage.lambda=0.95"} {
		if err := cfg.Set(o); err != nil {
			t.Fatal(err)
		}
	}
	methods, err := ablation.Methods(ablation.OverCredit)
	if err != nil {
		t.Fatal(err)
	}
	if methods, err = ablation.Select(methods, []string{"carry", "verl-v1", "grpo", "full-context"}); err != nil {
		t.Fatal(err)
	}
	// Found again from any folder.
	if cfg.Base, err = filepath.Rel(must(os.Getwd()), must(filepath.Abs("../bases/keytodoor.safetensors"))); err != nil {
		t.Fatal(err)
	}
	plan := ablation.Plan{Env: cfg.Env, Over: ablation.OverCredit, Methods: methods, First: cfg.Seed, Seeds: 1, Metric: train.Success, Threshold: 0.9}
	whole, cut := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "cut")
	silent := train.NewProgress(&lines{}, false)
	if _, err := Ablate(context.Background(), cfg, plan, 2, whole, silent); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(cut, 0o755); err != nil { // an empty folder will do
		t.Fatal(err)
	}
	interrupted := 0
	for after := 2; ; after += 3 {
		ctx, cancel := context.WithCancel(context.Background())
		progress := train.NewProgress(&lines{left: after, end: cancel}, false)
		if interrupted == 0 {
			_, err = Ablate(ctx, cfg, plan, 1, cut, progress)
		} else {
			_, _, err = ResumeAblation(ctx, 1, cut, progress)
		}
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if interrupted++; interrupted > 40 {
			t.Fatal("the comparison never ends")
		}
	}
	if interrupted < 4 {
		t.Errorf("interrupted %d times, want a few", interrupted)
	}
	if a, b := untimed(t, whole), untimed(t, cut); !reflect.DeepEqual(a, b) {
		t.Errorf("after %d interruptions\n%v\nwant\n%v", interrupted, b, a)
	}
	if _, err := Ablate(context.Background(), cfg, plan, 1, cut, silent); !errors.Is(err, os.ErrExist) {
		t.Errorf("a comparison into one that exists: error %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(cut, train.ConfigName)); err != nil || strings.Contains(string(text), cfg.Base) || !strings.Contains(string(text), must(filepath.Abs(cfg.Base))) {
		t.Errorf("the base is not absolute in %s (error %v)", text, err)
	}
	if _, err := Resume(context.Background(), cut, silent); !errors.Is(err, train.ErrInput) || !strings.Contains(err.Error(), "infinirl ablate --resume") {
		t.Errorf("a comparison resumed as a run: error %v", err)
	}
	if _, _, err := ResumeAblation(context.Background(), 1, t.TempDir(), silent); !errors.Is(err, train.ErrInput) {
		t.Errorf("a folder that is no comparison: error %v", err)
	}
}

// untimed reads the result of a comparison but for the wall time.
func untimed(t *testing.T, dir string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ablation.json"))
	if err != nil {
		t.Fatal(err)
	}
	var result map[string]any
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	delete(result, "wall_seconds")
	delete(result, "seconds_to_threshold")
	return result
}

// lines ends something when a number of lines were written.
type lines struct {
	left int
	end  func()
}

func (l *lines) Write(p []byte) (int, error) {
	if l.left--; l.left == 0 {
		l.end()
	}
	return len(p), nil
}
