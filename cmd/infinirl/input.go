package main

import (
	"context"
	"io"
	"os"
)

// openInput opens a file, or standard input if path is "-", and returns the name
// that errors give it. What may keep a reader waiting (standard input, a pipe) is
// read until ctx is done.
func openInput(ctx context.Context, path string, std streams) (io.ReadCloser, string, error) {
	if path == "-" {
		return io.NopCloser(&waitingReader{ctx: ctx, from: std.in}), "stdin", nil
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() || info.IsDir() {
		f, err := os.Open(path)
		if err != nil {
			return nil, "", badInput(err)
		}
		return f, path, nil
	}
	f, err := waitFor(ctx, func() (*os.File, error) { return os.Open(path) }) // a pipe opens when somebody writes
	if err != nil {
		return nil, "", badInput(err)
	}
	return waitingFile{&waitingReader{ctx: ctx, from: f}, f}, path, nil
}

// waitFor returns what wait returns, or the error of ctx if that is done first. The
// goroutine that waits is abandoned then: nothing but the end of the process, which
// is near, could end a read or an open that the system holds up.
func waitFor[T any](ctx context.Context, wait func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := wait()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// waitingReader reads until ctx is done, whether or not anything comes.
type waitingReader struct {
	ctx    context.Context
	from   io.Reader
	buffer []byte // read into by waitFor's goroutine, never by the caller's
	rest   []byte // of the buffer, not yet handed on
	err    error  // of from, after the rest
}

func (r *waitingReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		if r.buffer == nil {
			r.buffer = make([]byte, 1<<16)
		}
		n, err := waitFor(r.ctx, func() (int, error) { return r.from.Read(r.buffer) })
		r.rest, r.err = r.buffer[:n], err
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// waitingFile is a pipe, or another file that may keep a reader waiting.
type waitingFile struct {
	*waitingReader
	file *os.File
}

func (f waitingFile) Close() error { return f.file.Close() }
