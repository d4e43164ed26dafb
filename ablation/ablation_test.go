package ablation

import (
	"slices"
	"strings"
	"testing"
)

func TestMethodsChangeWhatTheySay(t *testing.T) {
	t.Parallel()
	for over, want := range map[string][]string{
		OverCredit:   {"carry", "carry-1", "verl-v1", "compaction-rl", "turn-gae", "grpo", "rloo", "reinforce++", "terminal", "full-context"},
		OverCondense: {"none", "tool-fifo", "tool-clear", "discard-all", "summary"},
	} {
		methods, err := Methods(over)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range methods {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("over %s: %v, want %v", over, names, want)
		}
	}
	if _, err := Methods("luck"); err == nil || !strings.Contains(err.Error(), "luck") {
		t.Errorf("over luck: error %v", err)
	}
}

func TestSelectTuneAndExpand(t *testing.T) {
	t.Parallel()
	all, err := Methods(OverCredit)
	if err != nil {
		t.Fatal(err)
	}
	methods, err := Select(all, []string{"grpo", "carry"})
	if err != nil || len(methods) != 2 || methods[0].Name != "grpo" || methods[1].Name != "carry" {
		t.Fatalf("%v, %v", methods, err)
	}
	if _, err := Select(all, []string{"carrot"}); err == nil || !strings.Contains(err.Error(), "carrot: want some of carry, ") {
		t.Errorf("carrot: error %v", err)
	}
	if _, err := Select(all, []string{"carry", "grpo", "carry"}); err == nil || !strings.Contains(err.Error(), "carry: it is there twice") {
		t.Errorf("carry twice: error %v", err)
	}
	own := len(methods[0].Overrides)
	for _, chosen := range []string{"", "rollout.groups", "rollout.group_size"} {
		tuned := Tune(methods, "errands", func(key string) bool { return key == chosen })
		if got, want := tuned[0].Overrides, chosen == ""; slices.Contains(got, "rollout.group_size=16") != want || slices.Contains(got, "rollout.groups=2") != want {
			t.Errorf("tuned where %q was chosen: %v", chosen, got)
		}
	}
	if len(methods[0].Overrides) != own {
		t.Errorf("the method itself has changed: %v", methods[0])
	}
	grid, err := Expand(methods, "train.actor_lr=0.001 | train.actor_lr=0.003 ppo.clip_high=0.2")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range grid {
		names = append(names, m.Name)
	}
	if want := []string{"grpo,actor_lr=0.001", "grpo,actor_lr=0.003,clip_high=0.2", "carry,actor_lr=0.001", "carry,actor_lr=0.003,clip_high=0.2"}; !slices.Equal(names, want) {
		t.Errorf("grid %v, want %v", names, want)
	}
	if last := grid[3].Overrides; last[len(last)-1] != "ppo.clip_high=0.2" {
		t.Errorf("overrides %v", last)
	}
	// The runs of a method are known by its name: two of one name would be one.
	for _, bad := range []string{"", "a=1 |", "a", "a=../b", "a=1 | a=1", "rollout.temperature=1 | eval.temperature=1", "seed=1 | seed=2", "threads=1"} {
		if _, err := Expand(methods, bad); err == nil || !strings.Contains(err.Error(), "--grid") {
			t.Errorf("grid %q: error %v", bad, err)
		}
	}
}

// A run that stopped early keeps its last return; the range is over the seeds.
func TestSpread(t *testing.T) {
	t.Parallel()
	mean, low, high, played := spread([][]float64{{0, 0.5, 1}, {0.5}}, [][]int{{4, 8, 12}, {4}})
	for _, c := range []struct {
		name      string
		got, want []float64
	}{{"mean", mean, []float64{0.25, 0.5, 0.75}}, {"low", low, []float64{0, 0.5, 0.5}}, {"high", high, []float64{0.5, 0.5, 1}}} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
	if !slices.Equal(played, []int{4, 8, 12}) {
		t.Errorf("played %v", played)
	}
}

// What a run tells in a comparison of several at once is its warnings, whole.
func TestWarnings(t *testing.T) {
	t.Parallel()
	var said []string
	w := &warnings{say: func(line string) { said = append(said, line) }}
	for _, part := range []string{"step 1\nwarn", "ing: a\nstep 2\nwarning: b\n", "warning: unfinished"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{"warning: a", "warning: b"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}
