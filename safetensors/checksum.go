package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// Write adds one entry to the metadata by which a flipped bit is found:
//
//	"infinirl.checksum": "crc32c:HHHHHHHH:DDDDDDDD"
//
// H is the CRC-32C of the eight bytes of length and the header in which all H and D
// are zeros, D that of the data: the CRC-32C of the CRC-32Cs, little-endian, of its
// blocks of 1 MiB, so that all cores can work on it. CRC-32C, because processors
// have an instruction for it (10 to 20 GB/s a core, where SHA-256 reaches 2) and it
// finds every error that is shorter than 32 bits; it does not protect against
// somebody who means harm. To other programs it is a text in the metadata.
const (
	checksumKey     = "infinirl.checksum"
	checksumPrefix  = "crc32c:"
	checksumZero    = checksumPrefix + "00000000:00000000"
	checksumBlock   = 1 << 20
	checksumStretch = 16 // blocks
)

// ErrDamaged is wrapped by the errors about a file whose bytes are not those that
// were written.
var ErrDamaged = errors.New("the file is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// withChecksum returns metadata with a place for the checksum.
func withChecksum(metadata map[string]string) (map[string]string, error) {
	if _, ok := metadata[checksumKey]; ok {
		return nil, fmt.Errorf("metadata %q is reserved", checksumKey)
	}
	with := maps.Clone(metadata)
	if with == nil {
		with = make(map[string]string)
	}
	with[checksumKey] = checksumZero
	return with, nil
}

// seal writes the checksums into a header that has a place for them.
func seal(header []byte, parts [][]byte, release func()) {
	at := bytes.Index(header, checksumField(checksumZero))
	at += len(checksumField("")) - 1 // behind the opening quote of the value
	copy(header[at:], checksumText(crc32.Checksum(header, castagnoli), dataChecksum(parts, release)))
}

func checksumText(header, data uint32) string {
	return fmt.Sprintf("%s%08x:%08x", checksumPrefix, header, data)
}

// checksumField is the entry as Write spells it.
func checksumField(value string) []byte {
	return []byte(`"` + checksumKey + `":"` + value + `"`)
}

// dataChecksum works on all cores, and calls release after every checksumStretch blocks.
func dataChecksum(parts [][]byte, release func()) uint32 {
	var blocks [][][]byte // each in the pieces that tensors cut it into
	room := 0
	for _, part := range parts {
		for len(part) > 0 {
			if room == 0 {
				blocks = append(blocks, nil)
				room = checksumBlock
			}
			n := min(room, len(part))
			last := len(blocks) - 1
			blocks[last] = append(blocks[last], part[:n])
			part, room = part[n:], room-n
		}
	}
	sums := make([]byte, 4*len(blocks))
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(blocks); i = int(next.Add(1)) - 1 {
			var sum uint32
			for _, piece := range blocks[i] {
				sum = crc32.Update(sum, castagnoli, piece)
			}
			binary.LittleEndian.PutUint32(sums[4*i:], sum)
			if (i+1)%checksumStretch == 0 {
				release()
			}
		}
	}
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(blocks)) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
	return crc32.Checksum(sums, castagnoli)
}

// takeChecksum removes the checksum from the metadata, keeps it for Verify and
// compares that of the header. prefix holds the eight bytes of the length.
func (f *File) takeChecksum(prefix, header []byte) error {
	value, ok := f.Metadata[checksumKey]
	if !ok {
		for key, other := range f.Metadata {
			if strings.HasPrefix(other, checksumPrefix) && len(other) == len(checksumZero) {
				return fmt.Errorf("%w: metadata %q holds the checksum, want %q", ErrDamaged, key, checksumKey)
			}
		}
		return nil
	}
	delete(f.Metadata, checksumKey)
	if len(f.Metadata) == 0 {
		f.Metadata = nil
	}
	var want uint32
	if n, err := fmt.Sscanf(value, checksumPrefix+"%08x:%08x", &want, &f.dataChecksum); n != 2 || err != nil || value != checksumText(want, f.dataChecksum) {
		return fmt.Errorf("%w: metadata %q is no checksum", ErrDamaged, checksumKey)
	}
	field := checksumField(value)
	at := bytes.Index(header, field)
	if at < 0 || bytes.Count(header, field) != 1 {
		return fmt.Errorf("%w: metadata %q is not written as it was", ErrDamaged, checksumKey)
	}
	sum := crc32.Checksum(prefix[:8], castagnoli)
	sum = crc32.Update(sum, castagnoli, header[:at])
	sum = crc32.Update(sum, castagnoli, checksumField(checksumZero))
	sum = crc32.Update(sum, castagnoli, header[at+len(field):])
	if sum != want {
		return fmt.Errorf("%w, or another program copied its metadata: the checksum of its header is %08x, want %08x", ErrDamaged, sum, want)
	}
	f.checked = true
	return nil
}

// Verify compares the data with the checksum that Write put into the file; a file
// of another program has none, and nothing is compared. Read has done so; Parse
// leaves it to the caller, since it looks at every byte.
func (f *File) Verify() error {
	if !f.checked {
		return nil
	}
	parts := make([][]byte, len(f.Tensors))
	for i, t := range f.Tensors {
		parts[i] = t.Data
	}
	if got := dataChecksum(parts, func() {}); got != f.dataChecksum {
		return fmt.Errorf("safetensors: %w: the checksum of its data is %08x, want %08x", ErrDamaged, got, f.dataChecksum)
	}
	return nil
}
