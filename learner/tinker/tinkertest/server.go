// Package tinkertest is a Tinker server for tests: real training and sampling by the
// embedded engine, behind the protocol, with the faults that servers have.
//
// It does what real servers do, also where that is careless: lengths and ids are not
// checked, a column that is missing counts as zeros, and a token outside the vocabulary
// gives null log-probs.
package tinkertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/infinirl/infinirl/lm"
)

// Config is a server's.
type Config struct {
	// Base is the base model, known as Name.
	Base *lm.Model
	Name string
	// RowMean tells that losses are reduced as by SkyRL on JAX: each row's
	// Σ w·ℓ / Σ w, then the mean over all rows since the last optimizer step. False: the
	// sum over tokens, as by the hosted service.
	RowMean bool
	// Twice tells that an operation that is submitted twice is done twice, whatever its
	// number, as by SkyRL.
	Twice bool
	// Key is the one that clients must have; "": any.
	Key string
	// Hold is how long a poll is held before it is told to try again; 0: 5 s.
	Hold time.Duration
	// Fault, if not nil, chooses what goes wrong with a request: the call-th, from 0, of
	// a path without its /api/v1/.
	Fault func(path string, call int) Fault
}

// Server is an http.Handler. Close ends what it has started.
type Server struct {
	cfg    Config
	ctx    context.Context // of everything that runs
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	turned   sync.Cond // a model's next operation, or the end
	calls    map[string]int
	requests int // numbers given to operations
	names    int
	sessions map[string]bool
	models   map[string]*model
	samplers map[string]*sampling
	pending  map[string]*operation // by request_id
	taken    map[string]*operation // by what makes a request unique
	saved    map[string]saved      // by tinker:// path; they outlive a restart
	steps    int
	down     bool
}

// NewServer starts a server.
func NewServer(cfg Config) *Server {
	if cfg.Hold == 0 {
		cfg.Hold = 5 * time.Second
	}
	s := &Server{cfg: cfg, calls: map[string]int{}, saved: map[string]saved{}}
	s.turned.L = &s.mu
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.forget()
	return s
}

// forget drops what a server holds in memory. It needs s.mu but at the start.
func (s *Server) forget() {
	s.sessions, s.models, s.samplers = map[string]bool{}, map[string]*model{}, map[string]*sampling{}
	s.pending, s.taken = map[string]*operation{}, map[string]*operation{}
}

// Restart is a server that was killed and started again: what was saved is there,
// sessions, models and operations are not.
func (s *Server) Restart() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.down = false
}

// end stops what runs and waits for it.
func (s *Server) end() {
	s.cancel()
	s.mu.Lock()
	s.down = true
	s.turned.Broadcast()
	samplers := s.samplers
	s.mu.Unlock()
	s.work.Wait()
	for _, sampler := range samplers {
		sampler.Close()
	}
}

// Close ends what the server has started.
func (s *Server) Close() error {
	s.end()
	return nil
}

// Steps counts the optimizer steps of all models.
func (s *Server) Steps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// Models is the number of models that are loaded.
func (s *Server) Models() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.models)
}

// Calls is the number of requests of a path so far.
func (s *Server) Calls(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

// operation is one that was submitted.
type operation struct {
	path string
	body []byte
	done chan struct{} // closed when what follows is final
	// result, or the reason why there is none.
	result map[string]any
	failed error
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	fault := None
	if s.cfg.Fault != nil {
		fault = s.cfg.Fault(path, s.calls[path])
	}
	s.calls[path]++
	s.mu.Unlock()
	if fault.before(w, r) {
		return
	}
	status, answer := http.StatusUnauthorized, any(map[string]any{"detail": "Invalid API key"})
	if s.cfg.Key == "" || r.Header.Get("X-API-Key") == s.cfg.Key {
		status, answer = s.answer(r.Context(), path, body, fault)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err) // of this package
	}
	fault.after()
	text = fault.text(text)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(status)
	if fault == HalfBody {
		text = text[:len(text)/2]
	}
	w.Write(text) // a client that has gone is no error
	if fault == HalfBody {
		panic(http.ErrAbortHandler)
	}
}

func refused(status int, format string, args ...any) (int, any) {
	return status, map[string]any{"detail": fmt.Sprintf(format, args...)}
}

