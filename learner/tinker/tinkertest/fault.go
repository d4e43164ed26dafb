package tinkertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
)

// Fault is what goes wrong with a request.
type Fault string

// The faults.
const (
	None     Fault = ""
	Refused  Fault = "refused"   // the connection breaks before the request is read
	Killed   Fault = "killed"    // it breaks after the server has done what was asked
	HalfBody Fault = "half body" // it breaks within the answer
	Busy     Fault = "429"
	Timeout  Fault = "408"
	Broken   Fault = "500"
	Gone     Fault = "410" // of a poll: the server has forgotten the number
	TryAgain Fault = "try_again"
	Endless  Fault = "endless" // no answer, until the client hangs up
	// NullLogProbs and FewerRows spoil a result.
	NullLogProbs Fault = "null log-probs"
	FewerRows    Fault = "fewer rows"
)

// before answers in place of the server.
func (f Fault) before(w http.ResponseWriter, r *http.Request) bool {
	status := 0
	switch f {
	case Refused:
		panic(http.ErrAbortHandler)
	case Endless:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Busy:
		status = http.StatusTooManyRequests
	case Timeout:
		status = http.StatusRequestTimeout
	case Broken:
		status = http.StatusInternalServerError
	default:
		return false
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"detail":"fault %s"}`, f)
	return true
}

// after breaks the connection where the work is done.
func (f Fault) after() {
	if f == Killed {
		panic(http.ErrAbortHandler)
	}
}

// spoil changes a result.
func (f Fault) spoil(result map[string]any) map[string]any {
	if f != NullLogProbs && f != FewerRows {
		return result
	}
	result = maps.Clone(result)
	if rows, ok := result["loss_fn_outputs"].([]map[string]any); ok {
		if f == FewerRows {
			result["loss_fn_outputs"] = rows[:len(rows)-1]
			return result
		}
		var nulled []map[string]any
		for _, row := range rows {
			row = maps.Clone(row)
			for _, name := range []string{"logprobs", "values"} {
				if data, ok := row[name].(map[string]any); ok {
					data = maps.Clone(data)
					data["data"] = make([]*float32, len(data["data"].([]float32)))
					row[name] = data
				}
			}
			nulled = append(nulled, row)
		}
		result["loss_fn_outputs"] = nulled
	}
	if sequences, ok := result["sequences"].([]map[string]any); ok {
		if f == FewerRows {
			result["sequences"] = sequences[:len(sequences)-1]
			return result
		}
		var nulled []map[string]any
		for _, s := range sequences {
			s = maps.Clone(s)
			s["logprobs"] = make([]*float32, len(s["logprobs"].([]float32)))
			nulled = append(nulled, s)
		}
		result["sequences"] = nulled
	}
	return result
}

// Transport carries requests to the server without a network. A connection that the
// server breaks is an error, within a body too.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ server *Server }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	type outcome struct {
		recorder *httptest.ResponseRecorder
		broken   bool
	}
	done := make(chan outcome, 1)
	go func() { // its owner waits for it, or has cancelled its context, which ends it
		o := outcome{recorder: httptest.NewRecorder()}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				o.broken = true
			}
			done <- o
		}()
		t.server.ServeHTTP(o.recorder, r)
	}()
	select {
	case o := <-done:
		if o.broken && o.recorder.Body.Len() == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		response := o.recorder.Result()
		if o.broken {
			response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(o.recorder.Body.Bytes()), failing{}))
		}
		return response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// failing is where a connection broke.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
