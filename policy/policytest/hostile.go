package policytest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/infinirl/infinirl/policy"
)

// Hostile is a sampler as servers can be: answers come late and in another order than
// they were asked for, one request in twenty fails for a passing reason and as many are
// aborted midway. What it answers in the end is what the sampler inside answers.
type Hostile struct {
	inside policy.Sampler

	mu  sync.Mutex
	rng *rand.Rand
	// Failed and Aborted count what was done to requests.
	Failed, Aborted int
}

// NewHostile returns a hostile sampler over another one.
func NewHostile(inside policy.Sampler, seed uint64) *Hostile {
	return &Hostile{inside: inside, rng: rand.New(rand.NewPCG(seed, 0))}
}

// ErrBusy is the passing reason.
var ErrBusy = errors.New("the server is busy")

// rate is the share of requests that fail, and of those that are aborted.
const rate = 0.05

// fate draws what happens to a request.
func (h *Hostile) fate() (wait time.Duration, fail, abort bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait = time.Duration(h.rng.Int64N(int64(20 * time.Millisecond)))
	switch x := h.rng.Float64(); {
	case x < rate:
		fail = true
		h.Failed++
	case x < 2*rate:
		abort = true
		h.Aborted++
	}
	return wait, fail, abort
}

// Sample asks the sampler inside, and waits before it hands on the answer.
func (h *Hostile) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	wait, fail, abort := h.fate()
	if fail {
		return policy.Completion{}, policy.Transient(ErrBusy)
	}
	c, err := h.inside.Sample(ctx, request)
	if err != nil {
		return c, err
	}
	if err := policy.Pause(ctx, wait); err != nil {
		return policy.Completion{}, err
	}
	if abort {
		n := len(c.Tokens) / 2
		c.Tokens, c.FinishReason = c.Tokens[:n], policy.FinishAbort
		if c.LogProbs != nil {
			c.LogProbs = c.LogProbs[:n]
		}
	}
	return c, nil
}

// Forget passes on to the sampler inside.
func (h *Hostile) Forget(sessionID string) {
	if f, ok := h.inside.(policy.Forgetter); ok {
		f.Forget(sessionID)
	}
}

// TakeWeights passes on to the sampler inside.
func (h *Hostile) TakeWeights(ctx context.Context, weights policy.Weights) error {
	return h.inside.(policy.WeightTaker).TakeWeights(ctx, weights)
}

// Translated is a sampler whose ids are those of another tokenizer: id i is To[i] of the
// sampler inside.
type Translated struct {
	Inside policy.Sampler
	Tokens Permutation
}

// Permutation renumbers the ids of a vocabulary.
type Permutation struct{ to, from []int32 }

// NewPermutation renumbers a vocabulary at random.
func NewPermutation(size int, seed uint64) Permutation {
	p := Permutation{make([]int32, size), make([]int32, size)}
	for i, k := range rand.New(rand.NewPCG(seed, 1)).Perm(size) {
		p.to[i], p.from[k] = int32(k), int32(i)
	}
	return p
}

// To renumbers ids, From undoes it. Ids outside the vocabulary stay.
func (p Permutation) To(ids []int32) []int32 { return renumber(p.to, ids) }

// From undoes To.
func (p Permutation) From(ids []int32) []int32 { return renumber(p.from, ids) }

func renumber(table, ids []int32) []int32 {
	if ids == nil {
		return nil
	}
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = id
		if id >= 0 && int(id) < len(table) {
			out[i] = table[id]
		}
	}
	return out
}

// Sample asks the sampler inside in its own ids.
func (t Translated) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	request.Prompt = t.Tokens.From(request.Prompt)
	stop := make([][]int32, len(request.Stop))
	for i := range stop {
		stop[i] = t.Tokens.From(request.Stop[i])
	}
	request.Stop = stop
	c, err := t.Inside.Sample(ctx, request)
	c.Tokens = t.Tokens.To(c.Tokens)
	return c, err
}

// TakeWeights passes on to the sampler inside.
func (t Translated) TakeWeights(ctx context.Context, weights policy.Weights) error {
	return t.Inside.(policy.WeightTaker).TakeWeights(ctx, weights)
}
