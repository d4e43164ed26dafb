package batch

import (
	"container/heap"
	"fmt"
	"slices"
)

// Balance splits items of the given sizes into k parts whose sums are nearly
// equal, by the largest differencing method: of the partial solutions at hand,
// the two with the widest spread are joined, the biggest parts of one with the
// smallest of the other (Karmarkar and Karp 1982; k-way: Korf 2009). It takes
// about n·log n steps. Parts are in the order of their first item; with fewer
// items than parts, the last ones are empty. k must be at least 1.
func Balance(sizes []int, k int) [][]int {
	next := make([]int, len(sizes)) // items of a part are a linked list
	h := make(solutions, len(sizes))
	for i, size := range sizes {
		next[i] = -1
		h[i] = solution{parts: []part{{size, i, i}}, k: k, age: i}
	}
	heap.Init(&h)
	for age := len(sizes); len(h) > 1; age++ {
		a := heap.Pop(&h).(solution)
		b := heap.Pop(&h).(solution)
		heap.Push(&h, a.join(b, next, age))
	}
	out := make([][]int, 0, k)
	if len(h) == 1 {
		for _, p := range h[0].parts {
			items := []int{}
			for i := p.first; i >= 0; i = next[i] {
				items = append(items, i)
			}
			slices.Sort(items)
			out = append(out, items)
		}
	}
	slices.SortFunc(out, func(a, b []int) int { return a[0] - b[0] })
	for len(out) < k {
		out = append(out, []int{})
	}
	return out
}

// solution is a way to put some of the items into k parts: those that are not
// empty, in descending order.
type solution struct {
	parts []part
	k     int
	age   int // breaks ties, so that the result is always the same
}

type part struct{ sum, first, last int }

// spread is the difference between the biggest and the smallest part.
func (s solution) spread() int {
	if len(s.parts) < s.k {
		return s.parts[0].sum
	}
	return s.parts[0].sum - s.parts[s.k-1].sum
}

// join adds the j-th biggest part of a to the j-th smallest of b.
func (a solution) join(b solution, next []int, age int) solution {
	parts := make([]part, 0, min(a.k, len(a.parts)+len(b.parts)))
	parts = append(parts, a.parts...)
	for j, q := range b.parts { // the j-th biggest of b meets the (k−1−j)-th of a
		at := a.k - 1 - j
		if at >= len(a.parts) {
			parts = append(parts, q)
			continue
		}
		p := &parts[at]
		next[p.last] = q.first
		p.sum, p.last = p.sum+q.sum, q.last
	}
	slices.SortStableFunc(parts, func(x, y part) int { return y.sum - x.sum })
	return solution{parts, a.k, age}
}

// solutions is a heap, widest spread first.
type solutions []solution

func (h solutions) Len() int { return len(h) }
func (h solutions) Less(i, j int) bool {
	a, b := h[i].spread(), h[j].spread()
	return a > b || a == b && h[i].age < h[j].age
}
func (h solutions) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *solutions) Push(x any)   { *h = append(*h, x.(solution)) }
func (h *solutions) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// BalanceAtMost splits items into parts of at most limit each, as few as it
// finds and nearly equal. It fails on an item that is bigger than the limit.
func BalanceAtMost(sizes []int, limit int) ([][]int, error) {
	total := 0
	for i, size := range sizes {
		if size > limit {
			return nil, fmt.Errorf("item %d has size %d: more than the limit of %d", i, size, limit)
		}
		total += size
	}
	if len(sizes) == 0 {
		return nil, nil
	}
	packed := firstFit(sizes, limit)
	for k := max(1, (total+limit-1)/max(1, limit)); k <= len(packed); k++ {
		parts := Balance(sizes, k)
		if fits(parts, sizes, limit) {
			return parts, nil
		}
	}
	return packed, nil
}

func fits(parts [][]int, sizes []int, limit int) bool {
	for _, items := range parts {
		sum := 0
		for _, i := range items {
			sum += sizes[i]
		}
		if sum > limit {
			return false
		}
	}
	return true
}

// firstFit puts the items, biggest first, each into the first part with room.
func firstFit(sizes []int, limit int) [][]int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return sizes[j] - sizes[i] })
	var parts [][]int
	var room []int
	for _, i := range order {
		k := slices.IndexFunc(room, func(r int) bool { return r >= sizes[i] })
		if k < 0 {
			k = len(parts)
			parts, room = append(parts, nil), append(room, limit)
		}
		parts[k] = append(parts[k], i)
		room[k] -= sizes[i]
	}
	return parts
}
