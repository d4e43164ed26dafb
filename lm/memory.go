package lm

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// hugePage is the size of the pages that weights ask the system for. Decoding, which
// strides through them once a step, gains an eighth by it. Gradients and moments gain
// nothing, and their first use costs more where a virtual machine has to ask its host.
const hugePage = 2 << 20

// weightMemory returns n zeros.
func weightMemory(n int) []float32 {
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
