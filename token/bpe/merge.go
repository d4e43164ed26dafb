package bpe

import "math/bits"

// model holds the vocabulary and the merges.
type model struct {
	text  []string         // text[id]: the bytes that the token decodes to
	known []bool           // known[id]: whether any token has this id
	whole map[string]int32 // pieces that are one token, so that they need no merging
	pairs pairTable

	single   [256]int32   // id of a byte's token, or -1
	fallback [256][]int32 // of a byte without a token: the ids that stand for it
	complete bool         // every byte has a token
	unknown  int32        // stands for a byte without token and fallback, or -1: such a byte is dropped
	fuse     bool         // a run of unknown bytes is one unknown token
}

// appendPiece appends the ids of one piece: what is left when, as long as any two
// adjacent tokens form a pair in the merges, the pair of the lowest rank is
// merged, the leftmost first where it occurs more than once.
func (m *model) appendPiece(ids []int32, piece string) []int32 {
	if id, ok := m.whole[piece]; ok {
		return append(ids, id)
	}
	return m.appendMerged(ids, piece)
}

// shortPiece is the length from which a heap finds the next merge faster than a
// scan over all pairs: scans take time quadratic in the length.
const shortPiece = 96

func (m *model) appendMerged(ids []int32, piece string) []int32 {
	start := len(ids)
	ids = m.appendBytes(ids, piece)
	var n int
	if symbols := ids[start:]; len(symbols) <= shortPiece {
		n = m.mergeShort(symbols)
	} else {
		n = m.mergeLong(symbols)
	}
	return ids[:start+n]
}

// appendBytes appends the tokens of the single bytes of piece.
func (m *model) appendBytes(ids []int32, piece string) []int32 {
	if m.complete {
		for i := range len(piece) {
			ids = append(ids, m.single[piece[i]])
		}
		return ids
	}
	pending := false // an unknown token is due; fallback tokens overtake it, as in Hugging Face's
	for i := range len(piece) {
		b := piece[i]
		switch {
		case m.single[b] >= 0:
			if pending {
				ids = append(ids, m.unknown)
				pending = false
			}
			ids = append(ids, m.single[b])
		case m.fallback[b] != nil:
			ids = append(ids, m.fallback[b]...)
		case m.unknown >= 0:
			if pending && !m.fuse {
				ids = append(ids, m.unknown)
			}
			pending = true
		}
	}
	if pending {
		ids = append(ids, m.unknown)
	}
	return ids
}

// A merge is packed in one integer, rank<<32 | id of the merged token, so that the
// smallest merge is the one to do first.
const noMerge = ^uint64(0)

// mergeShort merges symbols in place and returns how many are left.
func (m *model) mergeShort(symbols []int32) int {
	n := len(symbols)
	var merges [shortPiece]uint64 // merges[i]: of symbols i and i+1
	for i := 0; i+1 < n; i++ {
		merges[i] = m.pairs.get(symbols[i], symbols[i+1])
	}
	for n > 1 {
		best, at := noMerge, 0
		for i, merge := range merges[:n-1] {
			if merge < best {
				best, at = merge, i
			}
		}
		if best == noMerge {
			break
		}
		symbols[at] = int32(uint32(best))
		copy(symbols[at+1:n-1], symbols[at+2:n])
		copy(merges[at:n-1], merges[at+1:n])
		n--
		if at > 0 {
			merges[at-1] = m.pairs.get(symbols[at-1], symbols[at])
		}
		if at+1 < n {
			merges[at] = m.pairs.get(symbols[at], symbols[at+1])
		}
	}
	return n
}

// mergeLong does the same in time n log n: symbols are a linked list, and the
// pairs that can merge wait in a heap.
func (m *model) mergeLong(symbols []int32) int {
	n := len(symbols)
	next := make([]int32, n) // next[i]: the symbol after i, n after the last; 0 when i is merged away
	prev := make([]int32, n)
	var queue mergeQueue
	for i := range symbols {
		next[i], prev[i] = int32(i+1), int32(i-1)
		if i+1 < n {
			queue.push(m.pairs.get(symbols[i], symbols[i+1]), int32(i))
		}
	}
	for len(queue) > 0 {
		rank, i := queue.pop()
		j := next[i]
		if j == 0 || int(j) == n {
			continue // merged away, or the last one by now
		}
		merge := m.pairs.get(symbols[i], symbols[j])
		if merge == noMerge || merge>>32 != rank {
			continue // the pair has changed since it was queued
		}
		symbols[i] = int32(uint32(merge))
		next[i], next[j] = next[j], 0
		if k := next[i]; int(k) < n {
			prev[k] = i
			queue.push(m.pairs.get(symbols[i], symbols[k]), i)
		}
		if k := prev[i]; k >= 0 {
			queue.push(m.pairs.get(symbols[k], symbols[i]), k)
		}
	}
	kept := 0
	for i := 0; i < n; i = int(next[i]) {
		symbols[kept] = symbols[i]
		kept++
	}
	return kept
}

// mergeQueue is a binary heap of waiting merges, rank<<32 | position of the left
// symbol, smallest first.
type mergeQueue []uint64

func (q *mergeQueue) push(merge uint64, position int32) {
	if merge == noMerge {
		return
	}
	entry := merge>>32<<32 | uint64(position)
	*q = append(*q, entry)
	heap := *q
	i := len(heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if heap[parent] <= entry {
			break
		}
		heap[i] = heap[parent]
		i = parent
	}
	heap[i] = entry
}

func (q *mergeQueue) pop() (rank uint64, position int32) {
	heap := *q
	first, last := heap[0], heap[len(heap)-1]
	heap = heap[:len(heap)-1]
	*q = heap
	i := 0
	for 2*i+1 < len(heap) {
		child := 2*i + 1
		if child+1 < len(heap) && heap[child+1] < heap[child] {
			child++
		}
		if heap[child] >= last {
			break
		}
		heap[i] = heap[child]
		i = child
	}
	if len(heap) > 0 {
		heap[i] = last
	}
	return first >> 32, int32(uint32(first))
}

// pairTable maps a pair of tokens to its merge. It is a hash table with linear
// probing, filled to at most two thirds.
type pairTable struct {
	slots []pairSlot
	shift int
}

type pairSlot struct {
	pair  uint64 // left<<32 | right, or noPair
	merge uint64
}

const noPair = ^uint64(0)

func newPairTable(pairs int) pairTable {
	size := max(bits.Len(uint(pairs+pairs/2)), 4)
	t := pairTable{slots: make([]pairSlot, 1<<size), shift: 64 - size}
	for i := range t.slots {
		t.slots[i].pair = noPair
	}
	return t
}

func (t *pairTable) put(left, right int32, merge uint64) {
	pair := uint64(uint32(left))<<32 | uint64(uint32(right))
	mask := len(t.slots) - 1
	i := t.hash(pair)
	for t.slots[i].pair != noPair && t.slots[i].pair != pair {
		i = (i + 1) & mask
	}
	t.slots[i] = pairSlot{pair, merge}
}

// get returns the merge of a pair, noMerge where there is none.
func (t *pairTable) get(left, right int32) uint64 {
	pair := uint64(uint32(left))<<32 | uint64(uint32(right))
	slots := t.slots
	mask := len(slots) - 1
	for i := t.hash(pair); ; i++ {
		slot := &slots[i&mask]
		if slot.pair == pair {
			return slot.merge
		}
		if slot.pair == noPair {
			return noMerge
		}
	}
}

func (t *pairTable) hash(pair uint64) int {
	return int(pair * 0x9e3779b97f4a7c15 >> t.shift)
}
