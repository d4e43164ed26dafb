package advantage

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"unsafe"
)

// spans yields the maximal runs [start, end) of trainable tokens, last run
// first, as the recursions want them.
func spans(mask []bool) iter.Seq2[int, int] {
	bytes := bytesOf(mask) // a bool is a byte 0 or 1
	return func(yield func(start, end int) bool) {
		for t := len(bytes); t > 0; {
			end := before(bytes, t, 0)
			t = before(bytes, end, 1)
			if end > t && !yield(t, end) {
				return
			}
		}
	}
}

// before returns the start of the run of bytes that equal b and end at t.
func before(bytes []byte, t int, b byte) int {
	pattern := uint64(b) * 0x0101010101010101
	for ; t >= 8; t -= 8 {
		if x := binary.LittleEndian.Uint64(bytes[t-8:t]) ^ pattern; x != 0 {
			return t - bits.LeadingZeros64(x)/8 // the high byte is the last one
		}
	}
	for t > 0 && bytes[t-1] == b {
		t--
	}
	return t
}

// zeroBits tells whether all elements are +0.
func zeroBits[T Float](x []T) bool {
	bytes := bytesOf(x)
	var or uint64
	for ; len(bytes) >= 32; bytes = bytes[32:] {
		or |= binary.LittleEndian.Uint64(bytes) | binary.LittleEndian.Uint64(bytes[8:]) |
			binary.LittleEndian.Uint64(bytes[16:]) | binary.LittleEndian.Uint64(bytes[24:])
	}
	for ; len(bytes) >= 8; bytes = bytes[8:] {
		or |= binary.LittleEndian.Uint64(bytes)
	}
	for _, b := range bytes {
		or |= uint64(b)
	}
	return or == 0
}

// bytesOf views the memory of x.
func bytesOf[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}
