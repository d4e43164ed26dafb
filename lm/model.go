// Package lm is a decoder-only transformer in float32, actor and critic, with
// hand-written forward and backward passes, after llm.c (Karpathy 2024).
//
// The architecture is that of Llama and Qwen: RMSNorm, rotary position
// embedding, SwiGLU, grouped-query attention, optionally biases on Q, K and V
// (Qwen2) and RMSNorm on Q and K (Qwen3). The critic has the same trunk and a
// scalar head. Checkpoints carry Hugging Face's names.
//
// In shapes, R is the number of packed positions, M of those whose output is
// asked for, D the hidden size, F the intermediate size, H the number of query
// heads, G of key-value heads, d the size of a head and V of the vocabulary.
//
// Work on a small model is split by rows, one row a sequence: a goroutine runs the
// whole forward and backward pass of a row alone. Training a large one, all goroutines
// work on the same rows, into one array of gradients. Every element of a matrix product
// is one chain of multiply-adds in fixed order and the gradients of rows are
// added in the order of the rows, so all results are the same bits for any
// number of threads and any split of a batch into consecutive parts.
//
// With [Adapt], a low-rank adapter is trained on top of weights that stay and are
// shared; its files are PEFT's.
package lm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/infinirl/infinirl/lm/kernel"
)

// Model holds the weights of an actor or a critic.
//
// Its methods may be called concurrently, except that nothing may change the
// weights (an optimizer's step, CopyFrom) while another call is running.
type Model struct {
	// Threads is the number of goroutines that work on the rows of a call; 0
	// means GOMAXPROCS. It does not influence results.
	Threads int

	config Config
	layout *layout
	kernel *kernel.Set
	params []float32 // every parameter, in the order of the layout; of an adapted model, those of the base
	weights

	// What an optimizer changes: all of the above, or an adapter's matrices.
	trained *layout
	values  []float32
	adapter *adapter // nil: there is none

	// A team works on every step of a large model, into one array of gradients, where
	// a row of a small one is worked on by one goroutine.
	large bool
	kept  int // bytes of activations that a large model keeps for the backward pass

	generation atomic.Uint64 // counts changes of the weights

	prepare    sync.Mutex // guards what follows
	stale      bool       // headT is older than params
	staleT     bool       // transposed is older than params
	paramsT    []float32
	transposed weights   // Wᵀ of every projection, [out, in], for the backward pass of a small model
	headT      []float32 // [D, V] for the forward pass of an actor's head
	rope       ropeTable
	workspaces []*workspace // idle
}

// weights are the parameters of a model by name: slices of one flat array. The
// same names serve gradients and transposed copies.
type weights struct {
	embed  []float32 // [V, D]
	layers []layerWeights
	norm   []float32 // [D]
	head   []float32 // [V, D], the same slice as embed if tied; critic: [1, D]

	embedded map[int32][]float32 // of gradients: rows of embed [D] that are kept apart
}

type layerWeights struct {
	norm1, norm2 []float32              // [D]
	qNorm, kNorm []float32              // [d], nil without QK-norm
	matrix       [projections][]float32 // [in, out]
	bias         [projections][]float32 // [out], nil without
	low          [projections]lowRank   // without: nil
}

// projection is one of the products with a matrix in a layer.
type projection int

const (
	queries      projection = iota // [D, H·d]
	keys                           // [D, G·d]
	values                         // [D, G·d]
	attentionOut                   // [H·d, D]
	gates                          // [D, F]
	ups                            // [D, F]
	downs                          // [F, D]
	projections
)

// projectionNames are Hugging Face's.
var projectionNames = [projections]string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

// path is the place of a projection in a layer.
func (p projection) path() string {
	if p < gates {
		return "self_attn." + projectionNames[p]
	}
	return "mlp." + projectionNames[p]
}

// dimensions of a projection's matrix.
func (c *Config) dimensions(p projection) (in, out int) {
	D, F, Q, KV := c.HiddenSize, c.IntermediateSize, c.NumAttentionHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	switch p {
	case queries:
		return D, Q
	case keys, values:
		return D, KV
	case attentionOut:
		return Q, D
	case gates, ups:
		return D, F
	}
	return F, D
}

// NewActor returns a policy with fresh weights: normal with standard deviation
// initializer_range, embeddings with embedding_init, norms 1, biases 0. The
// projections back into the residual stream are scaled down by √(2L) as in
// GPT-2 (Radford et al. 2019), so that its variance does not grow with depth.
func NewActor(config Config, seed uint64) (*Model, error) { return newModel(config, false, seed) }

// NewCritic returns a value model with fresh weights, as [NewActor]. Its head
// is zero: every value is 0 before training.
func NewCritic(config Config, seed uint64) (*Model, error) { return newModel(config, true, seed) }

func newModel(config Config, critic bool, seed uint64) (*Model, error) {
	m, err := allocate(config, critic)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6d6f64656c)) // stream "model"
	for _, p := range m.layout.parameters {
		values := m.params[p.offset : p.offset+p.size()]
		std := m.config.InitializerRange
		switch p.kind {
		case kindNorm:
			for i := range values {
				values[i] = 1
			}
			continue
		case kindBias, kindScore:
			continue
		case kindEmbedding:
			std = m.config.EmbeddingInit
		case kindResidual:
			std /= math.Sqrt(2 * float64(m.config.NumHiddenLayers))
		}
		for i := range values {
			values[i] = float32(std * rng.NormFloat64())
		}
	}
	return m, nil
}

// largeModel is the number of parameters from which a model is large: a copy of them for
// every goroutine would leave the processor's caches.
const largeModel = 1 << 23

