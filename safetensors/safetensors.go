// Package safetensors reads and writes the safetensors container of Hugging
// Face: named tensors behind a JSON header.
//
//	8 bytes   N, the length of the header, little-endian
//	N bytes   {"__metadata__": {string: string}, name: {"dtype", "shape", "data_offsets"}, …}
//	rest      the tensors' elements, little-endian and row-major, without gaps
//
// The reader trusts nothing: sizes are checked against the bytes that are
// there, and a file whose tensors overlap, leave gaps or do not fill the data
// to its last byte is an error. Files that Write wrote carry a checksum
// (checksum.go). The format is described at
// https://github.com/huggingface/safetensors.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// maxHeader is the longest header that the reference implementation accepts.
const maxHeader = 100_000_000

// metadataKey is the one header entry that is not a tensor.
const metadataKey = "__metadata__"

// Tensor is a named array.
type Tensor struct {
	Name  string
	DType DType
	Shape []int  // empty: a scalar
	Data  []byte // little-endian, row-major, product(Shape) · DType.Size() bytes
}

// File is the content of a safetensors file.
type File struct {
	Metadata map[string]string // nil if the file has none
	Tensors  []Tensor          // in the order of their data

	begin        int64 // of the data in the file
	checked      bool  // the file has a checksum
	dataChecksum uint32
}

// Tensor returns the tensor called name.
func (f *File) Tensor(name string) (Tensor, error) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, nil
		}
	}
	return Tensor{}, fmt.Errorf("safetensors: no tensor %q", name)
}

// Releaser is a writer of tensors whose data the system may drop from memory and read
// again, as that of mapped files. Write reads all data twice, for the checksum and for the
// file, and after each stretch of the first time it tells that what was read is not
// needed for a while. Release has to be safe for concurrent use.
type Releaser interface {
	io.Writer
	Release()
}

