package lm

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/infinirl/infinirl/policy"
)

// smolLM is the shape of SmolLM2-135M.
func smolLM() Config {
	return Config{VocabSize: 49152, HiddenSize: 576, IntermediateSize: 1536, NumHiddenLayers: 30, NumAttentionHeads: 9, NumKeyValueHeads: 3,
		MaxPositionEmbeddings: 8192, RMSNormEps: 1e-5, RopeTheta: 100000, TieWordEmbeddings: true}
}

// cpuSeconds is the processor time that the process has used: what a measurement on
// a machine that others use has to look at.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// TestSpeed135M prints speed and memory of a model of SmolLM2-135M's shape: forward and
// backward over 4 rows of 173 tokens, all of them targets but the first, pass by pass, then
// an optimizer's step, and decoding of 1, 4 and 16 sequences.
//
//	INFINIRL_SPEED=all:5 go test ./lm -count 1 -run Speed135M -v
//
// It is all, lora or decode, and a number of passes. Beside each speed stands what the
// processor time that was used would give on two cores; on an idle machine they agree.
func TestSpeed135M(t *testing.T) {
	what, count, _ := strings.Cut(os.Getenv("INFINIRL_SPEED"), ":")
	passes, err := strconv.Atoi(count)
	if err != nil {
		t.Skip("INFINIRL_SPEED is not set to what is to be measured and a number of passes")
	}
	m, err := NewActor(smolLM(), 1)
	if err != nil {
		t.Fatal(err)
	}
	m.Threads = 2
	measure := func(name string, tokens int, do func()) {
		start, cpu := time.Now(), cpuSeconds()
		do()
		wall, used := time.Since(start).Seconds(), cpuSeconds()-cpu
		var usage syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		t.Logf("%s: %.1f tokens/s; %.2f s of processor time: %.1f tokens/s; peak %d MiB", name, float64(tokens)/wall, used, 2*float64(tokens)/used, usage.Maxrss>>10)
	}
	switch what {
	case "decode":
		for _, batch := range []int{1, 4, 16} {
			s := newTestSampler(t, m, Options{Threads: 2, MaxBatch: 16})
			decode := func(length int) {
				var group sync.WaitGroup
				for i := range batch {
					group.Go(func() {
						sampleOne(t, s, policy.Request{SessionID: fmt.Sprint(i), Prompt: []int32{1, 2, 3, int32(i)}, MaxTokens: length, Temperature: 1})
					})
				}
				group.Wait()
			}
			decode(2)
			for range passes {
				measure(fmt.Sprintf("decode, %d sequences", batch), batch*64, func() { decode(64) })
			}
		}
		return
	case "lora":
		if m, err = Adapt(m, LoRA{Rank: 16}); err != nil {
			t.Fatal(err)
		}
	case "all":
	default:
		t.Fatalf("INFINIRL_SPEED is %q: want all, lora or decode", what)
	}
	rows := benchRows(4, 173, 172, 49152)
	gradients := NewGradients(m)
	for pass := range passes {
		measure(fmt.Sprintf("forward and backward, %s, pass %d", what, pass), 688, func() {
			gradients.Zero()
			err := m.AccumulatePolicy(context.Background(), rows, 1, func(row int, logProb, _ []float32) ([]float32, []float32) {
				return slices.Repeat([]float32{-1.0 / 688}, len(logProb)), nil
			}, gradients)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	optimizer, err := NewAdamW(m, AdamWConfig{MaxGradNorm: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		measure("optimizer's step", 688, func() {
			if _, err := optimizer.Step(gradients, 1e-5); err != nil {
				t.Fatal(err)
			}
		})
	}
}
