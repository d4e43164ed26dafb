package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/infinirl/infinirl/policy"
)

// Options are the settings of a [Sampler].
type Options struct {
	Threads       int   // goroutines that run the model; 0: those of the model
	MaxBatch      int   // sequences in flight at once, rounded up to a multiple of Threads; 0: 256
	PrefillTokens int   // prompt tokens that a thread takes into one step; 0: 512
	CacheBytes    int64 // limit of the key-value caches, exceeded only by a sequence that runs alone; 0: 1 GiB
	Version       int64 // of the weights at the start
}

// Stats counts the work of a [Sampler].
type Stats struct {
	PrefilledTokens int64 // prompt tokens that were computed
	ReusedTokens    int64 // prompt tokens that a cache held
	DecodedTokens   int64 // tokens sampled
	Steps           int64 // forward passes
	Evictions       int64 // caches dropped for want of memory
	CacheBytes      int64 // memory of the caches now
}

// Sampler continues prompts with a model. It implements [policy.Sampler].
//
// Its goroutines batch continuously: each takes requests as they come, and one
// step of it processes the next piece of every prompt and one token of every
// continuation that it holds. A conversation keeps its keys and values from
// request to request, so that only what was added to its prompt is computed.
//
// A result depends on nothing but the request and the weights, to the bit: not
// on other requests, caches or threads. The log-probs are those of
// [Model.LogProbs]. The weights must not change while requests are in flight;
// [Sampler.Refresh] sees to that.
type Sampler struct {
	model   *Model
	options Options
	workers sync.WaitGroup

	mu      sync.Mutex
	wake    sync.Cond       // pending, active, paused or closed has changed
	pending []*continuation // not yet taken by a goroutine, in order of arrival
	active  int             // taken
	paused  int             // calls of Refresh
	closed  bool
	version int64
	weights uint64 // the model's generation that the caches belong to
	pool    *cachePool
	stats   Stats
}

var (
	_ policy.Sampler     = (*Sampler)(nil)
	_ policy.Forgetter   = (*Sampler)(nil)
	_ policy.WeightTaker = (*Sampler)(nil)
)

// ErrClosed is the error of requests to a sampler that is closed.
var ErrClosed = errors.New("the sampler is closed")

// NewSampler starts a sampler of an actor. Close ends it.
func NewSampler(m *Model, options Options) (*Sampler, error) {
	if m.IsCritic() {
		return nil, errors.New("lm: a critic cannot sample")
	}
	for _, field := range []struct {
		name     string
		value    *int
		fallback int
	}{
		{"Threads", &options.Threads, m.threads()}, {"MaxBatch", &options.MaxBatch, 256}, {"PrefillTokens", &options.PrefillTokens, 512},
	} {
		if *field.value < 0 {
			return nil, fmt.Errorf("lm: sampler option %s is %d, want a number from 0", field.name, *field.value)
		}
		if *field.value == 0 {
			*field.value = field.fallback
		}
	}
	if options.CacheBytes < 0 {
		return nil, fmt.Errorf("lm: sampler option CacheBytes is %d, want a number from 0", options.CacheBytes)
	}
	if options.CacheBytes == 0 {
		options.CacheBytes = 1 << 30
	}
	s := &Sampler{model: m, options: options, version: options.Version, pool: newCachePool(&m.config, options.CacheBytes)}
	s.wake.L = &s.mu
	for range options.Threads {
		s.workers.Go(s.work)
	}
	return s, nil
}

// Close ends the sampler and waits for its goroutines. Requests in flight get
// ErrClosed.
func (s *Sampler) Close() error {
	s.mu.Lock()
	s.closed = true
	s.wake.Broadcast()
	s.mu.Unlock()
	s.workers.Wait()
	return nil
}

// Sample continues a prompt; see [policy.Sampler]. A continuation also ends, for its
// length, where the model's max_position_embeddings does.
func (s *Sampler) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	if err := s.check(request); err != nil {
		return policy.Completion{}, fmt.Errorf("lm: %w", err)
	}
	q := &continuation{
		ctx: ctx, request: request, tokens: slices.Clone(request.Prompt), done: make(chan struct{}),
		rng: rand.New(rand.NewPCG(request.Seed, 0x73616d706c65)), // stream "sample"
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return policy.Completion{}, fmt.Errorf("lm: %w", ErrClosed)
	}
	s.pending = append(s.pending, q)
	s.wake.Broadcast()
	s.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
		return policy.Completion{}, fmt.Errorf("lm: %w", context.Cause(ctx)) // the goroutine that holds q will drop it
	}
	if q.err != nil {
		return policy.Completion{}, fmt.Errorf("lm: %w", q.err)
	}
	return q.completion, nil
}

