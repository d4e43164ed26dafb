package batch

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/infinirl/infinirl/safetensors"
)

// Columns are read and written as the memory that they are, which is what a
// safetensors file holds on a little-endian machine.

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf views the memory of x.
func bytesOf[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

// tensor is x as a one-dimensional tensor, without a copy where possible.
func tensor[T safetensors.Element](name string, x []T) safetensors.Tensor {
	if !littleEndian {
		return safetensors.New(name, []int{len(x)}, x)
	}
	t := safetensors.New(name, []int{0}, x[:0])
	t.Shape, t.Data = []int{len(x)}, bytesOf(x)
	return t
}

// view is a tensor as a slice, without a copy where possible.
func view[T safetensors.Element](t safetensors.Tensor) ([]T, error) {
	probe := t
	probe.Shape, probe.Data = []int{0}, nil
	if _, err := safetensors.Values[T](probe); err != nil { // checks the type
		return nil, err
	}
	if t.DType == safetensors.Bool {
		if k := notBool(t.Data); k >= 0 {
			return nil, fmt.Errorf("tensor %q: entry %d: byte %d: want 0 or 1", t.Name, k, t.Data[k])
		}
	}
	data, size := unsafe.SliceData(t.Data), int(unsafe.Sizeof(*new(T)))
	if !littleEndian || uintptr(unsafe.Pointer(data))%uintptr(size) != 0 {
		return safetensors.Values[T](t)
	}
	if len(t.Data) == 0 {
		return []T{}, nil
	}
	n := len(t.Data) / size
	return unsafe.Slice((*T)(unsafe.Pointer(data)), n)[:n:n], nil
}

// notBool returns the place of the first byte that is neither 0 nor 1, or −1.
func notBool(data []byte) int {
	for k := 0; k < len(data); k++ {
		if len(data)-k >= 8 && binary.LittleEndian.Uint64(data[k:])&0xfefefefefefefefe == 0 {
			k += 7
		} else if data[k] > 1 {
			return k
		}
	}
	return -1
}

// after returns the end of the run of bytes that equal b and start at t.
func after(bytes []byte, t int, b byte) int {
	pattern := uint64(b) * 0x0101010101010101
	for ; t+8 <= len(bytes); t += 8 {
		if x := binary.LittleEndian.Uint64(bytes[t:]) ^ pattern; x != 0 {
			return t + bits.TrailingZeros64(x)/8
		}
	}
	for t < len(bytes) && bytes[t] == b {
		t++
	}
	return t
}

// zeroBits tells whether all elements are +0.
func zeroBits(x []float32) bool {
	bytes := bytesOf(x)
	return after(bytes, 0, 0) == len(bytes)
}
