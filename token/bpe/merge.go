package bpe

import (
	"container/heap"
	"math/bits"
)

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
	var queue pairQueue
	for i := range symbols {
		next[i], prev[i] = int32(i+1), int32(i-1)
		if i+1 < n {
			if merge := m.pairs.get(symbols[i], symbols[i+1]); merge != noMerge {
				queue = append(queue, merge>>32<<32|uint64(i))
			}
		}
	}
	heap.Init(&queue)
	for len(queue) > 0 {
		first := heap.Pop(&queue).(uint64)
		rank, i := first>>32, int32(uint32(first))
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
