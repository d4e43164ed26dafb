package sampler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/policytest"
)

const vocabulary = 23

// server answers as vLLM does, from the embedded engine. Its URL is that of the test server.
type server struct {
	*httptest.Server
	inside *lm.Sampler
	model  *lm.Model

	mu       sync.Mutex
	requests int
	calls    []string // of the development mode
	// spoil, if not nil, may answer request n in place of the server.
	spoil func(n int, w http.ResponseWriter) (answered bool)
	// change, if not nil, changes an answer.
	change func(choice map[string]any)
}

func newServer(t testing.TB) *server {
	t.Helper()
	model, err := lm.NewActor(lm.Config{VocabSize: vocabulary, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 2, NumAttentionHeads: 2,
		MaxPositionEmbeddings: 64, InitializerRange: 0.3, EmbeddingInit: 0.5}, 1)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := lm.NewSampler(model, lm.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{inside: inside, model: model}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", s.complete)
	for _, path := range []string{"/pause", "/collective_rpc", "/reset_prefix_cache", "/resume"} {
		mux.HandleFunc("POST "+path, s.develop)
	}
	s.Server = httptest.NewServer(mux)
	return s
}

func (s *server) close() error {
	s.Server.Close()
	return s.inside.Close()
}

func (s *server) complete(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	n, spoil, change := s.requests, s.spoil, s.change
	s.mu.Unlock()
	if spoil != nil && spoil(n, w) {
		return
	}
	var ask request
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&ask); err != nil || ask.Model != "tiny" || !ask.ReturnTokenIDs || !ask.IgnoreEOS || ask.TopP != 1 || ask.TopK != -1 {
		http.Error(w, fmt.Sprintf("unexpected request %+v: %v", ask, err), http.StatusBadRequest)
		return
	}
	to := policy.Request{Prompt: ask.Prompt, MaxTokens: ask.MaxTokens, Temperature: ask.Temperature, Seed: uint64(ask.Seed)}
	for _, id := range ask.StopTokenIDs {
		to.Stop = append(to.Stop, []int32{id})
	}
	c, err := s.inside.Sample(r.Context(), to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	choice := map[string]any{"token_ids": c.Tokens, "prompt_token_ids": ask.Prompt, "finish_reason": c.FinishReason,
		"logprobs": map[string]any{"token_logprobs": c.LogProbs}}
	if change != nil {
		change(choice)
	}
	json.NewEncoder(w).Encode(map[string]any{"choices": []any{choice}})
}

func (s *server) develop(_ http.ResponseWriter, r *http.Request) {
	var ask any
	_ = json.NewDecoder(r.Body).Decode(&ask)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, strings.TrimSpace(r.URL.RequestURI()+" "+fmt.Sprint(ask)))
}

