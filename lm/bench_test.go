package lm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/policy"
)

// benchModel is the model that speed is quoted for.
func benchModel(b *testing.B, critic bool) *Model {
	m, err := newModel(Config{VocabSize: 512, HiddenSize: 128, IntermediateSize: 512, NumHiddenLayers: 4, NumAttentionHeads: 4}, critic, 1)
	if err != nil {
		b.Fatal(err)
	}
	m.Threads = 2
	return m
}

// smallModel is the one of the shipped experiments, or about so.
func smallModel(b *testing.B, layers int) *Model {
	m, err := NewActor(Config{VocabSize: 600, HiddenSize: 64, IntermediateSize: 192, NumHiddenLayers: layers, NumAttentionHeads: 4, TieWordEmbeddings: true}, 1)
	if err != nil {
		b.Fatal(err)
	}
	m.Threads = 2
	return m
}

// benchRows returns n rows of length tokens whose last targets tokens are wanted.
func benchRows(n, length, targets, vocabulary int) []Sequence {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := make([]Sequence, n)
	for i := range rows {
		rows[i].Tokens = randomTokens(rng, length, vocabulary)
		for t := length - targets; t < length; t++ {
			rows[i].Targets = append(rows[i].Targets, int32(t))
		}
	}
	return rows
}

// benchTrain measures forward, backward and optimizer step over rows.
func benchTrain(b *testing.B, m *Model, rows []Sequence) {
	optimizer, err := NewAdamW(m, AdamWConfig{MaxGradNorm: 1})
	if err != nil {
		b.Fatal(err)
	}
	gradients := NewGradients(m)
	tokens, dps := 0, make([][]float32, len(rows))
	for i, row := range rows {
		tokens += len(row.Tokens)
		dps[i] = make([]float32, len(row.Targets))
		for j := range dps[i] {
			dps[i][j] = -1 / float32(len(row.Targets)*len(rows))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		gradients.Zero()
		err := m.AccumulatePolicy(context.Background(), rows, 1, func(row int, _, _ []float32) ([]float32, []float32) {
			return dps[row], nil
		}, gradients)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := optimizer.Step(gradients, 1e-4); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkTrainStep: 16 rows of 256 tokens through 1.1 million weights. The
// products with weights take 6 operations a weight and token, 27 GFLOP a step,
// the causal attention 1.9 GFLOP more.
func BenchmarkTrainStep(b *testing.B) {
	benchTrain(b, benchModel(b, false), benchRows(16, 256, 255, 512))
}

// BenchmarkTrainSmall: 64 rows of 200 tokens, 20 of them targets.
func BenchmarkTrainSmall(b *testing.B) {
	for _, layers := range []int{2, 3} {
		b.Run(fmt.Sprintf("layers=%d", layers), func(b *testing.B) {
			benchTrain(b, smallModel(b, layers), benchRows(64, 200, 20, 600))
		})
	}
}

// BenchmarkLogProbs scores the rows of BenchmarkTrainSmall.
func BenchmarkLogProbs(b *testing.B) {
	m, rows := smallModel(b, 3), benchRows(64, 200, 20, 600)
	logProbs, entropies := outputs(rows), outputs(rows)
	b.ReportAllocs()
	for b.Loop() {
		if err := m.LogProbs(context.Background(), rows, 1, logProbs, entropies); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(64*200*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// benchDecode measures steps of a full batch, each of which adds one token to
// sequences that begin with past tokens in their caches.
func benchDecode(b *testing.B, m *Model, batch, past int) {
	m.config.MaxPositionEmbeddings = 1 << 20
	s := newTestSampler(b, m, Options{Threads: 2, MaxBatch: batch})
	const length = 32 // tokens a request
	rng := rand.New(rand.NewPCG(1, 1))
	requests := make([]policy.Request, batch)
	for i := range requests {
		requests[i] = policy.Request{
			SessionID: fmt.Sprint(i), Prompt: randomTokens(rng, past-length/2, m.config.VocabSize),
			MaxTokens: length, Temperature: 1, Seed: uint64(i),
		}
	}
	round := func() {
		var group sync.WaitGroup
		for _, r := range requests {
			group.Go(func() { sampleOne(b, s, r) })
		}
		group.Wait()
	}
	round() // fills the caches
	for b.Loop() {
		round()
	}
	steps := float64(length) * float64(b.N)
	b.ReportMetric(steps/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(steps*float64(batch)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkDecode: 64 sequences with about 256 tokens in their caches. A step
// reads 4 kB of keys and values a cached token, 67 MB for the batch, more than
// the processor's caches hold, and does 0.16 GFLOP for the weights and 0.03 for
// the scores.
func BenchmarkDecode(b *testing.B) { benchDecode(b, benchModel(b, false), 64, 256) }

// BenchmarkDecodeSmall: the same with the small model.
func BenchmarkDecodeSmall(b *testing.B) { benchDecode(b, smallModel(b, 3), 64, 200) }
