// Package learner is an example of an own learner.Learner: a table of V × V logits, one
// row for each last token, learnt by gradient descent with momentum. A policy of many
// parameters differs in how log-probs and gradients are computed, and in nothing else.
package learner

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/safetensors"
)

// Bigram is a policy that looks at the last token alone.
type Bigram struct {
	size        int       // V
	temperature float64   // that its samplers sample at
	logits      []float32 // [V, V]: of the next token, by the last one
	velocity    []float32 // of the logits
	version     int64
	// published is a copy of the logits that no update touches, for samplers.
	published atomic.Pointer[[]float32]
}

var _ learner.Learner = (*Bigram)(nil)

const (
	fileName = "bigram.safetensors"
	momentum = 0.9
)

// NewBigram returns the policy under which all tokens are equally likely.
func NewBigram(vocabulary int, temperature float64) *Bigram {
	b := &Bigram{size: vocabulary, temperature: temperature, logits: make([]float32, vocabulary*vocabulary), velocity: make([]float32, vocabulary*vocabulary)}
	b.publish()
	return b
}

// Version counts the updates.
func (b *Bigram) Version() int64 { return b.version }

// Publish copies the weights. A learner in another process would write them to a file,
// and say where it is.
func (b *Bigram) Publish(context.Context) (policy.Weights, error) {
	b.publish()
	return policy.Weights{Version: b.version}, nil
}

func (b *Bigram) publish() {
	logits := append([]float32{}, b.logits...)
	b.published.Store(&logits)
}

// row is what the policy says at the trainable tokens of one row of a batch.
type row struct {
	last, next          []int32   // x and y of each
	logProbs, entropies []float32 // log π(y|x) and H(π(·|x))
}

// forward evaluates row i.
func (b *Bigram) forward(of *batch.Batch, i int, pi []float64) (r row, err error) {
	start, end := of.Span(i)
	for t := start; t < end; t++ {
		if !of.LossMask[t] {
			continue
		}
		if t == start {
			return r, fmt.Errorf("%s: its first token is trainable: there is nothing to predict it from", of.Describe(i))
		}
		x, y := of.TokenIDs[t-1], of.TokenIDs[t]
		if min(x, y) < 0 || int(max(x, y)) >= b.size {
			return r, fmt.Errorf("%s: ids %d and %d: want 0 to %d", of.Describe(i), x, y, b.size-1)
		}
		logSoftmax(b.logits[int(x)*b.size:][:b.size], b.temperature, pi)
		r.last, r.next = append(r.last, x), append(r.next, y)
		r.logProbs, r.entropies = append(r.logProbs, float32(pi[y])), append(r.entropies, float32(entropy(pi)))
	}
	return r, nil
}

// LogProbs returns them at trainable tokens, and 0 elsewhere.
func (b *Bigram) LogProbs(ctx context.Context, of *batch.Batch) ([]float32, error) {
	column, pi := make([]float32, of.Tokens()), make([]float64, b.size)
	for i := range of.Rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := b.forward(of, i, pi)
		if err != nil {
			return nil, err
		}
		start, end := of.Span(i)
		for t, k := start, 0; t < end; t++ {
			if of.LossMask[t] {
				column[t] = r.logProbs[k]
				k++
			}
		}
	}
	return column, nil
}

