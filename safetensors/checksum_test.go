package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

// Every single flipped bit of a file, in its length, header and data, is found.
func TestEveryFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	tensors, metadata := example()
	data := encode(t, tensors, metadata)
	for i := range 8 * len(data) {
		damaged := bytes.Clone(data)
		damaged[i/8] ^= 1 << (i % 8)
		if _, err := Read(bytes.NewReader(damaged)); err == nil {
			t.Errorf("Read: bit %d of byte %d is flipped: no error", i%8, i/8)
		}
		file, err := Parse(damaged)
		if err == nil {
			err = file.Verify()
		}
		if err == nil {
			t.Errorf("Parse and Verify: bit %d of byte %d is flipped: no error", i%8, i/8)
		}
	}
}

// The checksum is the same however the data is cut into tensors and on however many
// cores it is computed, and a flipped bit of any block changes it.
func TestDataChecksum(t *testing.T) {
	data := make([]byte, 5*checksumBlock/2+7)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	want := dataChecksum([][]byte{data}, keep)
	for _, cut := range []int{0, 1, checksumBlock - 1, checksumBlock, checksumBlock + 1, len(data)} {
		if got := dataChecksum([][]byte{data[:cut], nil, data[cut:]}, keep); got != want {
			t.Errorf("cut at %d: %08x, want %08x", cut, got, want)
		}
	}
	cores := runtime.GOMAXPROCS(1)
	got := dataChecksum([][]byte{data}, keep)
	runtime.GOMAXPROCS(cores)
	if got != want {
		t.Errorf("on one core: %08x, want %08x", got, want)
	}
	for _, i := range []int{0, checksumBlock, len(data) - 1} {
		data[i] ^= 4
		if dataChecksum([][]byte{data}, keep) == want {
			t.Errorf("byte %d: a flipped bit does not change the checksum", i)
		}
		data[i] ^= 4
	}
}

// A file of another program has no checksum, and none of its own entries is taken
// for one.
func TestFilesWithoutChecksum(t *testing.T) {
	t.Parallel()
	file, err := Parse(withHeader(`{"__metadata__":{"checksum":"abc"},"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2))
	if err == nil {
		err = file.Verify()
	}
	if err != nil || file.Metadata["checksum"] != "abc" {
		t.Errorf("metadata %v, error %v", file, err)
	}
	for header, want := range map[string]string{
		`{"__metadata__":{"infinirl.checksum":"abc"}}`:                                `is no checksum`,
		`{"__metadata__":{"infinirl.checkrum":"crc32c:00000000:00000000"}}`:           `holds the checksum`,
		`{"__metadata__":{"infinirl.checksum":"crc32c:00000000:00000000"}}`:           `the checksum of its header`,
		`{"__metadata__":{"infinirl.checksum" : "crc32c:00000000:00000000"}}`:         `not written as it was`,
		`{"__metadata__":{"infinirl\u002echecksum":"crc32c:00000000:00000000"}}`:      `not written as it was`,
		`{"__metadata__":{"infinirl.checksum":"crc32c:00000000:00000000 "}}`:          `is no checksum`,
		`{"__metadata__":{"infinirl.checksum":"crc32c:AAAAAAAA:00000000"}}`:           `is no checksum`,
		`{"__metadata__":{"infinirl.checksum":"crc32c:00000000:0000000"}}`:            `is no checksum`,
		`{"__metadata__":{"infinirl.checksum":"crc32c: 0000000:00000000","note":""}}`: `is no checksum`,
	} {
		_, err := Parse(withHeader(header, 0))
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", header, err, want)
		}
	}
	if err := Write(io.Discard, nil, map[string]string{checksumKey: ""}); err == nil {
		t.Error("a reserved metadata key was written")
	}
}

// What a header claims is compared with what is there before memory is taken.
func TestClaimsTakeNoMemory(t *testing.T) {
	const claimed = 1 << 42
	header := fmt.Sprintf(`{"x":{"dtype":"U8","shape":[%d],"data_offsets":[0,%[1]d]}}`, int64(claimed))
	data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	data = append(data, 1, 2, 3)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	long := binary.LittleEndian.AppendUint64(nil, maxHeader)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, open := range map[string]func() io.Reader{
		"a file":            func() io.Reader { f, _ := os.Open(path); return f },
		"bytes":             func() io.Reader { return bytes.NewReader(data) },
		"a stream":          func() io.Reader { return iotest.HalfReader(bytes.NewReader(data)) },
		"a long header":     func() io.Reader { return bytes.NewReader(long) },
		"a stream of zeros": func() io.Reader { return zeros{} },
		"a stream of spaces": func() io.Reader {
			return io.MultiReader(bytes.NewReader(binary.LittleEndian.AppendUint64(nil, 1<<20)), zeros{})
		},
	} {
		r := open()
		if _, err := Read(r); err == nil {
			t.Errorf("%s: no error", name)
		}
		if c, ok := r.(io.Closer); ok {
			c.Close()
		}
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20 {
		t.Errorf("%d bytes of memory were taken", taken)
	}
}

// zeros is /dev/zero.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func BenchmarkChecksum(b *testing.B) {
	data := make([]byte, 64<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		dataChecksum([][]byte{data}, keep)
	}
}

// keep releases nothing.
func keep() {}

// releasing counts how often it was told to release before anything was written.
type releasing struct {
	bytes.Buffer
	released atomic.Int64
}

func (r *releasing) Release() {
	if r.Len() == 0 {
		r.released.Add(1)
	}
}

// What the checksum has read is given back on the way, so that mapped tensors of any
// size take little memory.
func TestWhatTheChecksumHasReadIsReleased(t *testing.T) {
	t.Parallel()
	const stretches = 3
	data := make([]byte, stretches*checksumStretch*checksumBlock)
	data[len(data)/2] = 1
	tensors := []Tensor{{Name: "x", DType: U8, Shape: []int{len(data)}, Data: data}}
	var w releasing
	var plain bytes.Buffer
	if err := errors.Join(Write(&w, tensors, nil), Write(&plain, tensors, nil)); err != nil {
		t.Fatal(err)
	}
	if got := w.released.Load(); got != stretches || !bytes.Equal(w.Bytes(), plain.Bytes()) {
		t.Errorf("released %d times, want %d, and the same file", got, stretches)
	}
}