func (s *Sampler) check(r policy.Request) error {
	if len(r.Prompt) == 0 {
		return errors.New("the prompt is empty")
	}
	if err := s.model.checkTokens(r.Prompt); err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	if n := s.model.config.MaxPositionEmbeddings; len(r.Prompt) == n {
		return fmt.Errorf("prompt: %d tokens leave no room below max_position_embeddings %d", len(r.Prompt), n)
	}
	if r.MaxTokens < 1 {
		return fmt.Errorf("the field MaxTokens is %d, want at least 1", r.MaxTokens)
	}
	if !(r.Temperature >= 0) || math.IsInf(r.Temperature, 1) {
		return fmt.Errorf("the field Temperature is %g, want a finite number from 0", r.Temperature)
	}
	if r.Temperature > 0 && !(float32(r.Temperature) > 0) {
		return fmt.Errorf("the field Temperature %g is too small", r.Temperature)
	}
	for i, stop := range r.Stop {
		if len(stop) == 0 {
			return fmt.Errorf("the field Stop[%d] is empty", i)
		}
	}
	return nil
}

// Refresh changes the weights between requests: it holds new requests back, waits
// for those in flight, calls update (nil: the weights have changed already),
// drops what the caches hold and continues with the new version. If
// update fails, the version stays. It must not call the sampler.
func (s *Sampler) Refresh(ctx context.Context, version int64, update func() error) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wake.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused++
	defer func() {
		s.paused--
		s.wake.Broadcast()
	}()
	for s.active > 0 && ctx.Err() == nil {
		s.wake.Wait()
	}
	if ctx.Err() != nil {
		return fmt.Errorf("lm: refresh: %w", context.Cause(ctx))
	}
	s.pool.invalidate()
	if update != nil {
		if err := update(); err != nil {
			return fmt.Errorf("lm: refresh: %w", err)
		}
	}
	s.version = version
	return nil
}

// TakeWeights tells that the model, whose memory the learner shares, has new weights;
// see [policy.WeightTaker].
func (s *Sampler) TakeWeights(ctx context.Context, weights policy.Weights) error {
	if weights.Location != "" {
		return fmt.Errorf("lm: weights at %s: want those of the learner that shares this model", weights.Location)
	}
	return s.Refresh(ctx, weights.Version, nil)
}

// Forget tells that a session has ended. Its cache may serve others that begin
// alike until its memory is needed.
func (s *Sampler) Forget(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool.forget(sessionID)
}

// Stats returns what was counted since the start.
func (s *Sampler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Evictions, stats.CacheBytes = s.pool.evicted, s.pool.bytes
	return stats
}

// continuation is a request in flight.
type continuation struct {
	ctx     context.Context
	request policy.Request
	tokens  []int32  // prompt and continuation
	session *session // holds keys and values of the first of them
	rng     *rand.Rand

	done       chan struct{} // closed when what follows is final
	completion policy.Completion
	err        error
}

// work is one of the sampler's goroutines.
func (s *Sampler) work() {
	ws := s.model.takeWorkspace(ropeTable{})
	defer s.model.giveWorkspace(ws)
	var held []*continuation
	var counts Stats
	for {
		var open bool
		if held, open = s.turn(held, counts); !open {
			return
		}
		counts = s.advance(ws, held)
	}
}

// turn is what a goroutine does between steps: of the sequences that it holds it
// gives back those that are finished and adds a fair share of the pending ones,
// waiting for one if it holds none. It is false when the sampler is closed.
// counts are those of the last step.
func (s *Sampler) turn(held []*continuation, counts Stats) ([]*continuation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held = slices.DeleteFunc(held, func(q *continuation) bool {
		finished := q.finished()
		if finished {
			s.release(q)
		}
		return finished
	})
	s.stats.PrefilledTokens += counts.PrefilledTokens
	s.stats.DecodedTokens += counts.DecodedTokens
	s.stats.Steps += counts.Steps
	for {
		if s.closed {
			for _, q := range held {
				q.err = ErrClosed
				s.release(q)
			}
			for _, q := range s.pending {
				q.err = ErrClosed
				close(q.done)
			}
			s.pending = nil
			return nil, false
		}
		if s.paused == 0 {
			held = s.take(held)
		}
		if len(held) > 0 {
			return held, true
		}
		s.wake.Wait()
	}
}

