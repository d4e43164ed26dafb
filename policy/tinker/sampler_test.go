package tinker_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/infinirl/infinirl/learner/tinker/tinkertest"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/policytest"
	"github.com/infinirl/infinirl/policy/tinker"
	wire "github.com/infinirl/infinirl/tinker"
)

const vocabulary = 23

// publishing is a sampler whose weights of a version are those of a model on the server,
// published anew.
type publishing struct {
	*tinker.Sampler
	model *wire.Model
}

func (p publishing) TakeWeights(ctx context.Context, weights policy.Weights) (err error) {
	if weights.Location, err = p.model.SaveForSampler(ctx); err != nil {
		return err
	}
	return p.Sampler.TakeWeights(ctx, weights)
}

func base() (*lm.Model, error) {
	m, err := lm.NewActor(lm.Config{VocabSize: vocabulary, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 2, NumAttentionHeads: 2,
		MaxPositionEmbeddings: 64, InitializerRange: 0.3, EmbeddingInit: 0.5}, 1)
	if err == nil {
		m.Threads = 2
	}
	return m, err
}

// subject is a sampler with weights, over transport if it is not nil.
func subject(server *tinkertest.Server, cfg wire.Config) (policytest.Subject, error) {
	model, err := base()
	if err != nil {
		return policytest.Subject{}, err
	}
	ctx := context.Background()
	if cfg.URL == "" {
		cfg.URL, cfg.Transport = "http://server", server.Transport()
	}
	client, err := wire.Dial(ctx, cfg)
	if err != nil {
		return policytest.Subject{}, err
	}
	m, err := client.CreateModel(ctx, wire.ModelConfig{Base: "tiny", Once: true})
	if err != nil {
		return policytest.Subject{}, err
	}
	sampler, err := tinker.New(client, tinker.Config{Vocabulary: vocabulary, Positions: 64})
	if err != nil {
		return policytest.Subject{}, err
	}
	s := publishing{sampler, m}
	if err := s.TakeWeights(ctx, policy.Weights{}); err != nil {
		return policytest.Subject{}, err
	}
	score := func(ctx context.Context, prompt, tokens []int32) ([]float32, error) {
		row := lm.Sequence{Tokens: append(slices.Clone(prompt), tokens...)}
		for i := range tokens {
			row.Targets = append(row.Targets, int32(len(prompt)+i))
		}
		out := [][]float32{make([]float32, len(tokens))}
		err := model.LogProbs(ctx, []lm.Sequence{row}, 1, out, nil)
		return out[0], err
	}
	return policytest.Subject{Sampler: s, Prompts: policytest.RandomPrompts(8, vocabulary), Stop: [][]int32{{3}, {4, 5}},
		Repeatable: true, Score: score, Tolerance: 1e-6, Close: client.Close}, nil
}

func serve(t *testing.T, cfg tinkertest.Config) *tinkertest.Server {
	t.Helper()
	model, err := base()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Base, cfg.Name = model, "tiny"
	s := tinkertest.NewServer(cfg)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	server := serve(t, tinkertest.Config{})
	policytest.Run(t, func() (policytest.Subject, error) { return subject(server, wire.Config{}) })
}

// The same over a real network, with a key.
func TestConformanceOverTheNetwork(t *testing.T) {
	server := serve(t, tinkertest.Config{Key: "k"})
	network := httptest.NewServer(server)
	t.Cleanup(network.Close)
	policytest.Run(t, func() (policytest.Subject, error) {
		return subject(server, wire.Config{URL: network.URL + "/", Key: "k"})
	})
}

