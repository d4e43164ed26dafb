package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/lm/kernel"
	"github.com/infinirl/infinirl/policy"
)

func newTestSampler(t testing.TB, m *Model, options Options) *Sampler {
	t.Helper()
	s, err := NewSampler(m, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func sampleOne(t testing.TB, s *Sampler, r policy.Request) policy.Completion {
	t.Helper()
	completion, err := s.Sample(context.Background(), r)
	if err != nil {
		t.Error(err)
	}
	return completion
}

// exchange is a request and what came of it.
type exchange struct {
	policy.Request
	policy.Completion
}

// conversation plays a conversation whose prompt grows by what was sampled and what
// the environment says, and is condensed when it gets long: the middle goes,
// the ends stay. Everything but the sampler follows from seed.
func conversation(t testing.TB, s *Sampler, seed uint64, most int) (turns []exchange) {
	rng := rand.New(rand.NewPCG(seed, 5))
	system := rand.New(rand.NewPCG(1, 1)) // all trajectories begin alike
	vocabulary := s.model.config.VocabSize
	prompt := randomTokens(system, 12, vocabulary)
	for turn := range 6 {
		prompt = append(prompt, randomTokens(rng, 1+rng.IntN(most/4), vocabulary)...)
		if len(prompt) > most*2/3 {
			prompt = slices.Concat(prompt[:20], prompt[len(prompt)-most/4:])
		}
		r := policy.Request{
			SessionID: fmt.Sprint("conversation ", seed), Prompt: slices.Clone(prompt), MaxTokens: 1 + rng.IntN(most/4),
			Temperature: []float64{1, 0.7, 0, 1.6}[turn%4],
			Seed:        rng.Uint64(), Stop: [][]int32{{3, 4}, {5}},
		}
		c := sampleOne(t, s, r)
		turns = append(turns, exchange{r, c})
		prompt = append(prompt, c.Tokens...)
	}
	s.Forget(fmt.Sprint("conversation ", seed))
	return turns
}

// A result depends on the request and the weights alone: the same bits come from a
// sampler that runs one request at a time without caches and from ones under
// load, whatever their threads, batches, chunks and memory. And log-probs are
// those of the learner, to the bit.
func TestSamplerDependsOnRequestOnly(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, set string) {
		config := shapes()["qwen3"]
		if set == "avx2" {
			config = shapes()["qwen2"]
		}
		config.VocabSize = 41
		m := newTest(t, config, false, set)
		const trajectories, most = 12, 100
		alone := newTestSampler(t, m, Options{Threads: 1, MaxBatch: 1, CacheBytes: 1})
		var want [trajectories][]exchange
		for i := range want {
			want[i] = conversation(t, alone, uint64(i), most)
		}
		for _, options := range []Options{
			{Threads: 1},
			{Threads: 3, PrefillTokens: 7},
			{Threads: 2, MaxBatch: 5, PrefillTokens: 33, CacheBytes: newCachePool(&m.config, 0).bytesFor(most) * 4},
		} {
			s := newTestSampler(t, m, options)
			var group sync.WaitGroup
			for i := range want {
				group.Go(func() {
					for turn, got := range conversation(t, s, uint64(i), most) {
						wanted := want[i][turn]
						if !slices.Equal(got.Tokens, wanted.Tokens) || !slices.Equal(got.LogProbs, wanted.LogProbs) || got.FinishReason != wanted.FinishReason {
							t.Errorf("%+v: conversation %d, turn %d:\n got %+v\nwant %+v", options, i, turn, got.Completion, wanted.Completion)
						}
					}
				})
			}
			group.Wait()
			checkPool(t, s)
			if stats := s.Stats(); stats.ReusedTokens == 0 || stats.PrefilledTokens == 0 {
				t.Errorf("%+v: stats %+v", options, stats)
			}
		}
		for _, turns := range want {
			for _, x := range turns {
				if got := learnerLogProbs(t, m, x); !slices.Equal(got, x.LogProbs) {
					t.Errorf("the learner's log-probs %v, the sampler's %v", got, x.LogProbs)
				}
			}
		}
	})
}

