package tinkertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/tinker"
)

// model is one that a client trains. The operation whose turn it is owns it.
type model struct {
	id        string
	next      int // seq_id
	came      int // operations so far, and one, where numbers do not matter
	weights   *lm.Model
	gradients *lm.Gradients
	rows      int // that the gradients are of
	optimizer *lm.AdamW
	adam      tinker.Adam // of the optimizer, once it has been used
}

// saved is what save_weights keeps.
type saved struct {
	weights   []byte
	optimizer []byte // nil: no step yet
	adam      tinker.Adam
}

// sampling samples from weights as they were.
type sampling struct {
	weights *lm.Model
	once    sync.Once
	sampler *lm.Sampler
	err     error
}

func (s *sampling) start() (*lm.Sampler, error) {
	s.once.Do(func() { s.sampler, s.err = lm.NewSampler(s.weights, lm.Options{CacheBytes: 16 << 20}) })
	return s.sampler, s.err
}

// Close ends the sampler if it was ever started.
func (s *sampling) Close() {
	s.once.Do(func() { s.err = lm.ErrClosed })
	if s.sampler != nil {
		s.sampler.Close()
	}
}

// request has the fields of all operations.
type request struct {
	ModelID         string                `json:"model_id"`
	BaseModel       string                `json:"base_model"`
	LoRA            tinker.LoRA           `json:"lora_config"`
	Role            string                `json:"model_role"`
	Forward         loss                  `json:"forward_input"`
	ForwardBackward loss                  `json:"forward_backward_input"`
	Adam            tinker.Adam           `json:"adam_params"`
	Path            string                `json:"path"`
	Optimizer       bool                  `json:"optimizer"`
	Session         string                `json:"sampling_session_id"`
	Samples         int                   `json:"num_samples"`
	Prompt          tinker.Input          `json:"prompt"`
	Params          tinker.SamplingParams `json:"sampling_params"`
	PromptLogProbs  bool                  `json:"prompt_logprobs"`
}

// execute does what was submitted.
func (s *Server) execute(ctx context.Context, path string, body []byte, m *model) (map[string]any, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	switch path {
	case "create_model":
		return s.create(&r)
	case "unload_model":
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.models[r.ModelID] == nil {
			return nil, fmt.Errorf("no model %s", r.ModelID)
		}
		delete(s.models, r.ModelID)
		return map[string]any{"type": path, "model_id": r.ModelID}, nil
	case "asample":
		return s.sample(ctx, &r)
	case "forward":
		return m.evaluate(ctx, &r.Forward, nil, s.cfg.RowMean)
	case "forward_backward":
		return m.evaluate(ctx, &r.ForwardBackward, m.gradients, s.cfg.RowMean)
	case "optim_step":
		norm, err := m.step(r.Adam)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.steps++
		s.mu.Unlock()
		return map[string]any{"metrics": map[string]float64{"test/grad_norm": norm}}, nil
	case "save_weights":
		return s.save(m, r.Path)
	case "load_weights":
		return map[string]any{"type": path, "path": r.Path}, s.load(m, r.Path, r.Optimizer)
	case "save_weights_for_sampler":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.names++
		id := fmt.Sprintf("sampling_%d", s.names)
		s.samplers[id] = &sampling{weights: m.weights.Clone()}
		return map[string]any{"type": path, "path": nil, "sampling_session_id": id}, nil
	}
	return nil, fmt.Errorf("%s: not known", path)
}

func (s *Server) create(r *request) (map[string]any, error) {
	m := &model{next: 1, came: 1, weights: s.cfg.Base.Clone()}
	m.weights.Threads = s.cfg.Base.Threads
	if r.Role == "critic" {
		var err error
		if m.weights, err = lm.NewCriticFrom(s.cfg.Base); err != nil {
			return nil, err
		}
		m.weights.Threads = s.cfg.Base.Threads
	}
	m.gradients = lm.NewGradients(m.weights)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	m.id = fmt.Sprintf("model_%d", s.names)
	s.models[m.id] = m
	return map[string]any{"model_id": m.id, "base_model": r.BaseModel, "lora_config": r.LoRA}, nil
}

