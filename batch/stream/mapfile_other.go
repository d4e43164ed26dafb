//go:build !linux

package stream

import (
	"io"
	"os"
)

// mappedFile is the content of a file. Where files are not mapped, it is read.
type mappedFile struct{ data []byte }

func mapFile(f *os.File) (*mappedFile, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return &mappedFile{data}, err
}

func (m *mappedFile) release() {}

func (m *mappedFile) close() {}
