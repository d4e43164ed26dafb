package batch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func sums(parts [][]int, sizes []int) []int {
	out := make([]int, len(parts))
	for p, items := range parts {
		for _, i := range items {
			out[p] += sizes[i]
		}
	}
	return out
}

// checkPartition fails unless every item is in exactly one part.
func checkPartition(t *testing.T, parts [][]int, n int) {
	t.Helper()
	all := slices.Sorted(slices.Values(slices.Concat(parts...)))
	for i := range n {
		if len(all) != n || all[i] != i {
			t.Fatalf("parts %v are no partition of %d items", parts, n)
		}
	}
}

func TestBalance(t *testing.T) {
	t.Parallel()
	// Korf's example: differencing finds {8,6} {7,5,4} or better a spread of 2.
	sizes := []int{4, 5, 6, 7, 8}
	parts := Balance(sizes, 2)
	checkPartition(t, parts, 5)
	if s := sums(parts, sizes); s[0]-s[1] > 2 || s[1]-s[0] > 2 {
		t.Errorf("sums %v: want a difference of at most 2", s)
	}
	for _, c := range []struct {
		sizes []int
		k     int
		want  string
	}{
		{nil, 2, "[[] []]"}, {[]int{5}, 3, "[[0] [] []]"}, {[]int{1, 2, 3}, 1, "[[0 1 2]]"}, {[]int{0, 0, 0}, 3, "[[0] [1] [2]]"}, {[]int{9, 1, 1, 1}, 2, "[[0] [1 2 3]]"},
	} {
		if got := fmt.Sprint(Balance(c.sizes, c.k)); got != c.want {
			t.Errorf("Balance(%v, %d) = %s: want %s", c.sizes, c.k, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		n, k := 1+rng.IntN(60), 1+rng.IntN(8)
		sizes, biggest, total := make([]int, n), 0, 0
		for i := range sizes {
			sizes[i] = rng.IntN(1000)
			biggest, total = max(biggest, sizes[i]), total+sizes[i]
		}
		parts := Balance(sizes, k)
		checkPartition(t, parts, n)
		s := sums(parts, sizes)
		if spread := slices.Max(s) - slices.Min(s); spread > biggest {
			t.Fatalf("sizes %v in %d parts: sums %v differ by more than the biggest item", sizes, k, s)
		}
		if !slices.EqualFunc(parts, Balance(sizes, k), slices.Equal) {
			t.Fatal("the same sizes give another partition")
		}
	}
}

// TestBalanceBeatsGreedy: over many draws of row lengths the differencing
// method leaves a much smaller spread than dealing the longest row to the
// emptiest part.
func TestBalanceBeatsGreedy(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 1))
	differencing, greedy := 0, 0
	for range 100 {
		sizes := make([]int, 64)
		for i := range sizes {
			sizes[i] = 200 + rng.IntN(8000)
		}
		s := sums(Balance(sizes, 4), sizes)
		differencing += slices.Max(s) - slices.Min(s)
		g := make([]int, 4)
		for _, size := range slices.Backward(slices.Sorted(slices.Values(sizes))) {
			g[slices.Index(g, slices.Min(g))] += size
		}
		greedy += slices.Max(g) - slices.Min(g)
	}
	if differencing*4 > greedy {
		t.Errorf("mean spread %d: greedy leaves %d", differencing/100, greedy/100)
	}
}

func TestBalanceAtMost(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		n, limit := rng.IntN(50), 1000
		sizes, total := make([]int, n), 0
		for i := range sizes {
			sizes[i] = rng.IntN(limit + 1)
			total += sizes[i]
		}
		parts, err := BalanceAtMost(sizes, limit)
		if err != nil {
			t.Fatal(err)
		}
		checkPartition(t, parts, n)
		for _, s := range sums(parts, sizes) {
			if s > limit {
				t.Fatalf("a part of %d: more than %d", s, limit)
			}
		}
		if ffd := len(firstFit(sizes, limit)); len(parts) > ffd || len(parts)*limit < total {
			t.Fatalf("%d parts for a total of %d: first fit takes %d", len(parts), total, ffd)
		}
	}
	if _, err := BalanceAtMost([]int{3, 11}, 10); err == nil || !strings.Contains(err.Error(), "item 1 has size 11: more than the limit of 10") {
		t.Errorf("item that is too big: error %v", err)
	}
}

