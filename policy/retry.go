package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff says how often and when to ask again.
type Backoff struct {
	// Attempts is how often a request is made at most, the first time included.
	Attempts int
	// First is the wait before the second attempt; it doubles each time, up to Most.
	First, Most time.Duration
}

// DefaultBackoff waits about four minutes in all before it gives up: long enough for a
// server to be restarted.
var DefaultBackoff = Backoff{Attempts: 12, First: 250 * time.Millisecond, Most: 30 * time.Second}

// Retry returns a sampler that asks again where an error is transient or a completion
// was aborted. What was sampled before an abort is thrown away: the answer is one that
// a single request could have got. It forgets if s does.
func Retry(s Sampler, b Backoff) Sampler { return retrying{s, b} }

type retrying struct {
	Sampler
	backoff Backoff
}

func (r retrying) Sample(ctx context.Context, request Request) (Completion, error) {
	wait := r.backoff.First
	for attempt := 1; ; attempt++ {
		c, err := r.Sampler.Sample(ctx, request)
		if err == nil && c.FinishReason == FinishAbort {
			err = Transient(fmt.Errorf("the server aborted the completion after %d tokens", len(c.Tokens)))
		}
		switch {
		case err == nil:
			return c, nil
		case !IsTransient(err) || ctx.Err() != nil:
			return Completion{}, err
		case attempt >= r.backoff.Attempts:
			return Completion{}, fmt.Errorf("given up after %d attempts: %w", attempt, err)
		}
		// Requests that failed together do not come back together.
		if err := Pause(ctx, wait/2+rand.N(wait/2+1)); err != nil {
			return Completion{}, err
		}
		wait = min(2*wait, r.backoff.Most)
	}
}

// Forget passes on to the sampler.
func (r retrying) Forget(sessionID string) {
	if f, ok := r.Sampler.(Forgetter); ok {
		f.Forget(sessionID)
	}
}

// Pause waits, or returns the cause of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
