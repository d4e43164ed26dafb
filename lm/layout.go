package lm

import (
	"fmt"
	"slices"
)

// layout says where each parameter lies in the flat array that holds them all.
// Projections are stored [in, out], the transpose of Hugging Face's [out, in],
// so that Y = X·W is a product of row-major matrices.
type layout struct {
	config     Config
	critic     bool
	parameters []parameter
	byName     map[string]parameter
	size       int // elements of the flat array, gaps for alignment included
}

type kind int

const (
	kindProjection kind = iota
	kindResidual        // a projection back into the residual stream
	kindEmbedding       // [V, D], also the untied head
	kindScore           // the critic's head
	kindNorm
	kindBias
)

// parameter is one tensor of the checkpoint.
type parameter struct {
	name    string // Hugging Face's
	kind    kind
	in, out int // [in, out]; vectors: in = 1
	offset  int
}

func (p parameter) size() int { return p.in * p.out }

// projection tells whether the parameter is stored transposed.
func (p parameter) projection() bool { return p.kind == kindProjection || p.kind == kindResidual }

// decayed tells whether weight decay applies: to matrices, not to vectors.
func (p parameter) decayed() bool { return p.kind != kindNorm && p.kind != kindBias }

// shape is that of the tensor in a checkpoint.
func (p parameter) shape() []int {
	switch p.kind {
	case kindProjection, kindResidual:
		return []int{p.out, p.in}
	case kindEmbedding, kindScore:
		return []int{p.in, p.out}
	}
	return []int{p.out}
}

// alignment of parameters, in elements: one cache line.
const alignment = 16

func newLayout(c Config, critic bool) *layout {
	l := &layout{config: c, critic: critic, byName: map[string]parameter{}}
	add := l.add
	D, F, d := c.HiddenSize, c.IntermediateSize, c.HeadDim
	Q, KV := c.NumAttentionHeads*d, c.NumKeyValueHeads*d
	add("model.embed_tokens.weight", kindEmbedding, c.VocabSize, D)
	for i := range c.NumHiddenLayers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		add(layer+"input_layernorm.weight", kindNorm, 1, D)
		add(layer+"self_attn.q_proj.weight", kindProjection, D, Q)
		add(layer+"self_attn.k_proj.weight", kindProjection, D, KV)
		add(layer+"self_attn.v_proj.weight", kindProjection, D, KV)
		if c.AttentionBias {
			add(layer+"self_attn.q_proj.bias", kindBias, 1, Q)
			add(layer+"self_attn.k_proj.bias", kindBias, 1, KV)
			add(layer+"self_attn.v_proj.bias", kindBias, 1, KV)
		}
		if c.UseQKNorm {
			add(layer+"self_attn.q_norm.weight", kindNorm, 1, d)
			add(layer+"self_attn.k_norm.weight", kindNorm, 1, d)
		}
		add(layer+"self_attn.o_proj.weight", kindResidual, Q, D)
		add(layer+"post_attention_layernorm.weight", kindNorm, 1, D)
		add(layer+"mlp.gate_proj.weight", kindProjection, D, F)
		add(layer+"mlp.up_proj.weight", kindProjection, D, F)
		add(layer+"mlp.down_proj.weight", kindResidual, F, D)
	}
	add("model.norm.weight", kindNorm, 1, D)
	switch {
	case critic:
		add("score.weight", kindScore, 1, D)
	case !c.TieWordEmbeddings:
		add("lm_head.weight", kindEmbedding, c.VocabSize, D)
	}
	return l
}

func (l *layout) add(name string, kind kind, in, out int) {
	p := parameter{name: name, kind: kind, in: in, out: out, offset: l.size}
	l.parameters = append(l.parameters, p)
	l.byName[name] = p
	l.size += (p.size() + alignment - 1) / alignment * alignment
}

func (l *layout) equal(other *layout) bool { return slices.Equal(l.parameters, other.parameters) }

// view names the parts of a flat array of the layout's size, that of a model or of an
// adapter; what the layout lacks is nil.
func (l *layout) view(flat []float32) weights {
	at := func(name string) []float32 {
		p, ok := l.byName[name]
		if !ok {
			return nil
		}
		return flat[p.offset : p.offset+p.size() : p.offset+p.size()]
	}
	w := weights{embed: at("model.embed_tokens.weight"), norm: at("model.norm.weight")}
	switch {
	case l.critic:
		if w.head = at("score.weight"); w.head == nil {
			w.head = at(adapterPrefix + "score.weight")
		}
	case l.config.TieWordEmbeddings:
		w.head = w.embed
	default:
		w.head = at("lm_head.weight")
	}
	for i := range l.config.NumHiddenLayers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		of := func(name string) []float32 { return at(layer + name) }
		lw := layerWeights{
			norm1: of("input_layernorm.weight"), norm2: of("post_attention_layernorm.weight"),
			qNorm: of("self_attn.q_norm.weight"), kNorm: of("self_attn.k_norm.weight"),
		}
		for p := range projections {
			lw.matrix[p], lw.bias[p] = of(p.path()+".weight"), of(p.path()+".bias")
			lw.low[p] = lowRank{at(adapterPrefix + layer + p.path() + lowA), at(adapterPrefix + layer + p.path() + lowB)}
		}
		w.layers = append(w.layers, lw)
	}
	return w
}
