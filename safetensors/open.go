package safetensors

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/infinirl/infinirl/bounded"
)

// Opened is a file whose header has been read and whose tensors lack their data
// until Attach, so that shapes can be looked at before memory is taken.
type Opened struct {
	*File
	Path string

	file *os.File
	size int // of the data
	data *mapping
}

// Open reads the header of a regular file and compares what it claims with the
// size of the file. Close ends the use of it.
func Open(path string) (*Opened, error) {
	f, length, err := bounded.Open(path, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	header, size, err := ReadHeader(f)
	switch {
	case err != nil:
	case int64(size) > length-header.begin:
		err = fmt.Errorf("safetensors: truncated: %d bytes of tensor data, the header asks for %d: %w", length-header.begin, size, io.ErrUnexpectedEOF)
	case int64(size) < length-header.begin:
		err = fmt.Errorf("safetensors: %d bytes follow the %d of tensor data", length-header.begin-int64(size), size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return &Opened{File: header, Path: path, file: f, size: size}, nil
}

// Attach gives the tensors their data: memory that the system reads from the file as
// it is looked at, where files can be mapped. It is valid until Close, must not be
// written to, and nobody may make the file shorter meanwhile. It compares the
// checksum as Verify does.
func (o *Opened) Attach() error {
	data, err := mapFile(o.file, o.begin+int64(o.size))
	if err != nil {
		return fmt.Errorf("%s: %w", o.Path, err)
	}
	o.data = data
	o.attach(data.bytes[o.begin:])
	if err := o.Verify(); err != nil {
		return fmt.Errorf("%s: %w", o.Path, err)
	}
	return nil
}

// Close ends the use of the file and of what Attach gave.
func (o *Opened) Close() error {
	if o.data != nil {
		o.data.close()
		for i := range o.Tensors {
			o.Tensors[i].Data = nil
		}
	}
	return o.file.Close()
}