// What goes wrong and passes does not show in the answers.
func TestConformanceOfAFaultyServer(t *testing.T) {
	for _, fault := range []tinkertest.Fault{tinkertest.Refused, tinkertest.Killed, tinkertest.HalfBody, tinkertest.CutShort, tinkertest.Busy, tinkertest.Timeout, tinkertest.Broken, tinkertest.Page, tinkertest.Gone, tinkertest.TryAgain, tinkertest.Endless} {
		t.Run(string(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := serve(t, tinkertest.Config{Fault: func(path string, call int) tinkertest.Fault {
					if (path == "asample" && fault != tinkertest.Gone || path == "retrieve_future") && call%4 == 3 {
						return fault
					}
					return tinkertest.None
				}})
				if err := policytest.Check(func() (policytest.Subject, error) {
					return subject(server, wire.Config{Request: 2 * time.Second}) // within what Close waits for
				}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Answers that are not what was asked for are errors.
func TestSpoiledAnswers(t *testing.T) {
	t.Parallel()
	for _, fault := range []tinkertest.Fault{
		tinkertest.NullLogProbs, tinkertest.SpelledNaN, tinkertest.BareNaN, tinkertest.FewerRows, tinkertest.MoreTokens, tinkertest.ForeignToken, tinkertest.UnknownReason, tinkertest.DiskFull,
	} {
		var on atomic.Bool
		server := serve(t, tinkertest.Config{Fault: func(path string, _ int) tinkertest.Fault {
			if on.Load() && path == "retrieve_future" {
				return fault
			}
			return tinkertest.None
		}})
		s, err := subject(server, wire.Config{})
		if err != nil {
			t.Fatal(err)
		}
		on.Store(true)
		if c, err := s.Sampler.Sample(context.Background(), policy.Request{Prompt: []int32{1}, MaxTokens: 4, Temperature: 1}); err == nil || policy.IsTransient(err) {
			t.Errorf("%s: %+v, %v", fault, c, err)
		}
		on.Store(false)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		server := serve(t, tinkertest.Config{})
		client, err := wire.Dial(ctx, wire.Config{URL: "http://server", Transport: server.Transport()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		model, err := client.CreateModel(ctx, wire.ModelConfig{Base: "tiny", Once: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := tinker.New(client, tinker.Config{Vocabulary: vocabulary, Positions: 64})
		if err != nil {
			t.Fatal(err)
		}
		request := policy.Request{Prompt: []int32{1, 2}, MaxTokens: 3, Temperature: 1}
		if _, err := s.Sample(ctx, request); err == nil || !strings.Contains(err.Error(), "no weights yet") {
			t.Errorf("without weights: %v", err)
		}
		location := func() string {
			id, err := model.SaveForSampler(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		first := location()
		for _, step := range []struct {
			weights policy.Weights
			want    string
		}{
			{policy.Weights{Version: 2}, "without a location"},
			{policy.Weights{Version: 2, Location: first}, ""},
			{policy.Weights{Version: 2, Location: first}, ""},
			{policy.Weights{Version: 3, Location: first}, "is of version 2"},
			{policy.Weights{Version: 1, Location: location()}, "want them to rise"},
			{policy.Weights{Version: 3, Location: location()}, ""},
			{policy.Weights{Version: 2, Location: first}, "want them to rise"},
		} {
			if err := s.TakeWeights(ctx, step.weights); step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
				t.Errorf("%+v: error %v, want %q", step.weights, err, step.want)
			}
		}
		c, err := s.Sample(ctx, request)
		if err != nil || c.FirstVersion != 3 || c.LogProbs == nil {
			t.Errorf("sampled %+v: %v", c, err)
		}
		request.Temperature = 0.5
		if c, err := s.Sample(ctx, request); err != nil || c.LogProbs != nil {
			t.Errorf("log-probs %v of temperature 0.5, which servers do not give: %v", c.LogProbs, err)
		}
	})
}

// New weights wait for the requests in flight, and requests for the new weights; an
// interrupt ends both waits, and a wait for an answer, at once.
func TestWeightsWaitForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var on atomic.Bool
		server := serve(t, tinkertest.Config{Fault: func(path string, _ int) tinkertest.Fault {
			if on.Load() && path == "retrieve_future" {
				return tinkertest.TryAgain
			}
			return tinkertest.None
		}})
		subject, err := subject(server, wire.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := subject.Sampler.(publishing)
		location, err := s.model.SaveForSampler(ctx)
		if err != nil {
			t.Fatal(err)
		}
		on.Store(true)
		request := policy.Request{Prompt: []int32{1, 2}, MaxTokens: 3, Temperature: 1}
		type answer struct {
			policy.Completion
			error
		}
		ask := func(ctx context.Context) chan answer {
			done := make(chan answer, 1)
			go func() {
				c, err := s.Sample(ctx, request)
				done <- answer{c, err}
			}()
			return done
		}
		before := ask(ctx)
		interrupted, cancel := context.WithCancelCause(ctx)
		doomed := ask(interrupted)
		time.Sleep(time.Minute)
		taking, taken := context.WithCancelCause(ctx)
		go time.AfterFunc(time.Minute, func() { taken(errors.New("enough")) })
		if err := s.Sampler.TakeWeights(taking, policy.Weights{Version: 1, Location: location}); err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("error %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Sampler.TakeWeights(ctx, policy.Weights{Version: 1, Location: location}) }()
		synctest.Wait()
		after := ask(ctx)
		late := ask(interrupted)
		synctest.Wait()
		cancel(errors.New("stop"))
		synctest.Wait() // at once: no time has passed
		for _, c := range []chan answer{doomed, late} {
			select {
			case a := <-c:
				if a.error == nil || !strings.Contains(a.error.Error(), "stop") {
					t.Errorf("interrupted: %v", a.error)
				}
			default:
				t.Error("an interrupted request waits on")
			}
		}
		on.Store(false)
		if a := <-before; a.error != nil || a.LastVersion != 0 {
			t.Errorf("before: %+v", a)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if a := <-after; a.error != nil || a.FirstVersion != 1 {
			t.Errorf("after: %+v", a)
		}
		if err := subject.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSeedsFitEveryServer(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	for _, seed := range []uint64{0, 1, 2, 1 << 31, 1 << 32, 1<<63 + 5, ^uint64(0)} {
		got := tinker.Seed(seed)
		if got < 0 || got >= 1<<31 {
			t.Errorf("seed %d: %d", seed, got)
		}
		seen[got] = true
	}
	if len(seen) < 5 {
		t.Errorf("seeds fall together: %v", seen)
	}
}