// take moves pending sequences to held, so many that every goroutine gets as
// many of those in flight. The caller holds the lock.
func (s *Sampler) take(held []*continuation) []*continuation {
	if generation := s.model.generation.Load(); s.active == 0 && s.weights != generation {
		s.weights = generation
		s.pool.invalidate()
	}
	threads := s.options.Threads
	share := min((s.active+len(s.pending)+threads-1)/threads, (s.options.MaxBatch+threads-1)/threads)
	for len(s.pending) > 0 && len(held) < share {
		q := s.pending[0]
		if q.ctx.Err() != nil {
			q.err = context.Cause(q.ctx)
			close(q.done)
			s.pending = s.pending[1:]
			continue
		}
		if s.active > 0 && !s.pool.room(len(q.tokens)) {
			break
		}
		s.pending = s.pending[1:]
		q.session = s.pool.acquire(q.request.SessionID, q.tokens)
		s.stats.ReusedTokens += int64(len(q.session.tokens))
		s.active++
		held = append(held, q)
	}
	return held
}

// release hands q and its cache back. The caller holds the lock.
func (s *Sampler) release(q *continuation) {
	q.completion.FirstVersion, q.completion.LastVersion = s.version, s.version
	s.pool.release(q.session)
	s.active--
	s.wake.Broadcast()
	close(q.done)
}

func (q *continuation) finished() bool { return q.err != nil || q.completion.FinishReason != "" }

// advance runs one step over the sequences: the next piece of a prompt or the
// last sampled token of each, and samples one token where the prompt is done.
func (s *Sampler) advance(ws *workspace, held []*continuation) (counts Stats) {
	st, budget := &ws.step, s.options.PrefillTokens
	st.tokens, st.positions, st.outputs, st.spans = st.own[:0], st.positions[:0], st.outputs[:0], st.spans[:0]
	sampling := ws.sampling[:0] // the sequence of every output
	longest := 0
	for _, q := range held {
		if q.err = context.Cause(q.ctx); q.err != nil {
			continue
		}
		past := len(q.session.tokens)
		n := len(q.tokens) - past
		if past < len(q.request.Prompt) {
			n = min(n, budget)
			budget -= n
			counts.PrefilledTokens += int64(n)
		}
		if n == 0 {
			continue
		}
		s.extend(q, past+n)
		sp := span{row: len(st.tokens), rows: n, out: len(st.outputs), cache: &q.session.kv}
		for i := range n {
			st.tokens = append(st.tokens, q.tokens[past+i])
			st.positions = append(st.positions, int32(past+i))
		}
		q.session.tokens = append(q.session.tokens, q.tokens[past:past+n]...)
		if past+n == len(q.tokens) {
			sp.outs = 1
			st.outputs = append(st.outputs, int32(len(st.tokens)-1))
			sampling = append(sampling, q)
		}
		st.spans = append(st.spans, sp)
		longest = max(longest, past+n)
	}
	st.own, ws.sampling = st.tokens, sampling
	if len(st.tokens) == 0 {
		return counts
	}
	ws.rope = s.model.prepareForward(longest)
	ws.forward(st, false)
	ws.sample(sampling)
	counts.Steps++
	counts.DecodedTokens += int64(len(sampling))
	return counts
}

// extend makes room for n positions in the cache of q, and for some to come.
func (s *Sampler) extend(q *continuation, n int) {
	kv := &q.session.kv
	if n <= kv.stride {
		return
	}
	before := kv.bytes()
	most := min(len(q.request.Prompt)+q.request.MaxTokens, s.model.config.MaxPositionEmbeddings)
	kv.extend(&s.model.config, min(max(len(q.request.Prompt)+64, n+n/2), most), len(q.session.tokens))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool.grown(q.session, before)
}
