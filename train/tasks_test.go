package train_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/train"
)

// Tasks of a set that has an end come again and again, each pass in another order, and
// no two groups of a step share a name.
func TestTasksOfASetAreShuffled(t *testing.T) {
	t.Parallel()
	cfg := small(t, "train.steps=3")
	run, err := assembly.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	parts := run.Parts
	parts.Tasks = few{parts.Tasks}
	trainer, err := train.New(parts, cfg.Loop())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := trainer.Run(context.Background(), train.Options{Dir: dir, Description: []byte("{}\n")}); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for step := range 3 { // 8 groups a step of 12 tasks: two passes
		file, err := os.Open(filepath.Join(dir, "rollouts", fmt.Sprintf("step-%06d.safetensors", step+1)))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		b, err := batch.ReadSafetensors(file)
		if err != nil {
			t.Fatal(err)
		}
		groups := map[string]bool{}
		for _, row := range b.Rows {
			groups[row.GroupID] = true
		}
		if len(groups) != 8 {
			t.Errorf("step %d has %d groups, want 8", step+1, len(groups))
		}
		for group := range groups {
			count[group[strings.LastIndex(group, "/")+1:]]++
		}
	}
	if len(count) != 12 {
		t.Errorf("%d tasks were trained on, want 12", len(count))
	}
	for task, n := range count {
		if n != 2 {
			t.Errorf("task %s came %d times in two passes", task, n)
		}
	}
}

// few is a set of twelve tasks.
type few struct{ env.Tasks }

func (few) Len(env.Split) int { return 12 }
