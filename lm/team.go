package lm

import (
	"sync"
	"sync/atomic"
)

// team is the number of goroutines that work on one step together, each with memory
// of its own. One works alone, without starting any.
type team []scratch

// scratch is memory of one goroutine. What is in it lasts for one task.
type scratch struct {
	scores []float32 // [queryBlock, keys] of one head
	dp     []float32 // [queryBlock, keys]
	vT     []float32 // [d, keys]
	low    []float32 // [rows, rank]
	vector []float32 // stands for a gradient that nobody wants
	probs  []float32 // [V]
}

// each calls do for 0 … n−1. What is to be done does not depend on who does it.
func (t team) each(n int, do func(i int, s *scratch)) {
	if len(t) == 1 || n == 1 {
		for i := range n {
			do(i, &t[0])
		}
		return
	}
	var next atomic.Int64
	work := func(s *scratch) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(i, s)
		}
	}
	var group sync.WaitGroup
	for member := 1; member < min(len(t), n); member++ {
		group.Go(func() { work(&t[member]) })
	}
	work(&t[0])
	group.Wait()
}

// teamBlock is the most rows that a member of a team takes at a time: enough that
// reading the weights for them does not matter.
const teamBlock = 256

// blocks calls do for parts of 0 … n−1 that are about equal: one for one goroutine, else
// as many for each.
func (t team) blocks(n int, do func(from, to int, s *scratch)) {
	if len(t) == 1 || n <= len(t) {
		do(0, n, &t[0])
		return
	}
	parts := (n + teamBlock - 1) / teamBlock
	parts = (parts + len(t) - 1) / len(t) * len(t)
	size := (n + parts - 1) / parts
	t.each((n+size-1)/size, func(i int, s *scratch) { do(i*size, min(n, (i+1)*size), s) })
}

// pieces calls do for parts of 0 … n−1 of at most size; all at once for one goroutine.
func (t team) pieces(n, size int, do func(from, to int, s *scratch)) {
	if len(t) == 1 {
		size = n
	}
	t.each((n+size-1)/size, func(i int, s *scratch) { do(i*size, min(n, (i+1)*size), s) })
}
