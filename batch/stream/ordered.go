package stream

import (
	"context"
	"errors"
	"io"
	"sync"
)

// ordered runs work on what next returns, up to io.EOF, in several goroutines at
// once, and hands the results to out in the order of the inputs. Only a few
// inputs per worker are held at a time. The first error ends it. next and out are
// each called by one goroutine, and all have ended when ordered returns.
func ordered[A, B any](ctx context.Context, workers int, next func() (A, error), work func(A) (B, error), out func(B) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		value B
		err   error
	}
	type job struct {
		input A
		done  chan result // of one place: a worker never waits
	}
	var (
		wait    sync.WaitGroup
		nextErr error
		jobs    = make(chan job)
		queue   = make(chan job, workers)
	)
	wait.Go(func() {
		defer close(jobs)
		defer close(queue)
		for {
			input, err := next()
			if err != nil {
				nextErr = err
				return
			}
			j := job{input, make(chan result, 1)}
			for _, to := range []chan job{queue, jobs} {
				select {
				case to <- j:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	for range workers {
		wait.Go(func() {
			for j := range jobs {
				value, err := work(j.input)
				j.done <- result{value, err}
			}
		})
	}
	consume := func() error {
		for j := range queue {
			select {
			case r := <-j.done:
				if r.err != nil {
					return r.err
				}
				if err := out(r.value); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return ctx.Err()
	}
	err := consume()
	cancel()
	wait.Wait()
	if err == nil && !errors.Is(nextErr, io.EOF) {
		err = nextErr
	}
	return err
}