// learnerLogProbs scores what was sampled with Model.LogProbs.
func learnerLogProbs(t testing.TB, m *Model, x exchange) []float32 {
	t.Helper()
	row := Sequence{Tokens: slices.Concat(x.Prompt, x.Tokens)}
	for i := range x.Tokens {
		row.Targets = append(row.Targets, int32(len(x.Prompt)+i))
	}
	out := outputs([]Sequence{row})
	temperature := float32(x.Temperature)
	if temperature == 0 {
		temperature = 1
	}
	if err := m.LogProbs(t.Context(), []Sequence{row}, temperature, out, nil); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// checkPool compares the pool's books with its caches once nothing is in flight.
func checkPool(t testing.TB, s *Sampler) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes int64
	for _, session := range s.pool.all {
		bytes += session.kv.bytes()
		if session.busy {
			t.Error("a cache is still lent")
		}
	}
	if bytes != s.pool.bytes || s.pool.busyBytes != 0 || s.active != 0 || bytes > s.pool.limit {
		t.Errorf("pool counts %d bytes, %d in flight and %d sequences; there are %d bytes, the limit is %d", s.pool.bytes, s.pool.busyBytes, s.active, bytes, s.pool.limit)
	}
}

// Long sequences, with a condensed prompt in between: the sampler's log-probs
// agree with the learner's and with the twin's.
func TestLongSequences(t *testing.T) {
	t.Parallel()
	config := Config{VocabSize: 50, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 2, NumAttentionHeads: 2, NumKeyValueHeads: 1, InitializerRange: 0.2, EmbeddingInit: 0.5}
	m := newTest(t, config, false, kernel.Available()[0])
	s := newTestSampler(t, m, Options{})
	rng := rand.New(rand.NewPCG(2, 2))
	prompt := randomTokens(rng, 850, config.VocabSize)
	for turn := range 3 {
		r := policy.Request{SessionID: "a", Prompt: prompt, MaxTokens: 150, Temperature: 1, Seed: uint64(turn)}
		x := exchange{r, sampleOne(t, s, r)}
		got := learnerLogProbs(t, m, x)
		for i := range got {
			if !(math.Abs(float64(got[i]-x.LogProbs[i])) < 1e-4) {
				t.Fatalf("turn %d, token %d: learner %g, sampler %g", turn, i, got[i], x.LogProbs[i])
			}
		}
		if turn == 0 {
			row := Sequence{Tokens: slices.Concat(x.Prompt, x.Tokens), Targets: []int32{850, 900, 999}}
			want, _ := newTwin(t, m).logProbs(row, 1)
			closeTo(t, "log-probs", []float32{x.LogProbs[0], x.LogProbs[50], x.LogProbs[149]}, want, 5e-5)
		}
		all := slices.Concat(prompt, x.Tokens)
		prompt = slices.Concat(all[:300+turn], all[len(all)-500:])
	}
	if reused := s.Stats().ReusedTokens; reused < 600 {
		t.Errorf("%d tokens reused, want the 300 and more that stayed in front twice", reused)
	}
}