// answer is the protocol: what is answered at once, polls, and what is submitted.
func (s *Server) answer(ctx context.Context, path string, body []byte, fault Fault) (int, any) {
	if path == "get_server_capabilities" {
		return http.StatusOK, map[string]any{"supported_models": []any{map[string]any{"model_name": s.cfg.Name, "max_context_length": s.cfg.Base.Config().MaxPositionEmbeddings}}}
	}
	switch path { // of the published client
	case "client/config":
		return http.StatusOK, map[string]any{"pjwt_auth_enabled": false}
	case "telemetry":
		return http.StatusOK, map[string]any{"status": "accepted"}
	}
	var head struct {
		SessionID         string `json:"session_id"`
		ModelSeqID        *int   `json:"model_seq_id"`
		ModelID           string `json:"model_id"`
		SamplingSessionID string `json:"sampling_session_id"`
		SeqID             *int   `json:"seq_id"`
		RequestID         string `json:"request_id"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return refused(http.StatusUnprocessableEntity, "%v", err)
	}
	if path == "retrieve_future" {
		return s.poll(ctx, head.RequestID, fault)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		panic(http.ErrAbortHandler)
	}
	switch path {
	case "create_session":
		s.names++
		id := fmt.Sprintf("session_%d", s.names)
		s.sessions[id] = true
		return http.StatusOK, map[string]any{"type": path, "session_id": id}
	case "session_heartbeat":
		if !s.sessions[head.SessionID] {
			return refused(http.StatusNotFound, "no session %s", head.SessionID)
		}
		return http.StatusOK, map[string]any{"type": path}
	}
	key := ""
	switch {
	case path == "create_model" && head.ModelSeqID != nil:
		if !s.sessions[head.SessionID] {
			return refused(http.StatusNotFound, "no session %s", head.SessionID)
		}
		key = fmt.Sprintf("model %s %d", head.SessionID, *head.ModelSeqID)
	case path == "unload_model":
	case path == "asample" && head.SeqID != nil:
		if s.samplers[head.SamplingSessionID] == nil {
			return refused(http.StatusNotFound, "no sampling session %s", head.SamplingSessionID)
		}
		key = fmt.Sprintf("sample %s %d", head.SamplingSessionID, *head.SeqID)
	case head.ModelID != "" && head.SeqID != nil:
		m := s.models[head.ModelID]
		if m == nil {
			return refused(http.StatusNotFound, "no model %s", head.ModelID)
		}
		key = fmt.Sprintf("op %s %d", head.ModelID, *head.SeqID)
	default:
		return refused(http.StatusNotFound, "%s: not found", path)
	}
	o := s.taken[key]
	var m *model
	seq := 0
	if strings.HasPrefix(key, "op ") {
		m, seq = s.models[head.ModelID], *head.SeqID
		if s.cfg.Twice { // in the order in which they come
			o, seq = nil, m.came
			m.came++
		}
	}
	switch {
	case o == nil:
		o = &operation{path: path, body: body, done: make(chan struct{})}
		if key != "" {
			s.taken[key] = o
		}
		running := s.ctx
		s.work.Go(func() { s.run(running, o, m, seq) })
	case !bytes.Equal(o.body, body) || o.path != path:
		return refused(http.StatusConflict, "seq_id was used with another body")
	}
	s.requests++
	id := fmt.Sprint(s.requests)
	s.pending[id] = o
	return http.StatusOK, map[string]any{"future_id": id, "status": "pending", "request_id": id}
}

// run takes an operation through when it is its turn.
func (s *Server) run(ctx context.Context, o *operation, m *model, seq int) {
	defer close(o.done)
	if m != nil {
		s.mu.Lock()
		for m.next != seq && ctx.Err() == nil {
			s.turned.Wait()
		}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			m.next++
			s.turned.Broadcast()
			s.mu.Unlock()
		}()
	}
	if ctx.Err() != nil {
		o.failed = ctx.Err()
		return
	}
	o.result, o.failed = s.execute(ctx, o.path, o.body, m)
}

// poll holds a request until its operation has ended.
func (s *Server) poll(ctx context.Context, id string, fault Fault) (int, any) {
	s.mu.Lock()
	o := s.pending[id]
	if fault == Gone {
		delete(s.pending, id)
		o = nil
	}
	running := s.ctx
	s.mu.Unlock()
	tryAgain := map[string]any{"type": "try_again", "request_id": id, "queue_state": "active"}
	switch {
	case fault == Gone:
		return refused(http.StatusGone, "the request has expired")
	case o == nil:
		return refused(http.StatusNotFound, "no request %s", id)
	case fault == TryAgain:
		return http.StatusOK, tryAgain
	}
	timer := time.NewTimer(s.cfg.Hold)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
		return http.StatusOK, tryAgain
	case <-running.Done():
		panic(http.ErrAbortHandler)
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	}
	if running.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if fault == DiskFull {
		return refused(http.StatusBadRequest, "[Errno 28] No space left on device: '/checkpoints'")
	}
	if o.failed != nil {
		return refused(http.StatusBadRequest, "%v", o.failed)
	}
	return http.StatusOK, fault.spoil(o.result)
}
