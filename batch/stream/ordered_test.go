package stream

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
)

func TestOrdered(t *testing.T) {
	t.Parallel()
	counter := func(n int, end error) func() (int, error) {
		k := -1
		return func() (int, error) {
			if k++; k == n {
				return 0, end
			}
			return k, nil
		}
	}
	double := func(k int) (int, error) { return 2 * k, nil }
	var got []int
	collect := func(k int) error { got = append(got, k); return nil }
	if err := ordered(t.Context(), 3, counter(100, io.EOF), double, collect); err != nil || len(got) != 100 || !slices.IsSorted(got) || got[99] != 198 {
		t.Errorf("results %v, error %v", got, err)
	}
	fault := errors.New("fault")
	if err := ordered(t.Context(), 3, counter(5, fault), double, collect); !errors.Is(err, fault) {
		t.Errorf("fault of the input: error %v", err)
	}
	faulty := func(k int) (int, error) {
		if k == 7 {
			return 0, fault
		}
		return k, nil
	}
	got = nil
	if err := ordered(t.Context(), 3, counter(1000, io.EOF), faulty, collect); !errors.Is(err, fault) || len(got) != 7 {
		t.Errorf("fault of the work: results %v, error %v", got, err)
	}
	if err := ordered(t.Context(), 3, counter(1000, io.EOF), double, func(int) error { return fault }); !errors.Is(err, fault) {
		t.Errorf("fault of the output: error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := ordered(ctx, 3, counter(1000, io.EOF), double, func(k int) error {
		if k == 20 {
			cancel()
		}
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}
