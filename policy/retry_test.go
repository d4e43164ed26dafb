package policy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// replies answers requests with one outcome after another.
type replies struct {
	outcomes []error // nil: an answer; errAbort: one that was aborted
	asked    int
	forgot   string
}

var errAbort = errors.New("abort")

func (r *replies) Sample(context.Context, Request) (Completion, error) {
	err := r.outcomes[min(r.asked, len(r.outcomes)-1)]
	r.asked++
	if err == errAbort {
		return Completion{Tokens: []int32{1}, FinishReason: FinishAbort}, nil
	}
	return Completion{Tokens: []int32{1, 2}, FinishReason: FinishStop}, err
}

func (r *replies) Forget(id string) { r.forgot = id }

func TestRetry(t *testing.T) {
	busy, broken := Transient(errors.New("busy")), errors.New("no such model")
	for _, test := range []struct {
		name     string
		outcomes []error
		asked    int
		want     string // in the error; "": none
		least    time.Duration
		most     time.Duration
	}{
		{"an answer", []error{nil}, 1, "", 0, 0},
		{"a permanent error", []error{broken}, 1, "no such model", 0, 0},
		{"passing errors", []error{busy, errAbort, busy, nil}, 4, "", 700 * time.Millisecond / 2, 700 * time.Millisecond},
		{"a passing error, then a permanent one", []error{busy, broken}, 2, "no such model", 50 * time.Millisecond, 100 * time.Millisecond},
		{"errors that do not pass", []error{busy}, 5, "given up after 5 attempts: busy", 1100 * time.Millisecond / 2, 1100 * time.Millisecond},
		{"aborts that do not end", []error{errAbort}, 5, "aborted the completion after 1 tokens", 0, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &replies{outcomes: test.outcomes}
			s := Retry(r, Backoff{Attempts: 5, First: 100 * time.Millisecond, Most: 400 * time.Millisecond})
			start := time.Now()
			c, err := s.Sample(t.Context(), Request{})
			took := time.Since(start)
			switch {
			case r.asked != test.asked:
				t.Errorf("%s: asked %d times, want %d", test.name, r.asked, test.asked)
			case test.want == "" && (err != nil || len(c.Tokens) != 2):
				t.Errorf("%s: %v, %v", test.name, c, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%s: error %v, want %q", test.name, err, test.want)
			case took < test.least || took > test.most:
				t.Errorf("%s: waited %v, want %v to %v", test.name, took, test.least, test.most)
			}
		})
	}
}

// A wait ends with its context.
func TestRetryIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		r := &replies{outcomes: []error{Transient(errors.New("busy"))}}
		_, err := Retry(r, DefaultBackoff).Sample(ctx, Request{})
		if err == nil || !strings.Contains(err.Error(), "enough") || r.asked > 4 {
			t.Errorf("error %v after %d attempts", err, r.asked)
		}
	})
}

func TestRetryForgets(t *testing.T) {
	t.Parallel()
	r := &replies{}
	Retry(r, DefaultBackoff).(Forgetter).Forget("a")
	if r.forgot != "a" {
		t.Errorf("forgot %q", r.forgot)
	}
	if err := Transient(nil); err != nil || IsTransient(errors.New("x")) {
		t.Error("nil, or any error, passes")
	}
}
