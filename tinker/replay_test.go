package tinker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recording holds real exchanges of the published client with a real server.
const recording = "../../shared/peers/tinker_wire.jsonl"

type exchange struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Req    json.RawMessage `json:"req"`
	Status int             `json:"status"`
	Resp   json.RawMessage `json:"resp"`
}

func recorded(t *testing.T) []exchange {
	t.Helper()
	file, err := os.Open(recording)
	if err != nil {
		t.Skip("no recorded exchanges beside the checkout")
	}
	defer file.Close()
	var list []exchange
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e exchange
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(list) < 40 {
		t.Fatalf("%d exchanges: want those of a full cycle", len(list))
	}
	return list
}

// replay answers as the recorded server did, and holds that the requests are the
// recorded ones.
type replay struct {
	mu         sync.Mutex
	rest       []exchange
	heartbeats int
	failed     []string
}

func (r *replay) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var body []byte
	if request.Body != nil {
		body, _ = io.ReadAll(request.Body)
	}
	if strings.HasSuffix(request.URL.Path, "/unload_model") { // of Close, not recorded
		return answer(200, `{"request_id":"unload"}`), nil
	}
	if bytes.Contains(body, []byte(`"request_id":"unload"`)) {
		return answer(200, `{"model_id":"model_e043c427","type":"unload_model"}`), nil
	}
	k := 0
	if strings.HasSuffix(request.URL.Path, "/session_heartbeat") {
		if r.heartbeats++; r.heartbeats == 1 { // at once: the published client waits
			return answer(200, `{"type":"session_heartbeat"}`), nil
		}
		for k < len(r.rest) && r.rest[k].Path != request.URL.Path {
			k++
		}
	}
	if k == len(r.rest) {
		return nil, fmt.Errorf("%s: no exchange is left", request.URL.Path)
	}
	e := r.rest[k]
	if k > 0 || strings.HasSuffix(e.Path, "/session_heartbeat") { // heartbeats come when they come
		if r.rest = append(r.rest[:k:k], r.rest[k+1:]...); !strings.HasSuffix(request.URL.Path, "/session_heartbeat") {
			return nil, fmt.Errorf("%s instead of a heartbeat", request.URL.Path)
		}
	} else {
		r.rest = r.rest[1:]
	}
	if request.Method != e.Method || request.URL.Path != e.Path {
		r.failed = append(r.failed, fmt.Sprintf("%s %s: want %s %s", request.Method, request.URL.Path, e.Method, e.Path))
	} else if got, want := generic(body), generic(e.Req); !reflect.DeepEqual(got, want) {
		r.failed = append(r.failed, fmt.Sprintf("%s: request\n%.600s\nwant\n%.600s", e.Path, body, e.Req))
	}
	return answer(e.Status, string(e.Resp)), nil
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// generic is JSON as values that can be compared, reals as float32.
func generic(text []byte) any {
	var v any
	if len(text) == 0 || json.Unmarshal(text, &v) != nil {
		return nil
	}
	return rounded(v)
}

