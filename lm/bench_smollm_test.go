package lm

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
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

// TestSpeed135M prints, pass by pass, the speed of forward and backward over 4 rows
// of 173 tokens, all of them targets but the first, of a model of SmolLM2-135M's shape:
//
//	INFINIRL_SPEED=5 go test ./lm -run Speed135M -v
//
// Passes of LoRA follow those of all weights. The second figure is what the processor
// time that was used would give on two cores.
func TestSpeed135M(t *testing.T) {
	passes := 0
	if _, err := fmt.Sscan(os.Getenv("INFINIRL_SPEED"), &passes); err != nil {
		t.Skip("INFINIRL_SPEED is not set to a number of passes")
	}
	m, err := NewActor(smolLM(), 1)
	if err != nil {
		t.Fatal(err)
	}
	m.Threads = 2
	rows := benchRows(4, 173, 172, 49152)
	gradients := NewGradients(m)
	for pass := range passes {
		start, cpu := time.Now(), cpuSeconds()
		gradients.Zero()
		err := m.AccumulatePolicy(context.Background(), rows, 1, func(row int, logProb, _ []float32) ([]float32, []float32) {
			dp := make([]float32, len(logProb))
			for i := range dp {
				dp[i] = -1.0 / 688
			}
			return dp, nil
		}, gradients)
		if err != nil {
			t.Fatal(err)
		}
		wall, used := time.Since(start).Seconds(), cpuSeconds()-cpu
		var usage syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		t.Logf("pass %d: %.0f tokens/s; %.2f s of processor time, two idle cores: %.0f tokens/s; peak %d MiB", pass, 688/wall, used, 2*688/used, usage.Maxrss>>10)
	}
}
