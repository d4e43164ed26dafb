package ppo

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/infinirl/infinirl/batch"
)

// vectorCase is one case of the recorded reference vectors: three losses of
// padded rows and their gradients, computed with PyTorch in float64.
type vectorCase struct {
	LogProbs    [][]float64 `json:"log_probs"`
	OldLogProbs [][]float64 `json:"old_log_probs"`
	RefLogProbs [][]float64 `json:"ref_log_probs"`
	Advantages  [][]float64 `json:"advantages"`
	LossMask    [][]int     `json:"loss_mask"`
	Values      [][]float64 `json:"values"`
	OldValues   [][]float64 `json:"old_values"`
	Returns     [][]float64 `json:"returns"`
	ClipLow     float64     `json:"clip_low"`
	ClipHigh    float64     `json:"clip_high"`
	DualClip    float64     `json:"dual_clip"`
	ValueClip   float64     `json:"value_clip"`
	Expected    map[string]json.RawMessage
}

type vectorLoss struct {
	Loss         float64     `json:"loss"`
	ClipFraction float64     `json:"clip_fraction"`
	ApproxKL     float64     `json:"approx_kl"`
	Grad         [][]float64 `json:"grad"`
}

func loadVectors(t *testing.T) []vectorCase {
	data, err := os.ReadFile("../../shared/vectors/vectors.json")
	if err != nil {
		t.Skip("reference vectors are not here: ", err)
	}
	var file struct{ Loss []vectorCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Loss) == 0 {
		t.Fatal("no loss vectors")
	}
	return file.Loss
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for i, c := range loadVectors(t) {
		testVector[float64](t, i, c, 1e-9)
		testVector[float32](t, i, c, 1e-5)
	}
}

// near accepts a relative error; below .001 it counts as one of .001.
func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(math.Abs(want), 1e-3)
}

func testVector[T Float](t *testing.T, number int, c vectorCase, tolerance float64) {
	t.Helper()
	b := maskBatch(c.LossMask)
	cfg := defaults()
	cfg.ClipLow, cfg.ClipHigh, cfg.DualClip, cfg.ValueClip = c.ClipLow, c.ClipHigh, c.DualClip, c.ValueClip
	take := func(i int, column [][]float64) []T { return Trainable(bools(c.LossMask[i]), convert[T](column[i])) }

	for _, aggregation := range []string{TokenMean, SeqMeanTokenSum, SeqMeanTokenMean} {
		var want vectorLoss
		if err := json.Unmarshal(c.Expected[aggregation], &want); err != nil {
			t.Fatal(err)
		}
		weights, err := Weights[T](aggregation, b)
		if err != nil {
			t.Fatal(err)
		}
		var total Stats
		for i := range c.LossMask {
			start, end := b.Span(i)
			row := PolicyTokens[T]{
				LogProbs: take(i, c.LogProbs), OldLogProbs: take(i, c.OldLogProbs), Advantages: take(i, c.Advantages),
				Weights: Trainable(b.LossMask[start:end], weights[start:end]),
			}
			grad := make([]T, len(row.LogProbs))
			s, err := Policy(&cfg, row, grad, nil)
			if err != nil {
				t.Fatal(err)
			}
			total.Merge(s)
			for k, w := range Trainable(bools(c.LossMask[i]), want.Grad[i]) {
				if !near(float64(grad[k]), w, tolerance) {
					t.Errorf("case %d %s: row %d: gradient %d is %v: want %v", number, aggregation, i, k, grad[k], w)
				}
			}
		}
		m := total.Metrics()
		n := float64(total.Tokens)
		bias := n / (n + 1e-8) // the reference's masked mean divides by n + 1e-8
		for name, pair := range map[string][2]float64{
			"loss":          {m.PolicyLoss, want.Loss},
			"clip_fraction": {m.ClipFraction * bias, want.ClipFraction},
			"approx_kl":     {m.ApproxKL * bias, want.ApproxKL},
		} {
			if !near(pair[0], pair[1], tolerance) {
				t.Errorf("case %d %s: %s is %v: want %v", number, aggregation, name, pair[0], pair[1])
			}
		}
	}

	var want vectorLoss
	if err := json.Unmarshal(c.Expected["value"], &want); err != nil {
		t.Fatal(err)
	}
	weights, err := Weights[T](TokenMean, b)
	if err != nil {
		t.Fatal(err)
	}
	var total Stats
	for i := range c.LossMask {
		start, end := b.Span(i)
		row := ValueTokens[T]{Values: take(i, c.Values), OldValues: take(i, c.OldValues), Returns: take(i, c.Returns), Weights: Trainable(b.LossMask[start:end], weights[start:end])}
		grad := make([]T, len(row.Values))
		s, err := Value(&cfg, row, grad)
		if err != nil {
			t.Fatal(err)
		}
		total.Merge(s)
		for k, w := range Trainable(bools(c.LossMask[i]), want.Grad[i]) {
			if !near(float64(grad[k]), w, tolerance) {
				t.Errorf("case %d value: row %d: gradient %d is %v: want %v", number, i, k, grad[k], w)
			}
		}
	}
	m := total.Metrics()
	n := float64(len(Trainable(b.LossMask, b.LossMask)))
	if !near(m.ValueLoss, want.Loss, tolerance) {
		t.Errorf("case %d value: loss is %v: want %v", number, m.ValueLoss, want.Loss)
	}
	if !near(m.ValueClipFraction*n/(n+1e-8), want.ClipFraction, tolerance) {
		t.Errorf("case %d value: clip fraction is %v: want %v", number, m.ValueClipFraction, want.ClipFraction)
	}

	var kl map[string]float64
	if err := json.Unmarshal(c.Expected["kl"], &kl); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{K1, K2, K3} {
		var sum float64
		for i := range c.LossMask {
			logProbs, ref := take(i, c.LogProbs), take(i, c.RefLogProbs)
			for k := range logProbs {
				x, _ := KL(kind, float64(logProbs[k]), float64(ref[k]))
				sum += x
			}
		}
		if !near(sum/(n+1e-8), kl[kind], tolerance) {
			t.Errorf("case %d: %s is %v: want %v", number, kind, sum/(n+1e-8), kl[kind])
		}
	}
}

func maskBatch(masks [][]int) *batch.Batch {
	b := &batch.Batch{CuSeqLens: []int64{0}}
	for i, m := range masks {
		b.Rows = append(b.Rows, batch.Row{TrajectoryID: string(rune('a' + i))})
		b.LossMask = append(b.LossMask, bools(m)...)
		b.CuSeqLens = append(b.CuSeqLens, int64(len(b.LossMask)))
	}
	b.TokenIDs = make([]int32, len(b.LossMask))
	return b
}

func bools(m []int) []bool {
	out := make([]bool, len(m))
	for i, x := range m {
		out[i] = x != 0
	}
	return out
}

func convert[T Float](x []float64) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v)
	}
	return out
}