func rounded(v any) any {
	switch v := v.(type) {
	case float64:
		return float32(v)
	case []any:
		for i := range v {
			v[i] = rounded(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = rounded(v[k])
		}
	}
	return v
}

// recordedLoss is the loss of a recorded request, read by types of the test's own.
func recordedLoss(t *testing.T, raw json.RawMessage) Loss {
	t.Helper()
	var recorded struct {
		Data []struct {
			Inputs map[string]struct {
				Data  []float32 `json:"data"`
				Dtype string    `json:"dtype"`
			} `json:"loss_fn_inputs"`
			Model struct {
				Chunks []struct {
					Tokens []int32 `json:"tokens"`
				} `json:"chunks"`
			} `json:"model_input"`
		} `json:"data"`
		Loss   string             `json:"loss_fn"`
		Config map[string]float64 `json:"loss_fn_config"`
	}
	if err := json.Unmarshal(raw, &recorded); err != nil {
		t.Fatal(err)
	}
	loss := Loss{Name: recorded.Loss, Config: recorded.Config}
	for _, d := range recorded.Data {
		datum := Datum{Model: Text(d.Model.Chunks[0].Tokens), Inputs: map[string]Tensor{}}
		for name, column := range d.Inputs {
			if column.Dtype == "int64" {
				ids := make([]int32, len(column.Data))
				for i, x := range column.Data {
					ids[i] = int32(x)
				}
				datum.Inputs[name] = Ints(ids)
				continue
			}
			datum.Inputs[name] = Floats(column.Data)
		}
		loss.Data = append(loss.Data, datum)
	}
	return loss
}

// The client makes the requests of the published client, and reads every answer of the
// real server.
func TestRecordedExchanges(t *testing.T) {
	list := recorded(t)
	r := &replay{}
	for _, e := range list {
		if !strings.HasSuffix(e.Path, "/telemetry") && !strings.HasSuffix(e.Path, "/config") { // which we do not send
			r.rest = append(r.rest, e)
		}
	}
	r.rest[0], r.rest[1] = r.rest[1], r.rest[0] // the published client lists the models before it opens the session
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c, err := Dial(ctx, Config{URL: "http://server", Key: "k", Transport: r})
		if err != nil {
			t.Fatal(err)
		}
		capabilities, err := c.Capabilities(ctx)
		if err != nil || len(capabilities.SupportedModels) != 1 || capabilities.SupportedModels[0].ModelName != "MODEL_DIR" {
			t.Fatalf("capabilities %+v: %v", capabilities, err)
		}
		m, err := c.CreateModel(ctx, ModelConfig{Base: "MODEL_DIR", LoRA: LoRA{Rank: 8, Seed: 1, TrainUnembed: true, TrainMLP: true, TrainAttn: true}})
		if err != nil {
			t.Fatal(err)
		}
		var session *SamplingSession
		heartbeats := 0
		for _, e := range list {
			var body map[string]json.RawMessage
			if err := json.Unmarshal(e.Req, &body); err != nil {
				t.Fatal(err)
			}
			switch strings.TrimPrefix(e.Path, "/api/v1/") {
			case "session_heartbeat":
				heartbeats++
				time.Sleep(10 * time.Second)
				synctest.Wait()
			case "save_weights_for_sampler":
				id, err := m.SaveForSampler(ctx)
				if err != nil || !strings.HasPrefix(id, "sampling_") {
					t.Fatalf("session %q: %v", id, err)
				}
				session = c.SamplingSession(id)
			case "asample":
				s, err := session.Sample(ctx, []int32{50, 43, 50, 61}, 2, SamplingParams{MaxTokens: 12, Seed: 7, Stop: []int32{256}, Temperature: 1, TopK: -1, TopP: 1}, true)
				if err != nil {
					t.Fatal(err)
				}
				if len(s.PromptLogProbs) != 3 || len(s.Sequences[1].Tokens) != 12 || len(s.Sequences[1].LogProbs) != 12 || s.Sequences[0].StopReason != StopReasonLength {
					t.Errorf("sampled %+v", s)
				}
			case "forward":
				out, err := m.Forward(ctx, recordedLoss(t, body["forward_input"]))
				check(t, out, err)
			case "forward_backward":
				out, err := m.ForwardBackward(ctx, recordedLoss(t, body["forward_backward_input"]))
				check(t, out, err)
			case "optim_step":
				out, err := m.Step(ctx, Adam{LearningRate: 0.01, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8})
				if err != nil || !(out.Metrics["skyrl.ai/grad_norm"] > 0) {
					t.Errorf("step %+v: %v", out, err)
				}
			case "save_weights":
				path, err := m.Save(ctx, "step1")
				if err != nil || path != "tinker://model_e043c427/weights/step1" {
					t.Errorf("path %q: %v", path, err)
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if r.heartbeats != 1+heartbeats || heartbeats == 0 {
			t.Errorf("%d signs of life: want one at once, and %d", r.heartbeats, heartbeats)
		}
	})
	for _, f := range r.failed {
		t.Error(f)
	}
	if len(r.rest) != 0 {
		t.Errorf("%d exchanges are left, the first %s", len(r.rest), r.rest[0].Path)
	}
}

func check(t *testing.T, out Output, err error) {
	t.Helper()
	if err != nil || len(out.Rows) != 2 || len(out.Rows[1][LogProbs].Data) != 15 || out.Rows[0][LogProbs].Data[14] == nil {
		t.Fatalf("output of %d rows: %v", len(out.Rows), err)
	}
}

// Whoever waits in vain hears why the last try failed.
func TestTheLastTryIsTold(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "starting up", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	patience := errors.New("out of patience")
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		defer time.AfterFunc(100*time.Millisecond, func() { cancel(patience) })
		return http.DefaultTransport.RoundTrip(r)
	})
	if _, err := Dial(ctx, Config{URL: server.URL, Transport: transport}); !errors.Is(err, patience) || !strings.Contains(err.Error(), "starting up") {
		t.Errorf("error %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
