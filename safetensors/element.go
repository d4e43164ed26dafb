package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// DType names an element type as the file does.
type DType string

// The element types of the format whose elements fill whole bytes.
const (
	Bool   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E5M2 DType = "F8_E5M2"
	F8E4M3 DType = "F8_E4M3"
	I16    DType = "I16"
	U16    DType = "U16"
	F16    DType = "F16"
	BF16   DType = "BF16"
	I32    DType = "I32"
	U32    DType = "U32"
	F32    DType = "F32"
	I64    DType = "I64"
	U64    DType = "U64"
	F64    DType = "F64"
)

// Size is the number of bytes of an element, 0 for an unknown type.
func (d DType) Size() int {
	switch d {
	case Bool, U8, I8, F8E5M2, F8E4M3:
		return 1
	case I16, U16, F16, BF16:
		return 2
	case I32, U32, F32:
		return 4
	case I64, U64, F64:
		return 8
	}
	return 0
}

// Element is a Go type that has a DType.
type Element interface {
	bool | int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

func dtypeOf[T Element]() DType {
	switch any(*new(T)).(type) {
	case bool:
		return Bool
	case int8:
		return I8
	case uint8:
		return U8
	case int16:
		return I16
	case uint16:
		return U16
	case int32:
		return I32
	case uint32:
		return U32
	case int64:
		return I64
	case uint64:
		return U64
	case float32:
		return F32
	default:
		return F64
	}
}

// New returns a tensor that holds a copy of values. Write checks that shape
// fits their number.
func New[T Element](name string, shape []int, values []T) Tensor {
	size := dtypeOf[T]().Size()
	data, err := binary.Append(make([]byte, 0, size*len(values)), binary.LittleEndian, values)
	if err != nil {
		panic(err) // Element admits only types of fixed size
	}
	return Tensor{Name: name, DType: dtypeOf[T](), Shape: shape, Data: data}
}

// Values returns the elements of a tensor of exactly T's type.
func Values[T Element](t Tensor) ([]T, error) {
	if want := dtypeOf[T](); t.DType != want {
		return nil, fmt.Errorf("safetensors: tensor %q has dtype %s, want %s", t.Name, t.DType, want)
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	values := make([]T, len(t.Data)/t.DType.Size())
	if _, err := binary.Decode(t.Data, binary.LittleEndian, values); err != nil {
		return nil, fmt.Errorf("safetensors: tensor %q: %w", t.Name, err)
	}
	return values, nil
}

// Float32s returns the elements of a floating-point tensor (F32, F16, BF16 or,
// rounded, F64) as float32.
func Float32s(t Tensor) ([]float32, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if !t.DType.float() {
		return nil, t.noFloat()
	}
	values := make([]float32, len(t.Data)/t.DType.Size())
	return values, CopyFloat32s(values, t, 0)
}

// CopyFloat32s is [Float32s] of the elements from … from+len(dst)−1 alone.
func CopyFloat32s(dst []float32, t Tensor, from int) error {
	size := t.DType.Size()
	if !t.DType.float() {
		return t.noFloat()
	}
	if from < 0 || from > len(t.Data)/size-len(dst) {
		return fmt.Errorf("safetensors: tensor %q has %d elements, want %d from %d", t.Name, len(t.Data)/size, len(dst), from)
	}
	data := t.Data[from*size : (from+len(dst))*size]
	switch t.DType {
	case F32:
		if littleEndian && len(dst) > 0 {
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 4*len(dst)), data)
			return nil
		}
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case F64:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])))
		}
	case F16:
		for i := range dst {
			dst[i] = halfToFloat32(binary.LittleEndian.Uint16(data[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
		}
	}
	return nil
}

// littleEndian tells whether memory holds numbers as the file does.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

func (d DType) float() bool { return d == F32 || d == F16 || d == BF16 || d == F64 }

func (t Tensor) noFloat() error {
	return fmt.Errorf("safetensors: tensor %q has dtype %s, want F32, F16, BF16 or F64", t.Name, t.DType)
}

// check guards tensors that were put together by hand.
func (t Tensor) check() error {
	size, err := t.size()
	if err == nil && size != len(t.Data) {
		err = fmt.Errorf("tensor %q: %s%v needs %d bytes, got %d", t.Name, t.DType, t.Shape, size, len(t.Data))
	}
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// halfToFloat32 widens an IEEE 754 binary16: 1 sign, 5 exponent (bias 15) and
// 10 fraction bits.
func halfToFloat32(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exponent, fraction := uint32(h>>10)&31, uint32(h)&1023
	switch exponent {
	case 0: // zero and subnormal: fraction · 2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)/(1<<24)))
	case 31: // infinity and NaN
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}
