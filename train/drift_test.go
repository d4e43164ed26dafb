package train

import (
	"math"
	"testing"

	"github.com/infinirl/infinirl/batch"
)

// The drift is that of trainable tokens, whichever way they differ.
func TestDrift(t *testing.T) {
	t.Parallel()
	b := &batch.Batch{
		LossMask:        []bool{false, true, true, false, true, true},
		OldLogProbs:     []float32{0, -1, -2, -9, -0.5, -3},
		RolloutLogProbs: []float32{-7, -1.25, -1.5, 0, -0.5, -3},
	}
	if mean, largest := drift(b); mean != 0.1875 || largest != 0.5 {
		t.Errorf("mean %v, largest %v: want 0.1875 and 0.5", mean, largest)
	}
	b.RolloutLogProbs[4] = float32(math.Inf(-1))
	if mean, largest := drift(b); !math.IsInf(mean, 1) || !math.IsInf(largest, 1) {
		t.Errorf("mean %v, largest %v of an infinite log-prob", mean, largest)
	}
	b.RolloutLogProbs = nil
	if mean, largest := drift(b); mean != 0 || largest != 0 {
		t.Errorf("mean %v, largest %v without log-probs of a sampler", mean, largest)
	}
}
