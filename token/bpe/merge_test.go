package bpe

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// mergeNaive looks at all pairs before each merge.
func mergeNaive(m *model, symbols []int32) []int32 {
	for {
		best, at := noMerge, -1
		for i := range len(symbols) - 1 {
			if merge := m.pairs.get(symbols[i], symbols[i+1]); merge < best {
				best, at = merge, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols = slices.Replace(symbols, at, at+2, int32(uint32(best)))
	}
}

// TestMerge holds both ways of merging against the naive one, on learnt merges
// and on merges in any order, in which tokens are used before they are made.
func TestMerge(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 400 {
		// Tokens are strings over a small alphabet; merges join any two of them.
		spellings := []string{"a", "b", "c"}
		ids := map[string]int32{"a": 0, "b": 1, "c": 2}
		m := model{pairs: newPairTable(40)}
		ranks := r.Perm(40)
		if round%2 == 0 {
			slices.Sort(ranks)
		}
		for _, rank := range ranks {
			left, right := r.IntN(len(spellings)), r.IntN(len(spellings))
			joined := spellings[left] + spellings[right]
			id, ok := ids[joined]
			if !ok {
				id = int32(len(spellings))
				ids[joined] = id
				spellings = append(spellings, joined)
			}
			if m.pairs.get(int32(left), int32(right)) == noMerge {
				m.pairs.put(int32(left), int32(right), uint64(rank)<<32|uint64(id))
			}
		}
		for range 10 {
			symbols := make([]int32, 1+r.IntN(shortPiece))
			for i := range symbols {
				symbols[i] = int32(r.IntN(3))
			}
			want := mergeNaive(&m, slices.Clone(symbols))
			short, long := slices.Clone(symbols), slices.Clone(symbols)
			short, long = short[:m.mergeShort(short)], long[:m.mergeLong(long)]
			if !slices.Equal(short, want) || !slices.Equal(long, want) {
				t.Fatalf("round %d: merging %v\nshort %v\nlong  %v\nwant  %v", round, symbols, short, long, want)
			}
		}
	}
}

func TestPairTable(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for _, size := range []int{0, 1, 1000} {
		table, want := newPairTable(size), make(map[[2]int32]uint64)
		for i := range size {
			pair := [2]int32{r.Int32N(50), r.Int32N(50)}
			table.put(pair[0], pair[1], uint64(i))
			want[pair] = uint64(i)
		}
		for left := range int32(50) {
			for right := range int32(50) {
				merge, ok := want[[2]int32{left, right}]
				if !ok {
					merge = noMerge
				}
				if got := table.get(left, right); got != merge {
					t.Fatalf("of %d: get(%d, %d) = %d, want %d", size, left, right, got, merge)
				}
			}
		}
	}
}