// A cache saves what its session has computed already.
func TestCacheReuse(t *testing.T) {
	t.Parallel()
	m := newTest(t, shapes()["llama"], false, "go")
	s := newTestSampler(t, m, Options{Threads: 1})
	prompt := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	step := func(session string, prompt []int32, prefilled, reused int64) policy.Completion {
		t.Helper()
		before := s.Stats()
		c := sampleOne(t, s, policy.Request{SessionID: session, Prompt: prompt, MaxTokens: 4, Temperature: 1, Seed: 1})
		after := s.Stats()
		// The goroutine adds the last step's counts in the turn that hands out the result.
		if got := after.PrefilledTokens - before.PrefilledTokens; got != prefilled {
			t.Errorf("%d tokens prefilled, want %d", got, prefilled)
		}
		if got := after.ReusedTokens - before.ReusedTokens; got != reused {
			t.Errorf("%d tokens reused, want %d", got, reused)
		}
		if got := after.DecodedTokens - before.DecodedTokens; got != 4 {
			t.Errorf("%d tokens decoded, want 4", got)
		}
		return c
	}
	first := step("a", prompt, 8, 0)
	grown := slices.Concat(prompt, first.Tokens, []int32{9, 10})
	step("a", grown, 3, 11)     // the last sampled token was never computed
	step("a", grown, 1, 13)     // the same prompt needs its last token's output
	step("a", grown[:5], 1, 4)  // so does a shorter one
	step("b", prompt, 8, 0)     // another session has its own cache
	step("", prompt, 8, 0)      // no session: a cache of its own ...
	step("", prompt, 1, 7)      // ... that the next may take over
	s.Forget("b")               // what b held (and more) is still there ...
	s.Forget("unknown")         // ... and nothing happens here
	step("c", prompt[:6], 1, 5) // ... for whoever begins alike
	step("b", append(slices.Clone(prompt[:2]), 11, 12), 2, 2)
}

// The least recently used cache goes when memory is short, a forgotten one before.
func TestEviction(t *testing.T) {
	t.Parallel()
	m := newTest(t, shapes()["llama"], false, "go")
	s := newTestSampler(t, m, Options{Threads: 1, CacheBytes: 2 * newCachePool(&m.config, 0).bytesFor(20)})
	reused := func(session string, first int32) int64 {
		prompt := []int32{first, 1, 2, 3, 4, 5, 6, 7, 8, 9}
		before := s.Stats().ReusedTokens
		sampleOne(t, s, policy.Request{SessionID: session, Prompt: prompt, MaxTokens: 8})
		checkPool(t, s)
		return s.Stats().ReusedTokens - before
	}
	for i, step := range []struct {
		session   string
		first     int32
		reused    int64
		evictions int64
	}{
		{"a", 1, 0, 0}, {"b", 2, 0, 0}, {"a", 1, 9, 0}, // both fit
		{"c", 3, 0, 1},                 // b goes, used longest ago
		{"a", 1, 9, 1}, {"b", 2, 0, 2}, // now c
		{"a", 1, 9, 2},
	} {
		if got := reused(step.session, step.first); got != step.reused {
			t.Errorf("request %d: %d tokens reused, want %d", i, got, step.reused)
		}
		if got := s.Stats().Evictions; got != step.evictions {
			t.Errorf("request %d: %d evictions, want %d", i, got, step.evictions)
		}
	}
	s.Forget("a") // though used last
	reused("d", 4)
	if got := reused("b", 2); got != 9 {
		t.Errorf("%d tokens reused, want 9: the forgotten cache should have gone", got)
	}
}

