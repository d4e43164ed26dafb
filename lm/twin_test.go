package lm

import (
	"fmt"
	"math"
	"testing"

	"github.com/infinirl/infinirl/safetensors"
)

// twin is the model in float64, written naively from the papers over the
// checkpoint's tensors: one position and one head at a time.
type twin struct {
	Config
	critic bool
	w      map[string][]float64
	scale  float64 // of adapters
}

func newTwin(t testing.TB, m *Model) *twin {
	t.Helper()
	tw := &twin{Config: m.config, critic: m.IsCritic(), w: map[string][]float64{}}
	tensors := m.Base().layout.export("", m.params)
	if m.adapter != nil {
		tw.scale = m.adapter.settings.Alpha / float64(m.adapter.settings.Rank)
		tensors = append(tensors, m.trained.export("", m.values)...)
	}
	for _, tensor := range tensors {
		values, err := safetensors.Float32s(tensor)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range values {
			tw.w[tensor.Name] = append(tw.w[tensor.Name], float64(x))
		}
	}
	return tw
}

// linear computes w·x + b for w [out, in], b [out] or absent.
func (tw *twin) linear(name string, x []float64) []float64 {
	w, b := tw.w[name+".weight"], tw.w[name+".bias"]
	y := make([]float64, len(w)/len(x))
	for o := range y {
		if b != nil {
			y[o] = b[o]
		}
		for i := range x {
			y[o] += w[o*len(x)+i] * x[i]
		}
	}
	if a := tw.w[adapterPrefix+name+lowA]; a != nil {
		b, rank := tw.w[adapterPrefix+name+lowB], len(a)/len(x)
		for r := range rank {
			u := 0.0
			for i := range x {
				u += a[r*len(x)+i] * x[i]
			}
			for o := range y {
				y[o] += tw.scale * b[o*rank+r] * u
			}
		}
	}
	return y
}

func (tw *twin) norm(name string, x []float64) []float64 {
	square := 0.0
	for _, v := range x {
		square += v * v
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / math.Sqrt(square/float64(len(x))+tw.RMSNormEps) * tw.w[name+".weight"][i]
	}
	return y
}

func (tw *twin) rotate(x []float64, position int) []float64 {
	half := len(x) / 2
	y := make([]float64, len(x))
	for i := range half {
		angle := float64(position) / math.Pow(tw.RopeTheta, float64(2*i)/float64(len(x)))
		y[i] = x[i]*math.Cos(angle) - x[i+half]*math.Sin(angle)
		y[i+half] = x[i+half]*math.Cos(angle) + x[i]*math.Sin(angle)
	}
	return y
}

func softmax(x []float64) (p []float64, logSum float64) {
	greatest, sum := math.Inf(-1), 0.0
	for _, v := range x {
		greatest = math.Max(greatest, v)
	}
	p = make([]float64, len(x))
	for i, v := range x {
		p[i] = math.Exp(v - greatest)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p, greatest + math.Log(sum)
}

// hidden returns the states after the final norm.
func (tw *twin) hidden(tokens []int32) [][]float64 {
	D, d := tw.HiddenSize, tw.HeadDim
	group := tw.NumAttentionHeads / tw.NumKeyValueHeads
	x := make([][]float64, len(tokens))
	for t, token := range tokens {
		x[t] = append([]float64(nil), tw.w["model.embed_tokens.weight"][int(token)*D:(int(token)+1)*D]...)
	}
	for l := range tw.NumHiddenLayers {
		layer := fmt.Sprintf("model.layers.%d.", l)
		keys, values := make([][]float64, len(x)), make([][]float64, len(x))
		for t := range x {
			h := tw.norm(layer+"input_layernorm", x[t])
			q := tw.linear(layer+"self_attn.q_proj", h)
			keys[t] = tw.linear(layer+"self_attn.k_proj", h)
			values[t] = tw.linear(layer+"self_attn.v_proj", h)
			ready := func(name string, vector []float64, head int) {
				part := vector[head*d : (head+1)*d]
				if tw.UseQKNorm {
					copy(part, tw.norm(layer+"self_attn."+name, part))
				}
				copy(part, tw.rotate(part, t))
			}
			for g := range tw.NumKeyValueHeads {
				ready("k_norm", keys[t], g)
			}
			attention := make([]float64, len(q))
			for head := range tw.NumAttentionHeads {
				ready("q_norm", q, head)
				g := head / group
				scores := make([]float64, t+1)
				for s := range scores {
					for i := range d {
						scores[s] += q[head*d+i] * keys[s][g*d+i] / math.Sqrt(float64(d))
					}
				}
				p, _ := softmax(scores)
				for s := range p {
					for i := range d {
						attention[head*d+i] += p[s] * values[s][g*d+i]
					}
				}
			}
			for i, v := range tw.linear(layer+"self_attn.o_proj", attention) {
				x[t][i] += v
			}
		}
		for t := range x {
			h := tw.norm(layer+"post_attention_layernorm", x[t])
			gate, up := tw.linear(layer+"mlp.gate_proj", h), tw.linear(layer+"mlp.up_proj", h)
			for i, g := range gate {
				gate[i] = g / (1 + math.Exp(-g)) * up[i]
			}
			for i, v := range tw.linear(layer+"mlp.down_proj", gate) {
				x[t][i] += v
			}
		}
	}
	for t := range x {
		x[t] = tw.norm("model.norm", x[t])
	}
	return x
}

// logProbs returns log-probs and entropies of a row's targets.
func (tw *twin) logProbs(row Sequence, temperature float64) (logProbs, entropies []float64) {
	hidden := tw.hidden(row.Tokens)
	head := "lm_head"
	if tw.TieWordEmbeddings {
		head = "model.embed_tokens"
	}
	for _, t := range row.Targets {
		z := tw.linear(head, hidden[t-1])
		for i := range z {
			z[i] *= tw.LogitScale / temperature
		}
		p, logSum := softmax(z)
		entropy := 0.0
		for i := range p {
			entropy -= p[i] * (z[i] - logSum)
		}
		logProbs = append(logProbs, z[row.Tokens[t]]-logSum)
		entropies = append(entropies, entropy)
	}
	return logProbs, entropies
}

func (tw *twin) values(row Sequence) (values []float64) {
	hidden := tw.hidden(row.Tokens)
	for _, t := range row.Targets {
		head := "score"
		if tw.scale != 0 {
			head = adapterPrefix + head
		}
		values = append(values, tw.linear(head, hidden[t-1])[0])
	}
	return values
}
