package tinkertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
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
	Page     Fault = "502"     // with the page of a proxy
	Gone     Fault = "410"     // of a poll: the server has forgotten the number
	Expired  Fault = "expired" // 410 of anything else: a session
	TryAgain Fault = "try_again"
	Endless  Fault = "endless"   // no answer, until the client hangs up
	CutShort Fault = "cut short" // half a body, as if it were the whole
	DiskFull Fault = "disk full" // of a poll: the operation has failed
	// These spoil a result.
	NullLogProbs  Fault = "null log-probs"
	SpelledNaN    Fault = "log-probs \"NaN\""
	BareNaN       Fault = "log-probs NaN" // which is no JSON
	FewerRows     Fault = "fewer rows"
	OtherOrder    Fault = "rows in another order"
	MoreTokens    Fault = "more tokens than asked for"
	ForeignToken  Fault = "a token outside the vocabulary"
	UnknownReason Fault = "an unknown stop reason"
)

// before answers in place of the server.
func (f Fault) before(w http.ResponseWriter, r *http.Request) bool {
	status, text := 0, fmt.Sprintf(`{"detail":"fault %s"}`, f)
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
	case Page:
		status, text = http.StatusBadGateway, "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>"
		w.Header().Set("Content-Type", "text/html")
	case Expired:
		status = http.StatusGone
	default:
		return false
	}
	w.WriteHeader(status)
	io.WriteString(w, text)
	return true
}

// after breaks the connection where the work is done.
func (f Fault) after() {
	if f == Killed {
		panic(http.ErrAbortHandler)
	}
}

// spoil changes a result: that of a loss, or of sampling.
func (f Fault) spoil(result map[string]any) map[string]any {
	result = maps.Clone(result)
	for _, name := range []string{"loss_fn_outputs", "sequences"} {
		if rows, ok := result[name].([]map[string]any); ok {
			result[name] = f.spoilRows(rows)
		}
	}
	return result
}

func (f Fault) spoilRows(rows []map[string]any) []map[string]any {
	switch f {
	case FewerRows:
		return rows[:len(rows)-1]
	case OtherOrder:
		rows = slices.Clone(rows)
		slices.Reverse(rows)
		return rows
	}
	var spoiled []map[string]any
	for _, row := range rows {
		row = maps.Clone(row)
		for name, column := range row {
			switch column := column.(type) {
			case map[string]any: // of a loss
				column = maps.Clone(column)
				if data, ok := column["data"].([]float32); ok && name != "elementwise_loss" {
					column["data"] = f.spoilNumbers(data)
				}
				row[name] = column
			case []float32: // log-probs of a sample
				row[name] = f.spoilNumbers(column)
			case []int32: // its tokens
				row[name] = f.spoilTokens(column)
			case string:
				if f == UnknownReason {
					row[name] = "content_filter"
				}
			}
		}
		spoiled = append(spoiled, row)
	}
	return spoiled
}

func (f Fault) spoilNumbers(data []float32) any {
	switch f {
	case NullLogProbs:
		return make([]*float32, len(data))
	case SpelledNaN:
		return slices.Repeat([]string{"NaN"}, len(data))
	case BareNaN:
		return slices.Repeat([]bareNaN{{}}, len(data))
	case MoreTokens:
		return slices.Repeat(data, 8)
	}
	return data
}

func (f Fault) spoilTokens(tokens []int32) []int32 {
	switch f {
	case MoreTokens:
		return slices.Repeat(tokens, 8)
	case ForeignToken:
		return append(slices.Clone(tokens[:len(tokens)-1]), 1<<20)
	}
	return tokens
}

// bareNaN stands for a NaN in what is marshalled: text has it as it is.
type bareNaN struct{}

const bareNaNMark = `"bare NaN"`

func (bareNaN) MarshalJSON() ([]byte, error) { return []byte(bareNaNMark), nil }

// text is a body as it is sent.
func (f Fault) text(body []byte) []byte {
	switch f {
	case BareNaN:
		return bytes.ReplaceAll(body, []byte(bareNaNMark), []byte("NaN"))
	case CutShort:
		return body[:len(body)/2]
	}
	return body
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
