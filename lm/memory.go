package lm

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// hugePage is the size from which an array asks the system for pages of 2 MiB: its
// first use is several times faster then, and so is every product that strides
// through it.
const hugePage = 2 << 20

// floats returns n zeros.
func floats(n int) []float32 {
	x := make([]float32, n)
	if 4*n >= 2*hugePage {
		adviseHuge(x)
	}
	return x
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// floatBytes are the bytes of numbers, little-endian: their memory, where it is so.
func floatBytes(x []float32) []byte {
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
	}
	bytes := make([]byte, 0, 4*len(x))
	for _, v := range x {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
	}
	return bytes
}
