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