func TestStopsAndLimits(t *testing.T) {
	t.Parallel()
	config := shapes()["llama"]
	config.MaxPositionEmbeddings = 24
	m := newTest(t, config, false, "go")
	s := newTestSampler(t, m, Options{Threads: 1, Version: 41})
	r := policy.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 12, Temperature: 1, Seed: 3}
	whole := sampleOne(t, s, r)
	if len(whole.Tokens) != 12 || len(whole.LogProbs) != 12 || whole.FinishReason != policy.FinishLength || whole.FirstVersion != 41 || whole.LastVersion != 41 {
		t.Fatalf("completion %+v", whole)
	}
	r.Stop = [][]int32{{whole.Tokens[0], 18, 18}, whole.Tokens[3:6]}
	cut := sampleOne(t, s, r)
	if !slices.Equal(cut.Tokens, whole.Tokens[:6]) || cut.FinishReason != policy.FinishStop {
		t.Errorf("stopped %+v, want the first six tokens of %v", cut, whole.Tokens)
	}
	// A stop sequence does not reach back into the prompt.
	r.Stop = [][]int32{{3, whole.Tokens[0]}}
	if got := sampleOne(t, s, r); !slices.Equal(got.Tokens, whole.Tokens) {
		t.Errorf("tokens %v, want %v", got.Tokens, whole.Tokens)
	}
	r.Stop, r.MaxTokens = nil, 100
	if got := sampleOne(t, s, r); len(got.Tokens) != 21 || got.FinishReason != policy.FinishLength {
		t.Errorf("%d tokens and %q at the end of the context, want 21", len(got.Tokens), got.FinishReason)
	}
	// Requests that are equal but for the seed.
	other := r
	other.Seed++
	if a, b, again := sampleOne(t, s, r), sampleOne(t, s, other), sampleOne(t, s, r); !slices.Equal(a.Tokens, again.Tokens) || slices.Equal(a.Tokens, b.Tokens) {
		t.Errorf("tokens %v, %v, %v: want the first and last alike", a.Tokens, b.Tokens, again.Tokens)
	}
	for want, change := range map[string]func(r *policy.Request){
		"the prompt is empty":       func(r *policy.Request) { r.Prompt = nil },
		"token 19 at position 0":    func(r *policy.Request) { r.Prompt = []int32{19} },
		"24 tokens leave no room":   func(r *policy.Request) { r.Prompt = make([]int32, 24) },
		"25 tokens exceed":          func(r *policy.Request) { r.Prompt = make([]int32, 25) },
		"MaxTokens is 0":            func(r *policy.Request) { r.MaxTokens = 0 },
		"Temperature is -1":         func(r *policy.Request) { r.Temperature = -1 },
		"Temperature is NaN":        func(r *policy.Request) { r.Temperature = math.NaN() },
		"Temperature 1e-300 is too": func(r *policy.Request) { r.Temperature = 1e-300 },
		"Stop[1] is empty":          func(r *policy.Request) { r.Stop = [][]int32{{1}, {}} },
	} {
		bad := r
		change(&bad)
		if _, err := s.Sample(t.Context(), bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Each token is drawn with its probability: over evenly spaced u, the share of a
// token is its probability to within the spacing.
func TestDrawFollowsDistribution(t *testing.T) {
	t.Parallel()
	config := shapes()["qwen3"]
	m := newTest(t, config, false, kernel.Available()[0])
	ws := newWorkspace(m)
	rng := rand.New(rand.NewPCG(3, 3))
	logits := make([]float32, config.VocabSize)
	exact := make([]float64, len(logits))
	for i := range logits {
		logits[i] = float32(3 * rng.NormFloat64())
	}
	for _, temperature := range []float64{0.5, 1, 2} {
		for i, x := range logits {
			exact[i] = float64(x) * config.LogitScale / temperature
		}
		p, _ := softmax(exact)
		const draws = 20000
		count := make([]float64, len(p))
		for n := range draws {
			token, logProb, err := ws.draw(slices.Clone(logits), temperature, (float64(n)+0.5)/draws)
			if err != nil {
				t.Fatal(err)
			}
			count[token]++
			if want := math.Log(p[token]); !(math.Abs(float64(logProb)-want) < 1e-5) {
				t.Fatalf("temperature %g: log-prob %g of token %d, want %g", temperature, logProb, token, want)
			}
		}
		for i := range p {
			if math.Abs(count[i]/draws-p[i]) > 1.5/draws {
				t.Errorf("temperature %g: token %d has share %g, want %g", temperature, i, count[i]/draws, p[i])
			}
		}
	}
	logits[2] = float32(math.NaN())
	if _, _, err := ws.draw(logits, 1, 0.5); !errors.Is(err, errLogits) {
		t.Errorf("error %v for logits with NaN", err)
	}
}

func TestCancelAndClose(t *testing.T) {
	t.Parallel()
	config := shapes()["llama"]
	config.MaxPositionEmbeddings = 1 << 20
	m := newTest(t, config, false, kernel.Available()[0])
	s := newTestSampler(t, m, Options{Threads: 2, MaxBatch: 4})
	endless := policy.Request{SessionID: "endless", Prompt: []int32{1}, MaxTokens: 1 << 19, Temperature: 1}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	failed := make(chan error)
	go func() {
		var group sync.WaitGroup
		errs := make([]error, 5)
		for i := range errs {
			group.Go(func() { _, errs[i] = s.Sample(ctx, endless) })
		}
		group.Wait()
		for _, err := range errs {
			if !errors.Is(err, enough) {
				failed <- fmt.Errorf("one of five: %w", err)
				return
			}
		}
		failed <- errs[0]
	}()
	short := policy.Request{Prompt: []int32{2}, MaxTokens: 3}
	awaitFlight(s)
	cancel(enough)
	if err := <-failed; !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
	if c := sampleOne(t, s, short); len(c.Tokens) != 3 {
		t.Errorf("completion %+v after another request was cancelled", c)
	}
	if _, err := s.Sample(ctx, short); !errors.Is(err, enough) {
		t.Errorf("error %v under a cancelled context", err)
	}
	go func() {
		_, err := s.Sample(context.Background(), endless)
		failed <- err
	}()
	waiting, stop := context.WithCancelCause(t.Context())
	stop(enough)
	awaitFlight(s)
	if err := s.Refresh(waiting, 1, nil); !errors.Is(err, enough) {
		t.Errorf("error %v of a cancelled refresh", err)
	}
	s.Close()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want %v", err, ErrClosed)
	}
	if _, err := s.Sample(t.Context(), short); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want %v", err, ErrClosed)
	}
}