// allocate returns a model with zero weights.
func allocate(config Config, critic bool) (*Model, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	set, err := kernel.Default()
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	m := &Model{config: config.withDefaults(), kernel: set, stale: true, staleT: true}
	m.layout = newLayout(m.config, critic)
	m.params = weightMemory(m.layout.size)
	m.weights = m.layout.view(m.params)
	m.trained, m.values = m.layout, m.params
	m.large, m.kept = m.layout.size >= largeModel, keptBytes
	return m, nil
}

// Config is the model's configuration, defaults filled in.
func (m *Model) Config() Config { return m.config }

// IsCritic tells whether the model gives values instead of log-probs.
func (m *Model) IsCritic() bool { return m.layout.critic }

// NumParameters counts the model's parameters; tied embeddings count once.
func (m *Model) NumParameters() int {
	n := 0
	for _, p := range m.layout.parameters {
		n += p.size()
	}
	if m.adapter != nil {
		n += m.NumTrained()
	}
	return n
}

// NumTrained counts the parameters that training changes.
func (m *Model) NumTrained() int {
	n := 0
	for _, p := range m.trained.parameters {
		n += p.size()
	}
	return n
}

// NewCriticFrom returns a critic with a copy of actor's trunk and a zero head. Of an
// adapted actor it is the trunk of its base.
func NewCriticFrom(actor *Model) (*Model, error) {
	critic, err := allocate(actor.config, true)
	if err != nil {
		return nil, err
	}
	critic.Threads, critic.kernel = actor.Threads, actor.kernel
	for _, p := range critic.layout.parameters {
		if from, ok := actor.layout.byName[p.name]; ok {
			copy(critic.params[p.offset:p.offset+p.size()], actor.params[from.offset:])
		}
	}
	return critic, nil
}

// CopyFrom sets the weights to those of a model of the same shape; of an adapted
// model, those of the adapter.
func (m *Model) CopyFrom(other *Model) error {
	if err := m.sameShape(other.trained, "model"); err != nil {
		return err
	}
	copy(m.values, other.values)
	m.changed()
	return nil
}

// Clone returns an independent copy of the model. Copies of an adapted model share its
// base.
func (m *Model) Clone() *Model {
	if m.adapter != nil {
		clone := m.adapter.base.adapted(m.adapter.settings, m.layout.critic)
		clone.Threads, clone.kernel = m.Threads, m.kernel
		copy(clone.values, m.values)
		return clone
	}
	clone, err := allocate(m.config, m.layout.critic)
	if err != nil {
		panic(err) // m was made from the same configuration
	}
	clone.Threads, clone.kernel = m.Threads, m.kernel
	copy(clone.params, m.params)
	return clone
}

// sameShape guards against gradients or weights of another model.
func (m *Model) sameShape(other *layout, what string) error {
	if !m.trained.equal(other) {
		return fmt.Errorf("lm: the %s belongs to a model of another shape", what)
	}
	return nil
}

// changed marks what is derived from the weights as out of date.
func (m *Model) changed() {
	m.prepare.Lock()
	defer m.prepare.Unlock()
	m.stale, m.staleT = true, true
	m.generation.Add(1)
}

func (m *Model) threads() int {
	if m.Threads > 0 {
		return m.Threads
	}
	return runtime.GOMAXPROCS(0)
}

// prepareForward brings the derived weights of the forward pass up to date and
// returns rotations for positions below length.
func (m *Model) prepareForward(length int) ropeTable {
	if m.adapter != nil {
		base := m.adapter.base
		rope := base.prepareForward(length)
		m.prepare.Lock()
		defer m.prepare.Unlock()
		m.headT = base.headT
		return rope
	}
	m.prepare.Lock()
	defer m.prepare.Unlock()
	if m.stale {
		m.stale = false
		if !m.layout.critic {
			V, D := m.config.VocabSize, m.config.HiddenSize
			if m.headT == nil {
				m.headT = weightMemory(V * D)
			}
			m.kernel.Transpose(V, D, m.head, D, m.headT, V)
		}
	}
	m.rope = m.rope.grow(m.config, length)
	return m.rope
}

// prepareBackward brings the transposed projections of a small model up to date. Those of a
// large one are turned as they are needed, which saves a copy of the weights.
func (m *Model) prepareBackward() {
	if m.large {
		return
	}
	if m.adapter != nil {
		m.adapter.base.prepareBackward()
		m.prepare.Lock()
		defer m.prepare.Unlock()
		m.transposed = m.adapter.base.transposed
		return
	}
	m.prepare.Lock()
	defer m.prepare.Unlock()
	if !m.staleT {
		return
	}
	m.staleT = false
	if m.paramsT == nil {
		m.paramsT = make([]float32, m.layout.size)
		m.transposed = m.layout.view(m.paramsT)
	}
	for _, p := range m.layout.parameters {
		if p.projection() {
			m.kernel.Transpose(p.in, p.out, m.params[p.offset:], p.out, m.paramsT[p.offset:], p.in)
		}
	}
}

// takeWorkspace returns an idle workspace or a new one, with rotations set.
func (m *Model) takeWorkspace(rope ropeTable) *workspace {
	m.prepare.Lock()
	defer m.prepare.Unlock()
	var ws *workspace
	defer func() { ws.team = ws.team[:1] }()
	if n := len(m.workspaces); n > 0 {
		ws, m.workspaces = m.workspaces[n-1], m.workspaces[:n-1]
	} else {
		ws = newWorkspace(m)
	}
	ws.rope = rope
	return ws
}

func (m *Model) giveWorkspace(ws *workspace) {
	m.prepare.Lock()
	defer m.prepare.Unlock()
	m.workspaces = append(m.workspaces, ws)
}
