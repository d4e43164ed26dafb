// Package sampler is an example of an own policy.Sampler: a client of a model server that
// speaks OpenAI's /v1/completions with token ids, in the form that vLLM gives it.
//
// Text never crosses the wire: the learner has to see the very tokens that were sampled,
// and a tokenizer does not give those back.
package sampler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	"github.com/infinirl/infinirl/policy"
)

// Config says where a model server is, and what it is like.
type Config struct {
	// URL is its address, without /v1; Model the name it serves the model under.
	URL, Model string
	// ProcessedLogProbs says that it was started with --logprobs-mode processed_logprobs:
	// its log-probs are those after the temperature. Otherwise they are the model's own,
	// which are what Completion wants at temperature 1 and under greedy decoding alone.
	ProcessedLogProbs bool
	// Client makes the requests; nil: http.DefaultClient, which waits as long as the context.
	Client *http.Client
}

// Server is a model server.
type Server struct {
	Config
	version atomic.Int64 // of its weights
}

// New returns a server. An address that can never work is told here, so that every error
// of a connection may be one that passes.
func New(cfg Config) (*Server, error) {
	address, err := url.Parse(cfg.URL)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("URL: %q: want http://HOST:PORT", cfg.URL)
	}
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	return &Server{Config: cfg}, nil
}

var (
	_ policy.Sampler     = (*Server)(nil)
	_ policy.WeightTaker = (*Server)(nil)
)

// request asks for ids. What a model's generation_config.json would set is set here, so
// that tokens are drawn from the model's whole distribution and end where Stop says.
type request struct {
	Model            string  `json:"model"`
	Prompt           []int32 `json:"prompt"`
	MaxTokens        int     `json:"max_tokens"`
	StopTokenIDs     []int32 `json:"stop_token_ids"`
	IgnoreEOS        bool    `json:"ignore_eos"` // the end token is one of Stop, or none
	Temperature      float64 `json:"temperature"`
	TopP             float64 `json:"top_p"`
	TopK             int     `json:"top_k"` // -1: all
	MinP             float64 `json:"min_p"`
	Repetition       float64 `json:"repetition_penalty"`
	Seed             int64   `json:"seed"`
	LogProbs         int     `json:"logprobs"` // 0: of the sampled tokens alone
	ReturnTokenIDs   bool    `json:"return_token_ids"`
	AddSpecialTokens bool    `json:"add_special_tokens"`
}