func TestStepsHaveWholeTrajectories(t *testing.T) {
	t.Parallel()
	b := randomBatch(rand.New(rand.NewPCG(4, 1)), 7)
	trajectories, err := b.Trajectories()
	if err != nil {
		t.Fatal(err)
	}
	steps := Steps(trajectories, 3)
	if len(steps) != 3 {
		t.Fatalf("%d steps for 7 trajectories, 3 a step", len(steps))
	}
	checkPartition(t, steps, len(b.Rows))
	for k, rows := range steps {
		step := b.Select(rows)
		in, err := step.Trajectories() // fails if one is not whole
		if err != nil {
			t.Fatal(err)
		}
		if want := []int{3, 3, 1}[k]; len(in) != want {
			t.Errorf("step %d has %d trajectories: want %d", k, len(in), want)
		}
	}
}

func TestMicroBatches(t *testing.T) {
	t.Parallel()
	b := randomBatch(rand.New(rand.NewPCG(5, 1)), 10)
	rows := []int{}
	for i := 0; i < len(b.Rows); i += 2 {
		rows = append(rows, i)
	}
	parts, err := b.MicroBatches(rows, 40)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(slices.Values(slices.Concat(parts...))); !slices.Equal(got, rows) {
		t.Errorf("rows %v: want %v", got, rows)
	}
	for _, part := range parts {
		if n := b.Select(part).Tokens(); n > 40 {
			t.Errorf("a micro-batch of %d tokens: want 40 at most", n)
		}
	}
	long := 0
	for i := range b.Rows {
		if start, end := b.Span(i); end-start > 3 {
			long = i
		}
	}
	if _, err := b.MicroBatches([]int{long}, 3); err == nil || !strings.Contains(err.Error(), b.Describe(long)) {
		t.Errorf("a row that is too long: error %v", err)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 1))
	for range 50 {
		b := randomBatch(rng, 4+rng.IntN(8))
		b.Rows[0].TrajectoryID = "padding-0" // its id is taken
		if b.Rows[0].InvIter != 0 || b.Validate() != nil {
			continue
		}
		ranks := 1 + rng.IntN(4)
		parts, err := b.Split(ranks)
		if err != nil {
			t.Fatal(err)
		}
		var rows [][]int
		padding := map[string]bool{}
		for _, p := range parts {
			rows = append(rows, p.Rows)
			if len(p.Batch.Rows) != len(parts[0].Batch.Rows) {
				t.Fatalf("ranks of %d and %d rows", len(p.Batch.Rows), len(parts[0].Batch.Rows))
			}
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			if d := differ(p.Select(first(len(p.Rows))), b.Select(p.Rows)); d != "" {
				t.Fatal(d)
			}
			for i := len(p.Rows); i < len(p.Batch.Rows); i++ {
				id := p.Batch.Rows[i].TrajectoryID
				if p.Trainable(i) != 0 || padding[id] || p.Batch.Rows[i].GroupID != id || id == "padding-0" {
					t.Fatalf("padding row %+v with %d trainable tokens", p.Batch.Rows[i], p.Trainable(i))
				}
				padding[id] = true
			}
		}
		checkPartition(t, rows, len(b.Rows))
	}
	b := randomBatch(rng, 2)
	if _, err := b.Split(3); err == nil {
		t.Error("2 trajectories were split for 3 ranks")
	}
}

func first(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// BenchmarkBalance puts 4096 row lengths into 64 parts.
func BenchmarkBalance(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	sizes := make([]int, 4096)
	for i := range sizes {
		sizes[i] = 200 + rng.IntN(8000)
	}
	for b.Loop() {
		Balance(sizes, 64)
	}
}
