package lm

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/infinirl/infinirl/lm/kernel"
	"github.com/infinirl/infinirl/safetensors"
)

// AdamWConfig holds the settings of AdamW (Loshchilov & Hutter 2019,
// arXiv:1711.05101).
type AdamWConfig struct {
	Beta1, Beta2 float64 // decay of the first and second moment; 0: 0.9 and 0.999
	Epsilon      float64 // 0: 1e-8
	WeightDecay  float64 // of matrices; norms and biases do not decay
	MaxGradNorm  float64 // the gradients' global norm is scaled down to this; 0: no limit
}

func (c AdamWConfig) withDefaults() AdamWConfig {
	if c.Beta1 == 0 {
		c.Beta1 = 0.9
	}
	if c.Beta2 == 0 {
		c.Beta2 = 0.999
	}
	if c.Epsilon == 0 {
		c.Epsilon = 1e-8
	}
	return c
}

func (c AdamWConfig) validate() error {
	switch {
	case !(c.Beta1 >= 0 && c.Beta1 < 1) || !(c.Beta2 >= 0 && c.Beta2 < 1):
		return fmt.Errorf("lm: AdamW: betas are %g and %g, want 0 ≤ β < 1", c.Beta1, c.Beta2)
	case !(c.Epsilon > 0):
		return fmt.Errorf("lm: AdamW: epsilon is %g, want a positive number", c.Epsilon)
	case !(c.WeightDecay >= 0) || !(c.MaxGradNorm >= 0):
		return fmt.Errorf("lm: AdamW: weight decay is %g and the maximal gradient norm %g, want no negative numbers", c.WeightDecay, c.MaxGradNorm)
	}
	return nil
}

// AdamW is the state of an optimizer for one model.
type AdamW struct {
	config AdamWConfig
	model  *Model
	steps  int64
	m, v   []float32 // first and second moment of every parameter
}

// ErrNotFinite tells that gradients hold an infinity or NaN.
var ErrNotFinite = errors.New("the gradients are not finite")

// NewAdamW returns an optimizer of m at step 0.
func NewAdamW(m *Model, config AdamWConfig) (*AdamW, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &AdamW{config: config, model: m,
		m: make([]float32, m.trained.size), v: make([]float32, m.trained.size)}, nil
}

// Steps counts the steps taken.
func (o *AdamW) Steps() int64 { return o.steps }

// Step updates the model's weights and returns the gradients' global norm before
// clipping. Gradients are scaled in place if they are clipped. If they are not
// finite, the error is ErrNotFinite and nothing changes.
func (o *AdamW) Step(gradients *Gradients, learningRate float64) (norm float64, err error) {
	if !o.model.trained.equal(gradients.layout) {
		return 0, errors.New("lm: the gradients belong to a model of another shape")
	}
	if !(learningRate >= 0) || math.IsInf(learningRate, 1) {
		return 0, fmt.Errorf("lm: learning rate is %g, want a finite number from 0", learningRate)
	}
	norm = gradients.Norm()
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, fmt.Errorf("lm: %w", ErrNotFinite)
	}
	if limit := o.config.MaxGradNorm; limit > 0 && norm > limit {
		gradients.Scale(float32(limit / norm))
	}
	o.steps++
	step := kernel.AdamWStep{
		LearningRate: float32(learningRate),
		Beta1:        float32(o.config.Beta1),
		Beta2:        float32(o.config.Beta2),
		Epsilon:      float32(o.config.Epsilon),
		Bias1:        float32(1 - math.Pow(o.config.Beta1, float64(o.steps))),
		Bias2:        float32(1 - math.Pow(o.config.Beta2, float64(o.steps))),
	}
	model := o.model
	for _, p := range model.trained.parameters {
		step.WeightDecay = 0
		if p.decayed() {
			step.WeightDecay = float32(o.config.WeightDecay)
		}
		eachChunk(model.threads(), p.size(), func(from, to int) {
			from, to = p.offset+from, p.offset+to
			model.kernel.AdamW(model.values[from:to], gradients.flat[from:to], o.m[from:to], o.v[from:to], step)
		})
	}
	model.changed()
	return norm, nil
}

// Marshal returns the optimizer's state as the content of a safetensors file:
// the number of steps and, by the names of the parameters, both moments. A run
// that loads model and optimizer goes on bit for bit.
func (o *AdamW) Marshal() ([]byte, error) {
	return encode(o.tensors(), map[string]string{"format": "pt"})
}

func (o *AdamW) tensors() []safetensors.Tensor {
	tensors := []safetensors.Tensor{safetensors.New("step", nil, []int64{o.steps})}
	tensors = append(tensors, o.model.trained.export("exp_avg.", o.m)...)
	return append(tensors, o.model.trained.export("exp_avg_sq.", o.v)...)
}

// Unmarshal restores the state that Marshal returned. On an error the state is
// unchanged.
func (o *AdamW) Unmarshal(data []byte) error {
	if err := o.unmarshal(data); err != nil {
		return fmt.Errorf("lm: load optimizer: %w", err)
	}
	return nil
}

func (o *AdamW) unmarshal(data []byte) error {
	file, err := decode(data)
	if err != nil {
		return err
	}
	return o.restore(file)
}

func (o *AdamW) restore(file *safetensors.File) error {
	step, err := file.Tensor("step")
	if err != nil {
		return err
	}
	steps, err := safetensors.Values[int64](step)
	if err != nil {
		return err
	}
	if len(steps) != 1 || steps[0] < 0 {
		return fmt.Errorf("step is %v, want a number from 0", steps)
	}
	first, second := file.Tensors[:0:0], file.Tensors[:0:0]
	for _, t := range file.Tensors {
		switch {
		case t.Name == "step":
		case strings.HasPrefix(t.Name, "exp_avg_sq."):
			second = append(second, t)
		default:
			first = append(first, t)
		}
	}
	m, v := make([]float32, len(o.m)), make([]float32, len(o.v))
	if err := o.model.trained.load("exp_avg.", first, m); err != nil {
		return err
	}
	if err := o.model.trained.load("exp_avg_sq.", second, v); err != nil {
		return err
	}
	o.steps, o.m, o.v = steps[0], m, v
	return nil
}

// Save writes the state to a file, under a temporary name first.
func (o *AdamW) Save(path string) error {
	if err := write(path, o.tensors(), map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("lm: save optimizer: %w", err)
	}
	return nil
}

// Load restores the state that Save wrote.
func (o *AdamW) Load(path string) error {
	file, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("lm: load optimizer: %w", err)
	}
	defer file.Close()
	if err := file.Attach(); err != nil {
		return fmt.Errorf("lm: load optimizer: %w", err)
	}
	if err := verify(file.File); err != nil {
		return fmt.Errorf("lm: load optimizer: %s: %w", path, err)
	}
	if err := o.restore(file.File); err != nil {
		return fmt.Errorf("lm: load optimizer: %w", err)
	}
	return nil
}