type answer struct {
	Choices []struct {
		TokenIDs       []int32 `json:"token_ids"`
		PromptTokenIDs []int32 `json:"prompt_token_ids"`
		FinishReason   string  `json:"finish_reason"`
		LogProbs       struct {
			TokenLogProbs []*float32 `json:"token_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
}

// Sample asks once. Who wants to ask again uses policy.Retry, as the rollout does.
func (s *Server) Sample(ctx context.Context, r policy.Request) (policy.Completion, error) {
	ask := request{Model: s.Model, Prompt: r.Prompt, MaxTokens: r.MaxTokens, IgnoreEOS: true, Temperature: r.Temperature, TopP: 1, TopK: -1,
		Repetition: 1, Seed: int64(r.Seed & math.MaxInt64), ReturnTokenIDs: true}
	switch {
	case len(r.Prompt) == 0 || slices.Min(r.Prompt) < 0:
		return policy.Completion{}, fmt.Errorf("prompt: %v: want ids of 0 or more, at least one", r.Prompt)
	case r.MaxTokens < 1:
		return policy.Completion{}, fmt.Errorf("max tokens: %d: want 1 or more", r.MaxTokens)
	}
	for _, stop := range r.Stop {
		if len(stop) != 1 { // as text it could end a completion inside a token
			return policy.Completion{}, fmt.Errorf("stop: %v: this server ends completions at single ids alone", stop)
		}
		ask.StopTokenIDs = append(ask.StopTokenIDs, stop[0])
	}
	c := policy.Completion{FirstVersion: s.version.Load()}
	var got answer
	if err := s.post(ctx, "/v1/completions", ask, &got); err != nil {
		return policy.Completion{}, err
	}
	c.LastVersion = s.version.Load() // it may have changed meanwhile
	if err := s.read(r, got, &c); err != nil {
		return policy.Completion{}, fmt.Errorf("%s/v1/completions: %w", s.URL, err)
	}
	return c, nil
}

// read fills in the completion. What it cannot be sure of is an error, or, for
// log-probs, nil: training goes on with the learner's own then.
func (s *Server) read(r policy.Request, got answer, c *policy.Completion) error {
	if len(got.Choices) != 1 {
		return fmt.Errorf("%d choices: want one", len(got.Choices))
	}
	choice := got.Choices[0]
	c.Tokens, c.FinishReason = choice.TokenIDs, policy.FinishReason(choice.FinishReason)
	aborted := c.FinishReason == policy.FinishAbort // before the first token, perhaps
	switch {
	case !aborted && c.FinishReason != policy.FinishStop && c.FinishReason != policy.FinishLength:
		return fmt.Errorf("finish_reason: %q: want stop, length or abort", choice.FinishReason)
	case len(c.Tokens) > r.MaxTokens || len(c.Tokens) == 0 && !aborted:
		return fmt.Errorf("token_ids: %d: want 1 to %d: does the server know return_token_ids?", len(c.Tokens), r.MaxTokens)
	case choice.PromptTokenIDs != nil && !slices.Equal(choice.PromptTokenIDs, r.Prompt):
		return fmt.Errorf("prompt_token_ids: the server read %d ids, sent were %d others", len(choice.PromptTokenIDs), len(r.Prompt))
	}
	known := choice.LogProbs.TokenLogProbs
	switch {
	case len(known) != len(c.Tokens) || slices.Contains(known, nil):
		return nil
	case !s.ProcessedLogProbs && r.Temperature != 0 && r.Temperature != 1:
		return nil
	}
	for _, p := range known {
		c.LogProbs = append(c.LogProbs, *p)
	}
	return nil
}

// TakeWeights has the server read weights that a learner has published on a disk that
// both see. It must run in vLLM's development mode (VLLM_SERVER_DEV_MODE=1). What was
// being sampled ends as aborted, and requests that come meanwhile wait.
func (s *Server) TakeWeights(ctx context.Context, w policy.Weights) (err error) {
	if w.Location == "" {
		return errors.New("weights: no location: want a learner that publishes a folder")
	}
	if err := s.post(ctx, "/pause?mode=abort", nil, nil); err != nil {
		return err
	}
	defer func() { // also after an error, or whoever waits does so for ever
		err = errors.Join(err, s.post(context.WithoutCancel(ctx), "/resume", nil, nil))
	}()
	reload := map[string]any{"method": "reload_weights", "kwargs": map[string]string{"weights_path": w.Location}}
	if err := s.post(ctx, "/collective_rpc", reload, nil); err != nil {
		return err
	}
	// The prefix cache holds keys and values of the old weights.
	if err := s.post(ctx, "/reset_prefix_cache", nil, nil); err != nil {
		return err
	}
	s.version.Store(w.Version)
	return nil
}

// post sends JSON and reads JSON. Errors that may pass are marked: a connection that
// broke, a server that is busy or being restarted.
func (s *Server) post(ctx context.Context, path string, ask, into any) error {
	text, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.Client.Do(r)
	if err != nil {
		return passing(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return passing(ctx, fmt.Errorf("%s%s: %w", s.URL, path, err))
	}
	if response.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s%s: %s: %.300s", s.URL, path, response.Status, body)
		if code := response.StatusCode; code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500 {
			return policy.Transient(err)
		}
		return err
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s%s: the answer: %w", s.URL, path, err)
	}
	return nil
}

// passing marks an error of the connection, unless it was the caller who gave up.
func passing(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return policy.Transient(err)
}