// Write writes tensors and metadata. Tensors of wider elements come first, so
// that all of them are aligned, otherwise in the order given; the same
// arguments give the same bytes. Names must be unique. A checksum is added to the
// metadata.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	ordered := slices.Clone(tensors)
	slices.SortStableFunc(ordered, func(a, b Tensor) int { return b.DType.Size() - a.DType.Size() })
	metadata, err := withChecksum(metadata)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	header, err := encodeHeader(ordered, metadata)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	parts := make([][]byte, len(ordered))
	for i, t := range ordered {
		parts[i] = t.Data
	}
	release := func() {}
	if r, ok := w.(Releaser); ok {
		release = r.Release
	}
	seal(header, parts, release)
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("safetensors: write header: %w", err)
	}
	for _, t := range ordered {
		if _, err := w.Write(t.Data); err != nil {
			return fmt.Errorf("safetensors: write tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// encodeHeader returns the length prefix and the header, padded with spaces so
// that the data begins at a multiple of eight bytes.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	header := append(make([]byte, 8), '{')
	appendEntry := func(name string, value any) error {
		if len(header) > 9 {
			header = append(header, ',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		header = append(append(append(header, key...), ':'), text...)
		return err
	}
	if len(metadata) > 0 {
		if err := appendEntry(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	seen := make(map[string]bool, len(tensors))
	offset := 0
	for _, t := range tensors {
		size, err := t.size()
		switch {
		case err != nil:
			return nil, err
		case size != len(t.Data):
			return nil, fmt.Errorf("tensor %q: %s%v needs %d bytes, got %d", t.Name, t.DType, t.Shape, size, len(t.Data))
		case t.Name == metadataKey || seen[t.Name]:
			return nil, fmt.Errorf("tensor name %q is reserved or used twice", t.Name)
		}
		seen[t.Name] = true
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		if err := appendEntry(t.Name, entry{t.DType, shape, [2]int{offset, offset + size}}); err != nil {
			return nil, err
		}
		offset += size
	}
	header = append(header, '}')
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if len(header)-8 > maxHeader {
		return nil, fmt.Errorf("header of %d bytes exceeds the format's %d", len(header)-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return header, nil
}

// entry is a tensor in the header.
type entry struct {
	DType   DType  `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// size is the number of bytes that t's type and shape ask for.
func (t Tensor) size() (int, error) {
	size := t.DType.Size()
	if size == 0 {
		return 0, fmt.Errorf("tensor %q: unknown dtype %q", t.Name, t.DType)
	}
	// Zero is looked for first, so that [0, huge, huge] is empty, not an overflow.
	if slices.Contains(t.Shape, 0) {
		size = 0
	}
	for _, n := range t.Shape {
		if n < 0 {
			return 0, fmt.Errorf("tensor %q: negative dimension in shape %v", t.Name, t.Shape)
		}
		if n > 0 && size > math.MaxInt/n {
			return 0, fmt.Errorf("tensor %q: the size of shape %v overflows", t.Name, t.Shape)
		}
		size *= n
	}
	return size, nil
}

// maxStream is how many bytes of data Read takes from a stream that does not say
// how many will come.
const maxStream = 4 << 30

// Read reads one file to its end and verifies its checksum. What the header claims
// is compared with the size of a regular file, or of anything that has a Len, before
// memory is taken. Of other streams at most 4 GiB are read, into memory that grows
// with the bytes that arrive.
func Read(r io.Reader) (*File, error) {
	length, known := lengthOf(r)
	file, size, err := ReadHeader(r)
	if err != nil {
		return nil, err
	}
	var data []byte
	switch {
	case known && int64(size) > length-file.begin:
		return nil, fmt.Errorf("safetensors: truncated: %d bytes of tensor data, the header asks for %d: %w", length-file.begin, size, io.ErrUnexpectedEOF)
	case known && int64(size) < length-file.begin:
		return nil, fmt.Errorf("safetensors: %d bytes follow the %d of tensor data", length-file.begin-int64(size), size)
	case known:
		data = make([]byte, size)
		_, err = io.ReadFull(r, data)
		err = noEOF(err)
	case size > maxStream:
		return nil, fmt.Errorf("safetensors: %d bytes of tensor data: want at most %d from a stream; write it to a file first", size, maxStream)
	default:
		data, err = readN(r, size)
	}
	if err != nil {
		return nil, fmt.Errorf("safetensors: read %d bytes of tensor data: %w", size, err)
	}
	var next [1]byte
	switch _, err := io.ReadFull(r, next[:]); {
	case err == nil:
		return nil, fmt.Errorf("safetensors: bytes follow the %d of tensor data", size)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return file.attach(data), file.Verify()
}

// ReadHeader reads a file up to its data, so that its tensors can be looked at before
// memory is taken for them: they lack their data. It returns how many bytes the data
// has, and verifies the checksum of the header.
func ReadHeader(r io.Reader) (file *File, size int, err error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, 0, fmt.Errorf("safetensors: read header length: %w", noEOF(err))
	}
	length, err := headerLength(prefix[:])
	if err != nil {
		return nil, 0, fmt.Errorf("safetensors: %w", err)
	}
	header, err := readN(r, length)
	if err != nil {
		return nil, 0, fmt.Errorf("safetensors: read header of %d bytes: %w", length, err)
	}
	file, size, err = parseHeader(prefix[:], header)
	if err != nil {
		return nil, 0, fmt.Errorf("safetensors: %w", err)
	}
	return file, size, nil
}

// lengthOf returns how many bytes are left in a stream that tells.
func lengthOf(r io.Reader) (int64, bool) {
	switch r := r.(type) {
	case *os.File:
		info, err := r.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return 0, false
		}
		at, err := r.Seek(0, io.SeekCurrent)
		return info.Size() - at, err == nil
	case interface{ Len() int }:
		return int64(r.Len()), true
	}
	return 0, false
}

// Parse reads a file that is in memory. The tensors alias data. The checksum of the
// header is verified, that of the data by Verify.
func Parse(data []byte) (*File, error) {
	if len(data) < 8 {
		return nil, fmt.Errorf("safetensors: %d bytes are too few for a header", len(data))
	}
	length, err := headerLength(data)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if length > len(data)-8 {
		return nil, fmt.Errorf("safetensors: truncated: header of %d bytes, %d are there", length, len(data)-8)
	}
	file, size, err := parseHeader(data[:8], data[8:8+length])
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	data = data[8+length:]
	if len(data) != size {
		return nil, fmt.Errorf("safetensors: %d bytes of tensor data, the header asks for %d", len(data), size)
	}
	return file.attach(data), nil
}

func headerLength(prefix []byte) (int, error) {
	length := binary.LittleEndian.Uint64(prefix)
	if length < 2 || length > maxHeader {
		return 0, fmt.Errorf("header length %d is outside 2…%d: not a safetensors file", length, maxHeader)
	}
	return int(length), nil
}

// attach gives every tensor its part of data, in the order of f.Tensors.
func (f *File) attach(data []byte) *File {
	for i, t := range f.Tensors {
		size, _ := t.size()
		f.Tensors[i].Data = data[:size:size]
		data = data[size:]
	}
	return f
}

// readN reads n bytes into memory that at most doubles at a time.
func readN(r io.Reader, n int) ([]byte, error) {
	data := make([]byte, 0, min(n, 1<<20))
	for len(data) < n {
		if len(data) == cap(data) {
			grown := make([]byte, len(data), min(n, 2*cap(data)))
			copy(grown, data)
			data = grown
		}
		got, err := io.ReadFull(r, data[len(data):cap(data)])
		data = data[:len(data)+got]
		if err != nil {
			return nil, fmt.Errorf("truncated after %d bytes: %w", len(data), noEOF(err))
		}
	}
	return data, nil
}

// noEOF keeps an early end of the file from looking like a regular one.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseHeader returns the tensors, sorted by offset and without data, and the
// number of bytes that they fill.
func parseHeader(prefix, header []byte) (*File, int, error) {
	file := &File{begin: int64(len(prefix) + len(header))}
	var offsets [][2]int
	err := eachField(header, func(name string, value json.RawMessage) error {
		if name == metadataKey {
			file.Metadata = map[string]string{}
			return eachField(value, func(key string, text json.RawMessage) error {
				s, err := decode[string](text)
				file.Metadata[key] = s
				return err
			})
		}
		t, at, err := parseEntry(name, value)
		file.Tensors = append(file.Tensors, t)
		offsets = append(offsets, at)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("header: %w", err)
	}
	order := make([]int, len(offsets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return slices.Compare(offsets[a][:], offsets[b][:])
	})
	sorted := make([]Tensor, len(order))
	end := 0
	for i, from := range order {
		t, at := file.Tensors[from], offsets[from]
		size, err := t.size()
		switch {
		case err != nil:
			return nil, 0, fmt.Errorf("header: %w", err)
		case at[0] != end:
			return nil, 0, fmt.Errorf("header: tensor %q begins at byte %d, its neighbour ends at %d", t.Name, at[0], end)
		case at[1] < at[0] || at[1]-at[0] != size:
			return nil, 0, fmt.Errorf("header: tensor %q: %s%v needs %d bytes, data_offsets are %v", t.Name, t.DType, t.Shape, size, at)
		}
		end = at[1]
		sorted[i] = t
	}
	file.Tensors = sorted
	if err := file.takeChecksum(prefix, header); err != nil {
		return nil, 0, err
	}
	return file, end, nil
}

func parseEntry(name string, value json.RawMessage) (Tensor, [2]int, error) {
	t := Tensor{Name: name}
	var offsets []int
	seen := 0
	err := eachField(value, func(key string, text json.RawMessage) (err error) {
		seen++
		switch key {
		case "dtype":
			t.DType, err = decode[DType](text)
		case "shape":
			t.Shape, err = decode[[]int](text)
		case "data_offsets":
			offsets, err = decode[[]int](text)
		default:
			err = errors.New("unknown field")
		}
		return err
	})
	if err != nil {
		return t, [2]int{}, fmt.Errorf("tensor %q: %w", name, err)
	}
	if seen != 3 || len(offsets) != 2 {
		return t, [2]int{}, fmt.Errorf("tensor %q needs dtype, shape and two data_offsets", name)
	}
	return t, [2]int{offsets[0], offsets[1]}, nil
}

// eachField calls do for every field of a JSON object; a repeated key is an error.
func eachField(object []byte, do func(key string, value json.RawMessage) error) error {
	if !json.Valid(object) || len(bytes.TrimSpace(object)) == 0 {
		return errors.New("not valid JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		key := token.(string) // json.Valid saw that keys are strings
		if seen[key] {
			return fmt.Errorf("%q occurs twice", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		if err := do(key, value); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return nil
}

// decode unmarshals text, which must not be null.
func decode[T any](text json.RawMessage) (value T, err error) {
	if string(text) == "null" {
		return value, errors.New("is null")
	}
	return value, json.Unmarshal(text, &value)
}
