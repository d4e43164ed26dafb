package bpe

import (
	"math/bits"
	"slices"
	"unicode/utf8"
)

// model holds the vocabulary and the merges.
type model struct {
	// characters tells that merging starts from characters, not from bytes.
	characters bool
	character  map[rune]int32 // id of a character's token
	bytes      [256]int32     // id of <0xNN>, or -1: what a character without a token falls back on

	text  []string         // text[id]: the bytes that the token decodes to
	known []bool           // known[id]: whether any token has this id
	whole map[string]int32 // pieces that are one token, so that they need no merging
	pairs pairTable

	merged map[int32]bool // tokens that merges start from, while a file is read

	single   [256]int32     // id of a byte's token, or -1
	fallback [256][]int32   // of a byte without a token: the ids that stand for it
	complete bool           // every byte has a token
	meets    [256][256]bool // of two bytes: some merge puts the first before the second
	unknown  int32          // stands for a byte without token and fallback, or -1: such a byte is dropped
	fuse     bool           // a run of unknown bytes is one unknown token
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

// shortPiece is the number of tokens up to which scanning for the next merge, in
// quadratic time, is faster than keeping the merges in a queue.
const shortPiece = 256

// appendMerged does the merging. A long piece is cut first where no merge can
// cross, so that most turn out short.
func (m *model) appendMerged(ids []int32, piece string) []int32 {
	for len(piece) > 0 {
		end := len(piece)
		if end > shortPiece {
			end = m.unmergeable(piece)
		}
		start := len(ids)
		ids = m.appendBytes(ids, piece[:end])
		var n int
		if symbols := ids[start:]; len(symbols) <= shortPiece {
			n = m.mergeShort(symbols)
		} else {
			n = m.mergeLong(symbols)
		}
		ids = ids[:start+n]
		piece = piece[end:]
	}
	return ids
}

// unmergeable returns the first place in piece, after its first byte, that no merge can cross.
func (m *model) unmergeable(piece string) int {
	if !m.complete {
		return len(piece)
	}
	for i := 1; i < len(piece); i++ {
		if m.characters && !utf8.RuneStart(piece[i]) {
			continue
		}
		if !m.meets[piece[i-1]][piece[i]] {
			return i
		}
	}
	return len(piece)
}

// appendBytes appends the tokens of the single bytes of piece.
func (m *model) appendBytes(ids []int32, piece string) []int32 {
	if m.characters {
		return m.appendCharacters(ids, piece)
	}
	if m.complete {
		ids = slices.Grow(ids, len(piece))
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

// appendCharacters appends the tokens of the characters of piece, or of the bytes of
// those that have none.
func (m *model) appendCharacters(ids []int32, piece string) []int32 {
	pending := false // an unknown token is due; byte tokens overtake it, as in Hugging Face's
next:
	for i, r := range piece {
		if id, ok := m.character[r]; ok {
			if pending {
				ids = append(ids, m.unknown)
				pending = false
			}
			ids = append(ids, id)
			continue
		}
		encoded := piece[i : i+utf8.RuneLen(r)]
		start := len(ids)
		for k := range len(encoded) {
			id := m.bytes[encoded[k]]
			if id < 0 {
				ids = ids[:start]
				if m.unknown >= 0 {
					if pending && !m.fuse {
						ids = append(ids, m.unknown)
					}
					pending = true
				}
				continue next
			}
			ids = append(ids, id)
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

// mergeLong does the same in time n log n at most: symbols are a linked list, and
// the pairs that can merge wait in a queue.
func (m *model) mergeLong(symbols []int32) int {
	n := len(symbols)
	next := make([]int32, n) // next[i]: the symbol after i, n after the last; 0 when i is merged away
	prev := make([]int32, n) // -1 before the first
	queue := mergeQueue{last: make(map[uint32]int32), list: make([]waiting, 0, n), free: -1}
	for i := range symbols {
		next[i], prev[i] = int32(i+1), int32(i-1)
		if i+1 < n {
			queue.push(m.pairs.get(symbols[i], symbols[i+1]), int32(i))
		}
	}
	var positions []int32
	for len(queue.ranks) > 0 {
		var rank uint32
		rank, positions = queue.pop(positions[:0])
		for at, i := range positions {
			if len(queue.ranks) > 0 && queue.ranks[0] < rank {
				// Only in a list of merges where a token is used before it is made.
				for _, i := range positions[at:] {
					queue.push(uint64(rank)<<32, i)
				}
				break
			}
			j := next[i]
			if j == 0 || int(j) == n {
				continue // merged away, or the last one by now
			}
			merge := m.pairs.get(symbols[i], symbols[j])
			if merge == noMerge || uint32(merge>>32) != rank {
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
	}
	kept := 0
	for i := 0; i < n; i = int(next[i]) {
		symbols[kept] = symbols[i]
		kept++
	}
	return kept
}

// mergeQueue holds the positions at which a merge waits, in a list for each rank,
// and the ranks that have a list in a binary heap. There are few ranks even in the
// longest text, so that the heap stays small.
type mergeQueue struct {
	ranks []uint32
	last  map[uint32]int32 // rank to the last entry of its list
	list  []waiting        // the entries of all lists
	free  int32            // the last entry of the list of those to use again
}

// waiting is an entry of a list: the position of the left symbol of a pair, and
// the entry before, -1 in the first.
type waiting struct{ position, before int32 }

func (q *mergeQueue) push(merge uint64, position int32) {
	if merge == noMerge {
		return
	}
	rank := uint32(merge >> 32)
	before, ok := q.last[rank]
	if !ok {
		before = -1
		q.pushRank(rank)
	}
	entry := q.free
	if entry >= 0 {
		q.free = q.list[entry].before
	} else {
		entry = int32(len(q.list))
		q.list = append(q.list, waiting{})
	}
	q.list[entry] = waiting{position, before}
	q.last[rank] = entry
}

// pop removes the smallest rank and appends its positions in order.
func (q *mergeQueue) pop(positions []int32) (uint32, []int32) {
	rank := q.popRank()
	for entry := q.last[rank]; entry >= 0; {
		before := q.list[entry].before
		positions = append(positions, q.list[entry].position)
		q.list[entry].before, q.free = q.free, entry
		entry = before
	}
	delete(q.last, rank)
	slices.Reverse(positions)
	slices.Sort(positions)
	return rank, positions
}

func (q *mergeQueue) pushRank(rank uint32) {
	heap := append(q.ranks, rank)
	q.ranks = heap
	i := len(heap) - 1
	for parent := (i - 1) / 2; i > 0 && heap[parent] > rank; parent = (i - 1) / 2 {
		heap[i] = heap[parent]
		i = parent
	}
	heap[i] = rank
}

func (q *mergeQueue) popRank() uint32 {
	first, moved := q.ranks[0], q.ranks[len(q.ranks)-1]
	heap := q.ranks[:len(q.ranks)-1]
	q.ranks = heap
	i := 0
	for 2*i+1 < len(heap) {
		child := 2*i + 1
		if child+1 < len(heap) && heap[child+1] < heap[child] {
			child++
		}
		if heap[child] >= moved {
			break
		}
		heap[i] = heap[child]
		i = child
	}
	if len(heap) > 0 {
		heap[i] = moved
	}
	return first
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