// step updates the weights and clears the gradients.
func (m *model) step(adam tinker.Adam) (norm float64, err error) {
	rate := adam.LearningRate
	adam.LearningRate = 0
	if m.optimizer == nil {
		if err := m.use(adam); err != nil {
			return 0, err
		}
	}
	if adam != m.adam {
		return 0, errors.New("adam_params: they have changed since the first step")
	}
	if m.rows > 0 {
		m.gradients.Scale(1 / float32(m.rows))
	}
	norm, err = m.optimizer.Step(m.gradients, rate)
	m.gradients.Zero()
	m.rows = 0
	return norm, err
}

func (m *model) use(adam tinker.Adam) (err error) {
	m.adam = adam
	m.optimizer, err = lm.NewAdamW(m.weights, lm.AdamWConfig{Beta1: adam.Beta1, Beta2: adam.Beta2, Epsilon: adam.Epsilon, WeightDecay: adam.WeightDecay, MaxGradNorm: adam.GradClipNorm})
	return err
}

func (s *Server) save(m *model, name string) (map[string]any, error) {
	path := "tinker://" + m.id + "/weights/" + name
	kept := saved{adam: m.adam}
	var err error
	if kept.weights, err = m.weights.Marshal(); err != nil {
		return nil, err
	}
	if m.optimizer != nil {
		if kept.optimizer, err = m.optimizer.Marshal(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.saved[path]; there {
		return nil, fmt.Errorf("%s is there already", path)
	}
	s.saved[path] = kept
	return map[string]any{"type": "save_weights", "path": path}, nil
}

func (s *Server) load(m *model, path string, optimizer bool) error {
	s.mu.Lock()
	kept, there := s.saved[path]
	s.mu.Unlock()
	if !there {
		return fmt.Errorf("%s: not found", path)
	}
	weights, err := lm.Unmarshal(kept.weights)
	if err != nil {
		return err
	}
	if err := m.weights.CopyFrom(weights); err != nil {
		return err
	}
	if !optimizer || kept.optimizer == nil {
		return nil
	}
	if err := m.use(kept.adam); err != nil {
		return err
	}
	return m.optimizer.Unmarshal(kept.optimizer)
}

// sample continues a prompt.
func (s *Server) sample(ctx context.Context, r *request) (map[string]any, error) {
	s.mu.Lock()
	session := s.samplers[r.Session]
	s.mu.Unlock()
	sampler, err := session.start()
	if err != nil {
		return nil, err
	}
	prompt := joined(r.Prompt)
	var stop [][]int32
	for _, id := range r.Params.Stop {
		stop = append(stop, []int32{id})
	}
	var sequences []map[string]any
	for k := range r.Samples {
		c, err := sampler.Sample(ctx, policy.Request{Prompt: prompt, MaxTokens: r.Params.MaxTokens, Stop: stop, Temperature: r.Params.Temperature, Seed: uint64(r.Params.Seed) + uint64(k)})
		if err != nil {
			return nil, err
		}
		reason := tinker.StopReasonLength
		if c.FinishReason == policy.FinishStop {
			reason = tinker.StopReasonStop
		}
		sequences = append(sequences, map[string]any{"tokens": c.Tokens, "logprobs": c.LogProbs, "stop_reason": reason})
	}
	result := map[string]any{"sequences": sequences, "prompt_logprobs": nil}
	if r.PromptLogProbs && len(prompt) > 1 {
		row := lm.Sequence{Tokens: prompt}
		for t := 1; t < len(prompt); t++ {
			row.Targets = append(row.Targets, int32(t))
		}
		out := [][]float32{make([]float32, len(row.Targets))}
		if err := session.weights.LogProbs(ctx, []lm.Sequence{row}, 1, out, nil); err != nil {
			return nil, err
		}
		result["prompt_logprobs"] = out[0]
	}
	return result, nil
}

func joined(input tinker.Input) (tokens []int32) {
	for _, chunk := range input.Chunks {
		tokens = append(tokens, chunk.Tokens...)
	}
	return tokens
}
