package safetensors

import (
	"fmt"
	"os"
	"syscall"
)

// mapping is the content of a file as memory.
type mapping struct{ bytes []byte }

func mapFile(f *os.File, size int64) (*mapping, error) {
	data, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	_ = syscall.Madvise(data, syscall.MADV_WILLNEED) // a hint
	return &mapping{data}, nil
}

func (m *mapping) close() { _ = syscall.Munmap(m.bytes) } // nothing is lost: the file is only read
