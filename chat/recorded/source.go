package recorded

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// source is the window on a stream from which documents are cut. It holds no more
// than the document that is being read.
type source struct {
	name string
	r    io.Reader
	buf  []byte
	at   int // where the window starts in buf
	line int // the number of the line there
	err  error
	done func() // lets go of a decompressor
}

// decompressed recognises gzip and zstd by their first bytes.
func decompressed(name string, r io.Reader) *source {
	in := bufio.NewReader(r)
	s := &source{name: name, r: in, line: 1, done: func() {}}
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			s.err = fmt.Errorf("%s: %w", name, decompressor{what: "gzip"}.error(err))
			return s
		}
		s.r = decompressor{"gzip", z}
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			s.err = fmt.Errorf("%s: %w", name, decompressor{what: "zstd"}.error(err))
			return s
		}
		s.r, s.done = decompressor{"zstd", z}, z.Close
	}
	if s.has(3) && utf16(s.window()) {
		s.buf, s.at, s.err = nil, 0, fmt.Errorf("%s:1: UTF-16: save it as UTF-8", name)
	}
	if s.has(2) && bytes.HasPrefix(s.window(), []byte("\ufeff")) { // a byte order mark, as some editors write
		s.drop(len("\ufeff"))
	}
	return s
}

// utf16 reports whether a text of at least four bytes is UTF-16: by its byte order
// mark, or because every other byte of JSON is 0 then.
func utf16(text []byte) bool {
	if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
		return true
	}
	little := text[1] == 0 && text[3] == 0 && text[0] != 0 && text[2] != 0
	big := text[0] == 0 && text[2] == 0 && text[1] != 0 && text[3] != 0
	return little || big
}

// decompressor says in errors what was being read.
type decompressor struct {
	what string
	r    io.Reader
}

func (n decompressor) Read(p []byte) (int, error) {
	read, err := n.r.Read(p)
	if err != nil && err != io.EOF {
		err = n.error(err)
	}
	return read, err
}

// error tells what to do about a compressed file that is damaged.
func (n decompressor) error(err error) error {
	advice := "the compressed data is damaged: copy the file again, or decompress it by itself and take what comes out"
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		advice = "the file is cut off: copy it again"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrMagicMismatch):
		advice = "what stands there is not compressed: take away what stands behind the compressed data, or compress the file again"
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		advice = "the data is not what was compressed: copy the file again"
	}
	return fmt.Errorf("%s: %w: %s", n.what, err, advice)
}

// window is what has been read and not dropped.
func (s *source) window() []byte { return s.buf[s.at:] }

// has reports whether the window holds byte i, and reads until it does.
func (s *source) has(i int) bool {
	for s.err == nil && i >= len(s.buf)-s.at {
		s.fill()
	}
	return i < len(s.buf)-s.at
}

// fill reads more of the stream.
func (s *source) fill() {
	if s.at > len(s.buf)/2 { // move what is left to the front: it is less than what goes
		s.buf = s.buf[:copy(s.buf, s.buf[s.at:])]
		s.at = 0
	}
	if len(s.buf)-s.at > MaxBytes {
		s.err = fmt.Errorf("%s:%d: a run or a list of messages of more than %d MiB: split it", s.name, s.line, MaxBytes>>20)
		return
	}
	if cap(s.buf)-len(s.buf) < 64<<10 {
		s.buf = append(s.buf, make([]byte, 64<<10)...)[:len(s.buf)]
	}
	n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	s.err = err
}

// drop moves the start of the window n bytes on.
func (s *source) drop(n int) {
	s.line += bytes.Count(s.buf[s.at:s.at+n], []byte("\n"))
	s.at += n
}

// skipSpace drops white space and reports the byte after it; ok is false at the end.
func (s *source) skipSpace() (next byte, ok bool) {
	for s.has(0) {
		rest := bytes.TrimLeft(s.window(), " \n\t\r")
		s.drop(len(s.window()) - len(rest))
		if len(rest) > 0 {
			return rest[0], true
		}
	}
	return 0, false
}

// lineEnd returns the length of the line that the window starts with.
func (s *source) lineEnd() int {
	for i := 0; s.has(i); i = len(s.window()) {
		if n := bytes.IndexByte(s.window()[i:], '\n'); n >= 0 {
			return i + n
		}
	}
	return len(s.window())
}

// valueEnd returns where the JSON value ends that starts at byte i of the window, by
// its brackets and quotes alone: what stands between them is for parse to check.
func (s *source) valueEnd(i int) int {
	depth, quoted := 0, false
	for s.has(i) {
		rest := s.window()[i:]
		switch c := rest[0]; {
		case quoted:
			n := bytes.IndexAny(rest, `"\`)
			switch {
			case n < 0:
				i += len(rest)
			case rest[n] == '\\':
				i += n + 2
			default:
				i += n + 1
				quoted = false
			}
			if quoted || depth > 0 {
				continue
			}
			return i
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				return i + depth + 1 // a bracket that closes nothing is not of the value
			}
		case c < ' ' && c != '\n' && c != '\t' && c != '\r':
			return i + 1 // no JSON: do not look for its end
		case depth == 0 && (c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			return i
		}
		i++
	}
	return len(s.window())
}

// text returns the first n bytes of the window as a file of their own, valid until
// more is read.
func (s *source) text(n int) *file {
	f := newFile(s.name, s.window()[:n:n])
	f.first = s.line
	return f
}