// awaitFlight returns once a goroutine of s holds a sequence.
func awaitFlight(s *Sampler) {
	for {
		s.mu.Lock()
		active := s.active
		s.mu.Unlock()
		if active > 0 {
			return
		}
		runtime.Gosched()
	}
}

// New weights take effect between requests, under load, without a stale key.
func TestRefresh(t *testing.T) {
	t.Parallel()
	m := newTest(t, shapes()["qwen2"], false, kernel.Available()[0])
	// models[v] are the weights of version v, wanted[v] what they sample.
	var models []*Model
	var wanted []policy.Completion
	r := policy.Request{SessionID: "s", Prompt: []int32{1, 2, 3, 4, 5, 6, 7}, MaxTokens: 10, Temperature: 1, Seed: 5}
	for v := range 4 {
		c := m.Clone()
		for i := range c.params {
			c.params[i] *= 1 + 0.2*float32(v)
		}
		models = append(models, c)
		wanted = append(wanted, sampleOne(t, newTestSampler(t, c, Options{}), r))
	}
	s := newTestSampler(t, m, Options{Threads: 2})
	var group sync.WaitGroup
	stop := make(chan struct{})
	for i := range 5 {
		group.Go(func() {
			r := r
			r.SessionID = fmt.Sprint(i % 3)
			for {
				c := sampleOne(t, s, r)
				want := wanted[c.LastVersion]
				if !slices.Equal(c.Tokens, want.Tokens) || !slices.Equal(c.LogProbs, want.LogProbs) {
					t.Errorf("version %d: got %+v, want %+v", c.LastVersion, c, want)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for v := 1; v < len(models); v++ {
		if err := s.Refresh(t.Context(), int64(v), func() error { return m.CopyFrom(models[v]) }); err != nil {
			t.Error(err)
		}
		if c := sampleOne(t, s, r); c.LastVersion != int64(v) {
			t.Errorf("version %d, want %d", c.LastVersion, v)
		}
	}
	close(stop)
	group.Wait()
	broken := errors.New("no such checkpoint")
	if err := s.Refresh(t.Context(), 99, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if c := sampleOne(t, s, r); c.LastVersion != 3 {
		t.Errorf("version %d after a refresh that failed, want 3", c.LastVersion)
	}
	// A step that nobody announced is noticed once nothing is in flight.
	if err := m.CopyFrom(models[1]); err != nil {
		t.Fatal(err)
	}
	if c := sampleOne(t, s, r); !slices.Equal(c.LogProbs, wanted[1].LogProbs) {
		t.Errorf("log-probs %v from stale keys, want %v", c.LogProbs, wanted[1].LogProbs)
	}
}
