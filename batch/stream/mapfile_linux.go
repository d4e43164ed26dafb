package stream

import (
	"fmt"
	"os"
	"syscall"
)

// mappedFile is the content of a file as memory that the system may drop and
// read again.
type mappedFile struct{ data []byte }

func mapFile(f *os.File) (*mappedFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 { // cannot be mapped
		return &mappedFile{}, nil
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return &mappedFile{data}, nil
}

// release gives the memory back until it is read again.
func (m *mappedFile) release() {
	if len(m.data) > 0 {
		_ = syscall.Madvise(m.data, syscall.MADV_DONTNEED) // a hint: without it the memory is given back later
	}
}

func (m *mappedFile) close() {
	if len(m.data) > 0 {
		_ = syscall.Munmap(m.data) // nothing is lost: the file is only read
	}
}
