//go:build !linux

package safetensors

import (
	"io"
	"os"
)

// mapping is the content of a file as memory. Where files are not mapped, it is read.
type mapping struct{ bytes []byte }

func mapFile(f *os.File, size int64) (*mapping, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(f, 0, size), data)
	return &mapping{data}, noEOF(err)
}

func (m *mapping) close() {}
