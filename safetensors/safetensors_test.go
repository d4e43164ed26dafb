package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func example() ([]Tensor, map[string]string) {
	return []Tensor{
		New("flags", []int{3}, []bool{true, false, true}),
		New("ids", []int{2, 2}, []int32{1, -2, 3, math.MaxInt32}),
		New("scalar", nil, []float64{math.Pi}),
		New("empty", []int{0, math.MaxInt, math.MaxInt}, []float32{}),
		New(`quoted "name"`, []int{1, 3}, []float32{1.5, float32(math.Inf(-1)), math.SmallestNonzeroFloat32}),
	}, map[string]string{"format": "pt", "note": "ünïcode"}
}

func encode(t testing.TB, tensors []Tensor, metadata map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	if err := Write(&buffer, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	tensors, metadata := example()
	data := encode(t, tensors, metadata)
	read, err := Read(iotest.OneByteReader(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []*File{read, parsed} {
		if len(file.Metadata) != 2 || file.Metadata["note"] != metadata["note"] {
			t.Errorf("metadata %v", file.Metadata)
		}
		if len(file.Tensors) != len(tensors) {
			t.Fatalf("%d tensors, want %d", len(file.Tensors), len(tensors))
		}
		for _, want := range tensors {
			got, err := file.Tensor(want.Name)
			if err != nil {
				t.Fatal(err)
			}
			if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		// Writing what was read gives the same bytes.
		if again := encode(t, file.Tensors, file.Metadata); !bytes.Equal(again, data) {
			t.Errorf("second encoding differs:\n%q\n%q", again, data)
		}
	}
	ids, err := read.Tensor("ids")
	if err != nil {
		t.Fatal(err)
	}
	if values, err := Values[int32](ids); err != nil || !slices.Equal(values, []int32{1, -2, 3, math.MaxInt32}) {
		t.Errorf("ids %v, %v", values, err)
	}
	if _, err := Values[float32](ids); err == nil {
		t.Error("Values of another type must fail")
	}
	if _, err := read.Tensor("absent"); err == nil {
		t.Error("an absent tensor must be an error")
	}
}

// The bytes of a file written by the reference implementation (safetensors.numpy.save
// of one float32 array [1, 2] and an int64 scalar with this metadata); the checksum is
// from another program.
func TestReferenceBytes(t *testing.T) {
	t.Parallel()
	header := `{"__metadata__":{"infinirl.checksum":"crc32c:8e85f937:fbedcc37"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	want := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	want = append(want, header...)
	want = binary.LittleEndian.AppendUint64(want, 7)
	want = binary.LittleEndian.AppendUint32(want, math.Float32bits(1))
	want = binary.LittleEndian.AppendUint32(want, math.Float32bits(-2))
	got := encode(t, []Tensor{New("x", []int{1, 2}, []float32{1, -2}), New("n", nil, []int64{7})}, nil)
	if !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestFloat32s(t *testing.T) {
	t.Parallel()
	halves := []uint16{0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000, 0x7c00, 0xfc00}
	want := []float32{1, -2, 65504, 1.0 / 16384, 1.0 / (1 << 24), 0, float32(math.Inf(1)), float32(math.Inf(-1))}
	half := New("h", []int{len(halves)}, halves)
	half.DType = F16
	if got, err := Float32s(half); err != nil || !slices.Equal(got, want) {
		t.Errorf("F16: %v, %v; want %v", got, err, want)
	}
	brain := New("b", []int{2}, []uint16{0x3f80, 0xc0a0})
	brain.DType = BF16
	if got, err := Float32s(brain); err != nil || !slices.Equal(got, []float32{1, -5}) {
		t.Errorf("BF16: %v, %v", got, err)
	}
	if got, err := Float32s(New("d", []int{1}, []float64{0.5})); err != nil || !slices.Equal(got, []float32{0.5}) {
		t.Errorf("F64: %v, %v", got, err)
	}
	if _, err := Float32s(New("i", []int{1}, []int32{1})); err == nil {
		t.Error("integers are no floats")
	}
	if _, err := Float32s(Tensor{Name: "short", DType: F32, Shape: []int{2}, Data: make([]byte, 4)}); err == nil {
		t.Error("a short tensor must be an error")
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	one := New("x", []int{1}, []float32{1})
	for name, tensors := range map[string][]Tensor{
		"twice":    {one, one},
		"reserved": {{Name: metadataKey, DType: U8, Shape: []int{0}}},
		"shape":    {New("x", []int{2}, []float32{1})},
		"negative": {New("x", []int{-1, -1}, []float32{1})},
		"overflow": {New("x", []int{math.MaxInt, 2}, []float32{1})},
		"dtype":    {{Name: "x", DType: "F4", Shape: []int{0}}},
	} {
		if err := Write(io.Discard, tensors, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	broken := errors.New("disk full")
	if err := Write(iotestErrWriter{broken}, []Tensor{one}, nil); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

type iotestErrWriter struct{ err error }

func (w iotestErrWriter) Write([]byte) (int, error) { return 0, w.err }

func withHeader(header string, data int) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), make([]byte, data)...)
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	f32 := func(name, shape string, begin, end int) string {
		return fmt.Sprintf(`%q:{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}`, name, shape, begin, end)
	}
	for name, data := range map[string][]byte{
		"empty":                  {},
		"short prefix":           {1, 2, 3},
		"huge header":            bytes.Repeat([]byte{0xff}, 64),
		"truncated header":       withHeader(strings.Repeat(" ", 100), 0)[:50],
		"not JSON":               withHeader(`{"x":`, 0),
		"array":                  withHeader(`[]`, 0),
		"null":                   withHeader(`null`, 0),
		"second value":           withHeader(`{}{}`, 0),
		"duplicate tensor":       withHeader(`{`+f32("x", "[1]", 0, 4)+","+f32("x", "[1]", 4, 8)+`}`, 8),
		"duplicate field":        withHeader(`{"x":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4),
		"unknown field":          withHeader(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}}`, 4),
		"wrong case":             withHeader(`{"x":{"DType":"F32","shape":[1],"data_offsets":[0,4]}}`, 4),
		"missing shape":          withHeader(`{"x":{"dtype":"F32","data_offsets":[0,4]}}`, 4),
		"null shape":             withHeader(`{"x":{"dtype":"F32","shape":null,"data_offsets":[0,4]}}`, 4),
		"null tensor":            withHeader(`{"x":null}`, 0),
		"three offsets":          withHeader(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 4),
		"fractional offset":      withHeader(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0.5,4]}}`, 4),
		"unknown dtype":          withHeader(`{"x":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}`, 4),
		"negative shape":         withHeader(`{`+f32("x", "[-1,-1]", 0, 4)+`}`, 4),
		"negative offset":        withHeader(`{`+f32("x", "[1]", -4, 0)+`}`, 4),
		"overflowing shape":      withHeader(`{`+f32("x", "[4611686018427387904,4]", 0, 0)+`}`, 0),
		"number out of range":    withHeader(`{`+f32("x", "[99999999999999999999]", 0, 4)+`}`, 4),
		"size differs":           withHeader(`{`+f32("x", "[2]", 0, 4)+`}`, 4),
		"offsets reversed":       withHeader(`{`+f32("x", "[1]", 4, 0)+`}`, 4),
		"gap":                    withHeader(`{`+f32("x", "[1]", 0, 4)+","+f32("y", "[1]", 8, 12)+`}`, 12),
		"gap at start":           withHeader(`{`+f32("x", "[1]", 4, 8)+`}`, 8),
		"overlap":                withHeader(`{`+f32("x", "[2]", 0, 8)+","+f32("y", "[2]", 4, 12)+`}`, 12),
		"same place":             withHeader(`{`+f32("x", "[1]", 0, 4)+","+f32("y", "[1]", 0, 4)+`}`, 4),
		"too little data":        withHeader(`{`+f32("x", "[2]", 0, 8)+`}`, 7),
		"claims much, has none":  withHeader(`{`+f32("x", "[1099511627776]", 0, 4398046511104)+`}`, 0),
		"bytes follow":           withHeader(`{`+f32("x", "[2]", 0, 8)+`}`, 9),
		"metadata of numbers":    withHeader(`{"__metadata__":{"a":1}}`, 0),
		"metadata of nulls":      withHeader(`{"__metadata__":{"a":null}}`, 0),
		"metadata is a list":     withHeader(`{"__metadata__":["a"]}`, 0),
		"duplicate metadata key": withHeader(`{"__metadata__":{"a":"1","a":"2"}}`, 0),
	} {
		if _, err := Parse(data); err == nil {
			t.Errorf("%s: Parse gave no error", name)
		}
		if _, err := Read(bytes.NewReader(data)); err == nil {
			t.Errorf("%s: Read gave no error", name)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has several lines: %v", name, err)
		}
	}
}

// Every truncation of a file is an error, from memory and from a stream.
func TestTruncation(t *testing.T) {
	t.Parallel()
	data := encode(t, []Tensor{New("x", []int{4}, []float32{1, 2, 3, 4})}, nil)
	for n := range data {
		if _, err := Parse(data[:n]); err == nil {
			t.Fatalf("Parse accepts the first %d of %d bytes", n, len(data))
		}
		if _, err := Read(bytes.NewReader(data[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("the first %d of %d bytes: error %v, want an unexpected end", n, len(data), err)
		}
	}
}

// Whatever Parse accepts survives being written and parsed again, and Read agrees.
func FuzzParse(f *testing.F) {
	f.Add(encode(f, []Tensor{New("x", []int{2}, []float32{1, 2}), New("b", nil, []bool{true})}, map[string]string{"k": "v"}))
	f.Add(withHeader(`{"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, 0))
	f.Add(withHeader(`{"__metadata__":{}}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err == nil {
			err = file.Verify()
		}
		read, readErr := Read(bytes.NewReader(data))
		if (err == nil) != (readErr == nil) {
			t.Fatalf("Parse: %v, Read: %v", err, readErr)
		}
		if err != nil {
			return
		}
		again, err := Parse(encode(t, file.Tensors, file.Metadata))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range file.Tensors {
			for _, other := range []*File{again, read} {
				got, err := other.Tensor(want.Name)
				if err != nil || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
					t.Fatalf("got %+v, %v; want %+v", got, err, want)
				}
			}
		}
	})
}
