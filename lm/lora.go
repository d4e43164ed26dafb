package lm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// LoRA says how a model is adapted (Hu et al. 2021, arXiv:2106.09685): the weights W
// [in, out] of the targets stay as they are, and
//
//	y = x·W + (alpha/rank)·(x·A)·B
//
// with A [in, rank] and B [rank, out] is trained. B begins at zero.
type LoRA struct {
	Rank    int      `json:"rank" yaml:"rank"`       // 0: no LoRA, all weights are trained
	Alpha   float64  `json:"alpha" yaml:"alpha"`     // 0: twice the rank
	Targets []string `json:"targets" yaml:"targets"` // of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj; none: all of them
	Seed    uint64   `json:"-" yaml:"-"`             // of the first A
}

// maxRank bounds ranks: products with A and B are meant to be small.
const maxRank = 4096

// Enabled tells whether a rank is set.
func (l LoRA) Enabled() bool { return l.Rank != 0 }

// Validate tells which field is unusable. The zero value is valid: no LoRA.
func (l LoRA) Validate() error {
	if l.Rank < 0 || l.Rank > maxRank {
		return fmt.Errorf("lora.rank: %d: want a number from 1 to %d, or 0 for none", l.Rank, maxRank)
	}
	if !(l.Alpha >= 0) || l.Alpha > math.MaxFloat32 {
		return fmt.Errorf("lora.alpha: %g: want a positive number, or 0 for twice the rank", l.Alpha)
	}
	for i, target := range l.Targets {
		if !slices.Contains(projectionNames[:], target) {
			return fmt.Errorf("lora.targets: %q: want some of %s", target, strings.Join(projectionNames[:], ", "))
		}
		if slices.Contains(l.Targets[:i], target) {
			return fmt.Errorf("lora.targets: %q: is there twice", target)
		}
	}
	return nil
}

// withDefaults fills in what was left zero and puts the targets in the order of a layer.
func (l LoRA) withDefaults() LoRA {
	if l.Alpha == 0 {
		l.Alpha = 2 * float64(l.Rank)
	}
	targets := l.Targets
	l.Targets = nil
	for _, name := range projectionNames {
		if len(targets) == 0 || slices.Contains(targets, name) {
			l.Targets = append(l.Targets, name)
		}
	}
	return l
}

// Names of an adapter's tensors, which are PEFT's: the prefix, the path of the matrix,
// and one of the others.
const (
	adapterPrefix = "base_model.model."
	lowA          = ".lora_A.weight"
	lowB          = ".lora_B.weight"
)

// adapter is what a model has on top of a base.
type adapter struct {
	base     *Model
	settings LoRA
	scale    float32 // alpha/rank
}

// lowRank are the matrices of one target.
type lowRank struct {
	a []float32 // [in, rank]
	b []float32 // [rank, out]
}

func (m *Model) rank() int { return m.adapter.settings.Rank }

// Adapter is the adapter's description, if the model has one.
func (m *Model) Adapter() (LoRA, bool) {
	if m.adapter == nil {
		return LoRA{}, false
	}
	return m.adapter.settings, true
}

// Base is the model that an adapted one shares the weights of, else the model itself.
func (m *Model) Base() *Model {
	if m.adapter == nil {
		return m
	}
	return m.adapter.base
}

// Adapt returns an actor that shares the weights of base, which must not change any
// more, and has a fresh adapter: its outputs are base's. A has the distribution that
// PEFT gives it, uniform within 1/√in.
func Adapt(base *Model, l LoRA) (*Model, error) { return adapt(base, l, false) }

// AdaptCritic returns a critic that shares the trunk of base as [Adapt] does. Its head is
// its own, trained like the adapter, and zero at first.
func AdaptCritic(base *Model, l LoRA) (*Model, error) { return adapt(base, l, true) }

func adapt(base *Model, l LoRA, critic bool) (*Model, error) {
	if err := base.adaptable(); err != nil {
		return nil, err
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	if !l.Enabled() {
		return nil, errors.New("lm: lora.rank: 0: want a positive number for an adapter")
	}
	m := base.adapted(l.withDefaults(), critic)
	rng := rand.New(rand.NewPCG(l.Seed, 0x6c6f7261)) // stream "lora"
	for _, p := range m.trained.parameters {
		if !strings.HasSuffix(p.name, lowA) {
			continue
		}
		bound := 1 / math.Sqrt(float64(p.in))
		for i := range p.size() {
			m.values[p.offset+i] = float32(bound * (2*rng.Float64() - 1))
		}
	}
	return m, nil
}

func (m *Model) adaptable() error {
	if m.adapter != nil {
		return errors.New("lm: the model has an adapter already: adapt its base")
	}
	if m.layout.critic {
		return errors.New("lm: a critic cannot be adapted: adapt the actor that it came from")
	}
	return nil
}

// adapted returns a model with an adapter of zeros. The settings are valid and complete.
func (m *Model) adapted(l LoRA, critic bool) *Model {
	a := &Model{
		Threads: m.Threads, config: m.config, kernel: m.kernel, params: m.params, weights: m.weights, large: m.large, kept: m.kept,
		layout:  newLayout(m.config, critic),
		adapter: &adapter{base: m, settings: l, scale: float32(l.Alpha / float64(l.Rank))},
	}
	a.trained = newAdapterLayout(m.config, l, critic)
	a.values = make([]float32, a.trained.size)
	own := a.trained.view(a.values)
	a.layers = slices.Clone(m.layers)
	for i := range a.layers {
		a.layers[i].low = own.layers[i].low
	}
	if critic {
		a.head = own.head
	}
	return a
}

// newAdapterLayout is the layout of an adapter's matrices, and of a critic's head.
func newAdapterLayout(c Config, l LoRA, critic bool) *layout {
	a := &layout{config: c, critic: critic, byName: map[string]parameter{}}
	for i := range c.NumHiddenLayers {
		for p := range projections {
			if !slices.Contains(l.Targets, projectionNames[p]) {
				continue
			}
			in, out := c.dimensions(p)
			path := fmt.Sprintf("%smodel.layers.%d.%s", adapterPrefix, i, p.path())
			a.add(path+lowA, kindProjection, in, l.Rank)
			a.add(path+lowB, kindProjection, l.Rank, out)
		}
	}
	if critic {
		a.add(adapterPrefix+"score.weight", kindScore, 1, c.HiddenSize)
	}
	return a
}

// Merged returns a model of its own in which the adapter is added to the weights; of a
// model without one it is a copy.
func (m *Model) Merged() (*Model, error) {
	if m.adapter == nil {
		return m.Clone(), nil
	}
	base := m.adapter.base
	merged, err := allocate(m.config, m.layout.critic)
	if err != nil {
		return nil, err
	}
	merged.Threads, merged.kernel = m.Threads, m.kernel
	for _, p := range merged.layout.parameters {
		into := merged.params[p.offset : p.offset+p.size()]
		if from, ok := base.layout.byName[p.name]; ok {
			copy(into, base.params[from.offset:])
		}
	}
	if m.layout.critic {
		copy(merged.head, m.head)
	}
	for i := range merged.layers {
		for p := range projections {
			low := &m.layers[i].low[p]
			if low.a == nil {
				continue
			}
			in, out := m.config.dimensions(p)
			scaled := slices.Clone(low.a)
			m.kernel.Scale(m.adapter.scale, scaled)
			m.kernel.Gemm(in, out, m.rank(), scaled, m.rank(), 1, low.b, out, merged.layers[i].matrix[p], out, true)
		}
	}
	return merged, nil
}