func (s *server) client(t testing.TB) *Server {
	t.Helper()
	// A client of its own: connections that were broken are no other test's.
	sampler, err := New(Config{URL: s.URL, Model: "tiny", Client: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return sampler
}

// located gives the weights of the conformance suite, which knows no disk, a place.
type located struct{ *Server }

func (l located) TakeWeights(ctx context.Context, w policy.Weights) error {
	w.Location = "/weights/" + strconv.FormatInt(w.Version, 10)
	return l.Server.TakeWeights(ctx, w)
}

// subject is the client with its server, for the conformance suite.
func subject(t testing.TB, spoil func(n int, w http.ResponseWriter) bool) func() (policytest.Subject, error) {
	return func() (policytest.Subject, error) {
		s := newServer(t)
		s.spoil = spoil
		score := func(ctx context.Context, prompt, tokens []int32) ([]float32, error) {
			row := lm.Sequence{Tokens: append(append([]int32{}, prompt...), tokens...)}
			for i := range tokens {
				row.Targets = append(row.Targets, int32(len(prompt)+i))
			}
			out := [][]float32{make([]float32, len(tokens))}
			err := s.model.LogProbs(ctx, []lm.Sequence{row}, 1, out, nil)
			return out[0], err
		}
		return policytest.Subject{Sampler: located{s.client(t)}, Prompts: policytest.RandomPrompts(8, vocabulary), Stop: [][]int32{{3}, {4}},
			Repeatable: true, Score: score, Tolerance: 1e-5, Close: s.close}, nil
	}
}

func TestSampler(t *testing.T) {
	t.Parallel()
	policytest.Run(t, subject(t, nil))
}

// A server that is busy, breaks off before and within answers, and aborts.
func TestSamplerOfAServerThatFails(t *testing.T) {
	t.Parallel()
	policytest.Run(t, subject(t, func(n int, w http.ResponseWriter) bool {
		switch n % 31 {
		case 3:
			http.Error(w, "busy", http.StatusTooManyRequests)
		case 9:
			http.Error(w, "starting", http.StatusServiceUnavailable)
		case 14:
			panic(http.ErrAbortHandler) // the connection breaks
		case 20:
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"choices": [{"token_ids": [1, 2`)
		case 26:
			fmt.Fprint(w, `{"choices": [{"token_ids": [], "finish_reason": "abort"}]}`)
		default:
			return false
		}
		return true
	}))
}

func ask() policy.Request {
	return policy.Request{Prompt: []int32{1, 5, 2}, MaxTokens: 8, Temperature: 1, Seed: 1}
}

// What an answer does not say for sure is not believed.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	defer s.close()
	client := s.client(t)
	drop := func(key string) func(map[string]any) { return func(c map[string]any) { delete(c, key) } }
	set := func(key string, value any) func(map[string]any) { return func(c map[string]any) { c[key] = value } }
	for _, test := range []struct {
		name   string
		change func(map[string]any)
		want   string // in the error
	}{
		{"no ids", drop("token_ids"), "does the server know return_token_ids?"},
		{"too many", set("token_ids", make([]int32, 9)), "want 1 to 8"},
		{"another prompt", set("prompt_token_ids", []int32{0, 1, 5, 2}), "prompt_token_ids"},
		{"a reason of its own", set("finish_reason", "repetition"), `"repetition"`},
		{"ids as text", set("token_ids", "1 2"), "the answer"},
	} {
		s.change = test.change
		if c, err := client.Sample(context.Background(), ask()); err == nil || !strings.Contains(err.Error(), test.want) || policy.IsTransient(err) {
			t.Errorf("%s: %v, error %v, want %q, for good", test.name, c, err, test.want)
		}
	}
	for _, test := range []struct {
		name        string
		change      func(map[string]any)
		temperature float64
		processed   bool
		known       bool
	}{
		{"log-probs", nil, 1, false, true},
		{"log-probs of greedy decoding", nil, 0, false, true},
		{"log-probs before the temperature", nil, 0.7, false, false},
		{"log-probs after the temperature", nil, 0.7, true, true},
		{"no log-probs", drop("logprobs"), 1, false, false},
		{"null for log-probs", set("logprobs", nil), 1, false, false},
		{"too few", set("logprobs", map[string]any{"token_logprobs": []float64{-1}}), 1, false, false},
		{"one unknown", func(c map[string]any) {
			p := []any{nil}
			for range len(c["token_ids"].([]int32)) - 1 {
				p = append(p, -1)
			}
			c["logprobs"] = map[string]any{"token_logprobs": p}
		}, 1, false, false},
	} {
		s.change, client.ProcessedLogProbs = test.change, test.processed
		r := ask()
		r.Temperature = test.temperature
		c, err := client.Sample(context.Background(), r)
		if err != nil || len(c.Tokens) == 0 || (c.LogProbs != nil) != test.known || test.known && len(c.LogProbs) != len(c.Tokens) {
			t.Errorf("%s: %+v, error %v, want log-probs known: %v", test.name, c, err, test.known)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for code, passes := range map[int]bool{400: false, 401: false, 404: false, 408: true, 429: true, 500: true, 503: true} {
		s.spoil = func(_ int, w http.ResponseWriter) bool { http.Error(w, "because", code); return true }
		_, err := s.client(t).Sample(context.Background(), ask())
		if err == nil || policy.IsTransient(err) != passes || !strings.Contains(err.Error(), "because") {
			t.Errorf("status %d: error %v, passing %v, want %v and the server's words", code, err, policy.IsTransient(err), passes)
		}
	}
	s.spoil = nil
	r := ask()
	r.Stop = [][]int32{{1, 2}}
	if _, err := s.client(t).Sample(context.Background(), r); err == nil || policy.IsTransient(err) {
		t.Errorf("a stop sequence of two ids: error %v", err)
	}
	client := s.client(t)
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Sample(context.Background(), ask()); !policy.IsTransient(err) {
		t.Errorf("a server that is gone: error %v, want one that may pass", err)
	}
	for _, address := range []string{"", "localhost:8000", "ftp://host", "http://"} {
		if _, err := New(Config{URL: address}); err == nil {
			t.Errorf("address %q is taken", address)
		}
	}
}

// A request that is given up while the server is at it ends at once.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	defer s.close()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	free := make(chan struct{})
	s.spoil = func(int, http.ResponseWriter) bool {
		cancel(enough)
		<-free
		return true
	}
	_, err := s.client(t).Sample(ctx, ask())
	close(free)
	if !errors.Is(err, enough) || policy.IsTransient(err) {
		t.Errorf("error %v, want %v, for good", err, enough)
	}
}

func TestTakingWeights(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	defer s.close()
	client := s.client(t)
	if err := client.TakeWeights(context.Background(), policy.Weights{Version: 1}); err == nil {
		t.Error("weights without a place are taken")
	}
	if err := client.TakeWeights(context.Background(), policy.Weights{Version: 7, Location: "/w/7"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"/pause?mode=abort <nil>", "/collective_rpc map[kwargs:map[weights_path:/w/7] method:reload_weights]", "/reset_prefix_cache <nil>", "/resume <nil>"}
	if strings.Join(s.calls, "\n") != strings.Join(want, "\n") {
		t.Errorf("the server was told\n%s\nwant\n%s", strings.Join(s.calls, "\n"), strings.Join(want, "\n"))
	}
	if c, err := client.Sample(context.Background(), ask()); err != nil || c.FirstVersion != 7 {
		t.Errorf("%+v, error %v, want version 7", c, err)
	}
	// Weights that change while a completion is under way make it one of both.
	s.spoil = func(int, http.ResponseWriter) bool {
		return errors.Is(client.TakeWeights(context.Background(), policy.Weights{Version: 8, Location: "/w/8"}), errors.ErrUnsupported)
	}
	if c, err := client.Sample(context.Background(), ask()); err != nil || c.FirstVersion != 7 || c.LastVersion != 8 {
		t.Errorf("%+v, error %v, want versions 7 to 8", c, err)
	}
}

// A server that cannot read the weights samples on, and the error is told.
func TestWeightsThatFail(t *testing.T) {
	t.Parallel()
	var paused, resumed int
	mux := http.NewServeMux()
	mux.HandleFunc("/pause", func(http.ResponseWriter, *http.Request) { paused++ })
	mux.HandleFunc("/resume", func(http.ResponseWriter, *http.Request) { resumed++ })
	mux.HandleFunc("/collective_rpc", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such file", http.StatusBadRequest) })
	server := httptest.NewServer(mux)
	defer server.Close()
	client, err := New(Config{URL: server.URL, Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	err = client.TakeWeights(context.Background(), policy.Weights{Version: 7, Location: "/nowhere"})
	if err == nil || !strings.Contains(err.Error(), "no such file") || paused != 1 || resumed != 1 || client.version.Load() != 0 {
		t.Errorf("error %v, paused %d times, resumed %d times, version %d", err, paused, resumed, client.version.Load())
	}
}

// Seeds beyond what JSON readers of other languages hold exactly stay apart.
func TestSeeds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	defer s.close()
	client := s.client(t)
	r := ask()
	r.Seed = math.MaxUint64
	a, err := client.Sample(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Seed--
	b, err := client.Sample(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(a.Tokens) == fmt.Sprint(b.Tokens) {
		t.Errorf("two seeds gave %v", a.Tokens)
	}
}