// Update takes one step. The loss is that of package ppo: a learner only has to carry
// the derivatives in log-prob and entropy on to its weights.
func (b *Bigram) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (result learner.UpdateResult, err error) {
	weights, err := ppo.Weights[float32](cfg.Loss.Aggregation, mini) // of the whole mini-batch
	if err != nil {
		return result, err
	}
	var stats ppo.Stats
	gradient, pi := make([]float64, len(b.logits)), make([]float64, b.size)
	for i := range mini.Rows {
		if err := ctx.Err(); err != nil { // before the step: nothing has changed yet
			return result, err
		}
		r, err := b.forward(mini, i, pi)
		if err != nil {
			return result, err
		}
		at := func(column []float32) []float32 { // absent columns stay so
			if column == nil {
				return nil
			}
			start, end := mini.Span(i)
			return ppo.Trainable(mini.LossMask[start:end], column[start:end])
		}
		loss := ppo.PolicyTokens[float32]{LogProbs: r.logProbs, OldLogProbs: at(mini.OldLogProbs), Advantages: at(mini.Advantages), Weights: at(weights),
			Entropies: r.entropies, RefLogProbs: at(mini.RefLogProbs)}
		if cfg.Loss.RolloutCorrection != ppo.CorrectionNone {
			loss.RolloutLogProbs = at(mini.RolloutLogProbs)
		}
		dLogProbs, dEntropies := make([]float32, len(r.last)), make([]float32, len(r.last))
		of, err := ppo.Policy(&cfg.Loss, loss, dLogProbs, dEntropies)
		if err != nil {
			return result, fmt.Errorf("%s: %w", mini.Describe(i), err)
		}
		stats.Merge(of)
		for k := range r.last {
			b.backward(r.last[k], r.next[k], float64(dLogProbs[k]), float64(dEntropies[k]), pi, gradient)
		}
	}
	for _, g := range gradient {
		result.GradNorm += g * g
	}
	result.GradNorm = math.Sqrt(result.GradNorm)
	if math.IsNaN(result.GradNorm) || math.IsInf(result.GradNorm, 0) {
		return result, fmt.Errorf("the gradient's norm is %v: the weights stay as they were", result.GradNorm)
	}
	for j, g := range gradient {
		b.velocity[j] = momentum*b.velocity[j] + float32(g)
		b.logits[j] -= float32(cfg.LearningRate) * b.velocity[j]
	}
	b.version++
	result.Metrics = stats.Metrics()
	return result, nil
}

// backward adds the gradient in the logits z of the row of x:
//
//	∂ log π(y) / ∂z = (1[z = y] − π(z)) / T
//	∂ H / ∂z        = −π(z)·(log π(z) + H) / T
func (b *Bigram) backward(x, y int32, dLogProb, dEntropy float64, pi, gradient []float64) {
	logSoftmax(b.logits[int(x)*b.size:][:b.size], b.temperature, pi)
	h, into := entropy(pi), gradient[int(x)*b.size:][:b.size]
	into[y] += dLogProb / b.temperature
	for z, logP := range pi {
		into[z] -= math.Exp(logP) * (dLogProb + dEntropy*(logP+h)) / b.temperature
	}
}

// Save writes weights and the state of the optimizer: a run that is resumed must go on as
// if it had not been killed.
func (b *Bigram) Save(_ context.Context, dir string) error {
	shape := []int{b.size, b.size}
	tensors := []safetensors.Tensor{safetensors.New("logits", shape, b.logits), safetensors.New("velocity", shape, b.velocity)}
	return atomicfile.Write(filepath.Join(dir, fileName), func(w io.Writer) error {
		return safetensors.Write(w, tensors, map[string]string{"version": strconv.FormatInt(b.version, 10)})
	})
}

// Load reads what Save wrote. A file that does not suit leaves everything as it was.
func (b *Bigram) Load(_ context.Context, dir string) error {
	path := filepath.Join(dir, fileName)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := safetensors.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	version, err := strconv.ParseInt(file.Metadata["version"], 10, 64)
	if err != nil {
		return fmt.Errorf("%s: version: %w", path, err)
	}
	var read [2][]float32
	for k, name := range []string{"logits", "velocity"} {
		tensor, err := file.Tensor(name)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !slices.Equal(tensor.Shape, []int{b.size, b.size}) {
			return fmt.Errorf("%s: %s: shape %v: want [%d %d]", path, name, tensor.Shape, b.size, b.size)
		}
		if read[k], err = safetensors.Values[float32](tensor); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	b.logits, b.velocity, b.version = read[0], read[1], version
	b.publish()
	return nil
}

// logSoftmax writes log π into out.
func logSoftmax(logits []float32, temperature float64, out []float64) {
	most, sum := float64(slices.Max(logits)), 0.0
	for z, l := range logits {
		out[z] = (float64(l) - most) / temperature
		sum += math.Exp(out[z])
	}
	for z := range out {
		out[z] -= math.Log(sum)
	}
}

// entropy is −Σ π·log π, in nats.
func entropy(logPi []float64) (h float64) {
	for _, logP := range logPi {
		h -= math.Exp(logP) * logP
	}
	return h
}
