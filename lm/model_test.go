package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/lm/kernel"
	"github.com/infinirl/infinirl/safetensors"
)

// shapes are small models that together have every kind of parameter.
func shapes() map[string]Config {
	base := Config{
		VocabSize: 19, HiddenSize: 12, IntermediateSize: 20, NumHiddenLayers: 2, NumAttentionHeads: 4,
		RopeTheta: 100, InitializerRange: 0.3, EmbeddingInit: 0.7,
	}
	with := func(change func(c *Config)) Config {
		c := base
		change(&c)
		return c
	}
	return map[string]Config{
		"llama": with(func(c *Config) { c.HeadDim = 6 }),
		"qwen2": with(func(c *Config) {
			c.NumKeyValueHeads, c.AttentionBias, c.TieWordEmbeddings, c.HeadDim = 2, true, true, 8
		}),
		"qwen3": with(func(c *Config) {
			c.NumKeyValueHeads, c.UseQKNorm, c.LogitScale, c.HeadDim = 1, true, 0.7, 4
		}),
		"everything": with(func(c *Config) {
			c.NumKeyValueHeads, c.UseQKNorm, c.AttentionBias, c.TieWordEmbeddings, c.LogitScale = 2, true, true, true, 1.3
			c.HeadDim, c.NumHiddenLayers = 2, 1
		}),
	}
}

// randomize gives biases, norms and the critic's head values that matter.
func randomize(m *Model, seed uint64) *Model {
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, p := range m.layout.parameters {
		if p.kind != kindNorm && p.kind != kindBias && p.kind != kindScore {
			continue
		}
		for i := range p.size() {
			m.params[p.offset+i] += float32(0.3 * rng.NormFloat64())
		}
	}
	m.changed()
	return m
}

func newTest(t testing.TB, c Config, critic bool, set string) *Model {
	t.Helper()
	m, err := newModel(c, critic, 7)
	if err != nil {
		t.Fatal(err)
	}
	if m.kernel, err = kernel.Select(set); err != nil {
		t.Skip("not on this processor: ", err)
	}
	m.Threads = 2
	return randomize(m, 3)
}

// randomRows returns n rows of up to most tokens with random targets.
func randomRows(rng *rand.Rand, n, most, vocabulary int) []Sequence {
	rows := make([]Sequence, n)
	for i := range rows {
		row := &rows[i]
		for range 2 + rng.IntN(most-1) {
			row.Tokens = append(row.Tokens, int32(rng.IntN(vocabulary)))
		}
		for t := 1; t < len(row.Tokens); t++ {
			if rng.IntN(3) > 0 {
				row.Targets = append(row.Targets, int32(t))
			}
		}
	}
	return rows
}

func outputs(rows []Sequence) [][]float32 {
	out := make([][]float32, len(rows))
	for i := range out {
		out[i] = make([]float32, len(rows[i].Targets))
	}
	return out
}

func eachSet(t *testing.T, test func(t *testing.T, set string)) {
	for _, set := range kernel.Available() {
		t.Run(set, func(t *testing.T) { t.Parallel(); test(t, set) })
	}
}

// The forward pass gives the twin's log-probs, entropies and values.
func TestForwardAgainstTwin(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, set string) {
		for name, config := range shapes() {
			rng := rand.New(rand.NewPCG(1, 2))
			rows := randomRows(rng, 6, 90, config.VocabSize)
			actor, critic := newTest(t, config, false, set), newTest(t, config, true, set)
			logProbs, entropies, values := outputs(rows), outputs(rows), outputs(rows)
			const temperature = 1.7
			if err := actor.LogProbs(t.Context(), rows, temperature, logProbs, entropies); err != nil {
				t.Fatal(err)
			}
			if err := critic.Values(t.Context(), rows, values); err != nil {
				t.Fatal(err)
			}
			for i, row := range rows {
				wantLogProbs, wantEntropies := newTwin(t, actor).logProbs(row, temperature)
				closeTo(t, fmt.Sprintf("%s: log-probs of row %d", name, i), logProbs[i], wantLogProbs, 2e-5)
				closeTo(t, fmt.Sprintf("%s: entropies of row %d", name, i), entropies[i], wantEntropies, 2e-5)
				closeTo(t, fmt.Sprintf("%s: values of row %d", name, i), values[i], newTwin(t, critic).values(row), 2e-5)
			}
		}
	})
}

func closeTo(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: element %d is %g, want %g", what, i, got[i], want[i])
		}
	}
}

// ways are the ways to train.
var ways = map[string]func(m *Model) *Model{
	"small": func(m *Model) *Model { return m },
	"large": func(m *Model) *Model {
		m.large = true
		return m
	},
	"layers computed again": func(m *Model) *Model {
		m.large, m.kept = true, 1
		return m
	},
	"adapter": func(m *Model) *Model { return testAdapter(m, LoRA{Rank: 3, Alpha: 4, Seed: 5}) },
	"adapter of a large model": func(m *Model) *Model {
		m.large = true
		return testAdapter(m, LoRA{Rank: 2, Targets: []string{"v_proj", "q_proj", "down_proj"}})
	},
	"adapter, layers computed again": func(m *Model) *Model {
		m.large, m.kept = true, 1
		return testAdapter(m, LoRA{Rank: 1, Targets: []string{"o_proj", "k_proj", "gate_proj", "up_proj"}})
	},
}

// testAdapter adapts a model, or for a critic an actor of its shape, with values that
// matter.
func testAdapter(m *Model, l LoRA) *Model {
	base, err := newModel(m.config, false, 7)
	if err != nil {
		panic(err)
	}
	base.Threads, base.kernel, base.large, base.kept = m.Threads, m.kernel, m.large, m.kept
	adapted, err := adapt(randomize(base, 3), l, m.IsCritic())
	if err != nil {
		panic(err)
	}
	rng := rand.New(rand.NewPCG(8, 8))
	for _, p := range adapted.trained.parameters {
		for i := range p.size() {
			adapted.values[p.offset+i] += float32(0.15 * rng.NormFloat64())
		}
	}
	return adapted
}

// The gradient of every kind of parameter is the slope of the twin's loss.
func TestGradientsAgainstTwin(t *testing.T) {
	t.Parallel()
	for name, config := range shapes() {
		for _, critic := range []bool{false, true} {
			for way, change := range ways {
				t.Run(fmt.Sprintf("%s, critic %v, %s", name, critic, way), func(t *testing.T) {
					t.Parallel()
					testGradients(t, config, critic, change)
				})
			}
		}
	}
}

func testGradients(t *testing.T, config Config, critic bool, way func(*Model) *Model) {
	const temperature = 0.8
	rng := rand.New(rand.NewPCG(5, 6))
	// The first row spans several query blocks, the second ends before its last
	// token, the third has a target behind every token.
	rows := []Sequence{
		{Tokens: randomTokens(rng, 2*queryBlock+9, config.VocabSize), Targets: []int32{1, 2, 40, 41, 70}},
		{Tokens: randomTokens(rng, 12, config.VocabSize), Targets: []int32{5, 7}},
		{Tokens: randomTokens(rng, 7, config.VocabSize), Targets: []int32{1, 2, 3, 4, 5, 6}},
	}
	// The loss is Σ a·logProb + b·entropy, or Σ a·value.
	a, b := outputs(rows), outputs(rows)
	for i := range rows {
		for j := range a[i] {
			a[i][j], b[i][j] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
		}
		a[i][0], b[i][1] = 0, 0
	}
	original := way(newTest(t, config, critic, "go"))
	tw := newTwin(t, original)
	loss := func() (sum float64) {
		for i, row := range rows {
			if critic {
				for j, v := range tw.values(row) {
					sum += float64(a[i][j]) * v
				}
				continue
			}
			logProbs, entropies := tw.logProbs(row, temperature)
			for j := range logProbs {
				sum += float64(a[i][j])*logProbs[j] + float64(b[i][j])*entropies[j]
			}
		}
		return sum
	}

	// Central differences for a few elements of every tensor.
	type slope struct {
		tensor string
		index  int
		want   float64
	}
	var slopes []slope
	for tensor, w := range tw.w {
		if _, trained := original.trained.byName[tensor]; !trained {
			continue
		}
		for range 2 {
			i := rng.IntN(len(w))
			if tensor == "model.embed_tokens.weight" { // of a token that occurs
				i = int(rows[0].Tokens[rng.IntN(9)])*config.HiddenSize + rng.IntN(config.HiddenSize)
			}
			const step = 1e-4
			saved := w[i]
			w[i] = saved + step
			above := loss()
			w[i] = saved - step
			below := loss()
			w[i] = saved
			slopes = append(slopes, slope{tensor, i, (above - below) / (2 * step)})
		}
	}

	for _, set := range kernel.Available() {
		m := way(newTest(t, config, critic, set))
		gradients := NewGradients(m)
		var err error
		if critic {
			err = m.AccumulateValue(t.Context(), rows, func(i int, _ []float32) []float32 { return a[i] }, gradients)
		} else {
			err = m.AccumulatePolicy(t.Context(), rows, temperature,
				func(i int, _, _ []float32) ([]float32, []float32) { return a[i], b[i] }, gradients)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]float32{}
		gradients.settle()
		for _, tensor := range m.trained.export("", gradients.flat) {
			if got[tensor.Name], err = safetensors.Float32s(tensor); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range slopes {
			if g := float64(got[s.tensor][s.index]); !(math.Abs(g-s.want) <= 2e-4*(1+math.Abs(s.want))) {
				t.Errorf("%s: gradient of %s[%d] is %g, want %g", set, s.tensor, s.index, g, s.want)
			}
		}
	}
}

func randomTokens(rng *rand.Rand, n, vocabulary int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(vocabulary))
	}
	return tokens
}

// A vocabulary too large for one block of logits goes the other way through
// the head, to the same bits as one row per target.
func TestHeadBlocks(t *testing.T) {
	t.Parallel()
	config := Config{VocabSize: logitBlock/2 - 3, HiddenSize: 2, IntermediateSize: 4, NumHiddenLayers: 1, NumAttentionHeads: 1, InitializerRange: 0.5}
	m := newTest(t, config, false, kernel.Available()[0])
	rng := rand.New(rand.NewPCG(1, 1))
	row := Sequence{Tokens: randomTokens(rng, 8, config.VocabSize), Targets: []int32{1, 3, 4, 6, 7}}
	loss := func(_ int, logProb, _ []float32) ([]float32, []float32) {
		dp, dh := make([]float32, len(logProb)), make([]float32, len(logProb))
		for i := range dp {
			dp[i], dh[i] = 1, 0.5
		}
		return dp, dh
	}
	whole, parts := NewGradients(m), NewGradients(m)
	if err := m.AccumulatePolicy(t.Context(), []Sequence{row}, 1, loss, whole); err != nil {
		t.Fatal(err)
	}
	for _, target := range row.Targets {
		if err := m.AccumulatePolicy(t.Context(), []Sequence{{row.Tokens, []int32{target}}}, 1, loss, parts); err != nil {
			t.Fatal(err)
		}
	}
	for i := range whole.flat {
		if math.Abs(float64(whole.flat[i]-parts.flat[i])) > 1e-5*(1+math.Abs(float64(whole.flat[i]))) {
			t.Fatalf("element %d: %g at once, %g in parts", i, whole.flat[i], parts.flat[i])
		}
	}
}

// Threads and the split into micro-batches leave every bit as it is.
func TestThreadsAndSplits(t *testing.T) {
	t.Parallel()
	for name, config := range shapes() {
		for way, change := range ways {
			rng := rand.New(rand.NewPCG(9, 9))
			rows := randomRows(rng, 13, 70, config.VocabSize)
			rows[4].Targets = nil
			var want []float32
			for _, split := range []struct{ threads, size int }{{1, 13}, {2, 13}, {5, 13}, {3, 1}, {2, 4}} {
				m := change(newTest(t, config, false, kernel.Available()[0]))
				m.Threads = split.threads
				gradients := NewGradients(m)
				for from := 0; from < len(rows); from += split.size {
					to := min(from+split.size, len(rows))
					err := m.AccumulatePolicy(t.Context(), rows[from:to], 1, func(row int, logProb, entropy []float32) ([]float32, []float32) {
						dp := make([]float32, len(logProb))
						for i := range dp {
							dp[i] = logProb[i] - 1
						}
						return dp, entropy
					}, gradients)
					if err != nil {
						t.Fatal(err)
					}
				}
				optimizer, err := NewAdamW(m, AdamWConfig{WeightDecay: 0.1, MaxGradNorm: 1})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := optimizer.Step(gradients, 1e-2); err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = m.values
				} else if !slices.Equal(m.values, want) {
					t.Errorf("%s, %s: %d threads, micro-batches of %d rows: other weights", name, way, split.threads, split.size)
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	config := shapes()["llama"]
	config.MaxPositionEmbeddings = 8
	actor, critic := newTest(t, config, false, "go"), newTest(t, config, true, "go")
	good := []Sequence{{Tokens: []int32{1, 2, 3}, Targets: []int32{1, 2}}}
	logProbs := outputs(good)
	zero := func(int, []float32, []float32) ([]float32, []float32) { return nil, nil }
	one := func(rows ...Sequence) error {
		return actor.LogProbs(t.Context(), rows, 1, outputs(rows), nil)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for want, err := range map[string]error{
		"critic has no log-probs":       critic.LogProbs(t.Context(), good, 1, logProbs, nil),
		"actor has no values":           actor.Values(t.Context(), good, logProbs),
		"temperature is 0":              actor.LogProbs(t.Context(), good, 0, logProbs, nil),
		"temperature is NaN":            actor.LogProbs(t.Context(), good, float32(math.NaN()), logProbs, nil),
		"logProbs for 0 rows":           actor.LogProbs(t.Context(), good, 1, nil, nil),
		"entropies[0] has length 0":     actor.LogProbs(t.Context(), good, 1, logProbs, [][]float32{nil}),
		"row 0: target 0 after 0":       one(Sequence{Tokens: []int32{1, 2}, Targets: []int32{0}}),
		"row 0: target 1 after 1":       one(Sequence{Tokens: []int32{1, 2}, Targets: []int32{1, 1}}),
		"row 0: target 2 after 0":       one(Sequence{Tokens: []int32{1, 2}, Targets: []int32{2}}),
		"row 1: token 19 at position 1": one(good[0], Sequence{Tokens: []int32{0, 19}}),
		"token -1 at position 0":        one(Sequence{Tokens: []int32{-1}}),
		"9 tokens exceed max_position":  one(Sequence{Tokens: make([]int32, 9)}),
		"gradients belong to a model":   actor.AccumulatePolicy(t.Context(), good, 1, zero, NewGradients(critic)),
		"row 0: loss gave 1":            actor.AccumulatePolicy(t.Context(), good, 1, func(int, []float32, []float32) ([]float32, []float32) { return []float32{1}, nil }, NewGradients(actor)),
		"context canceled":              actor.AccumulatePolicy(cancelled, good, 1, zero, NewGradients(actor)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want one line with %q", err, want)
		}
	}
	if err := one(Sequence{}, Sequence{Tokens: []int32{1}}); err != nil {
		t.Errorf("rows without targets: %v", err)
	}
	for want, change := range map[string]func(c *Config){
		"vocab_size is 0":          func(c *Config) { c.VocabSize = 0 },
		"num_hidden_layers is -1":  func(c *Config) { c.NumHiddenLayers = -1 },
		"head_dim is 3":            func(c *Config) { c.HeadDim = 3 },
		"num_key_value_heads 3":    func(c *Config) { c.NumKeyValueHeads = 3 },
		"rms_norm_eps is -1":       func(c *Config) { c.RMSNormEps = -1 },
		"rope_theta is NaN":        func(c *Config) { c.RopeTheta = math.NaN() },
		"more than 2^40":           func(c *Config) { c.VocabSize, c.HiddenSize, c.HeadDim = math.MaxInt32, math.MaxInt32, 2 },
		"logit_scale is +Inf":      func(c *Config) { c.LogitScale = math.Inf(1) },
		"embedding_init is -0.001": func(c *Config) { c.EmbeddingInit = -0.001 },
	} {
		c := shapes()["llama"]
		change(&c)
		if _, err := NewActor(c, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want %q", err, want)
		}
	}
	gradients := NewGradients(actor)
	gradients.flat[3] = float32(math.Inf(1))
	before := slices.Clone(actor.params)
	optimizer, err := NewAdamW(actor, AdamWConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := optimizer.Step(gradients, 1); !errors.Is(err, ErrNotFinite) || !slices.Equal(before, actor.params) || optimizer.Steps() != 0 {
		t.Errorf("infinite gradient: error %v, or the weights have changed", err)
	}
}

// A fresh critic gives zero everywhere; one made from an actor shares its trunk.
func TestFreshCritic(t *testing.T) {
	t.Parallel()
	actor, err := NewActor(shapes()["qwen2"], 1)
	if err != nil {
		t.Fatal(err)
	}
	critic, err := NewCriticFrom(actor)
	if err != nil {
		t.Fatal(err)
	}
	rows := randomRows(rand.New(rand.NewPCG(1, 1)), 3, 20, 19)
	values := outputs(rows)
	if err := critic.Values(t.Context(), rows, values); err != nil {
		t.Fatal(err)
	}
	for _, v := range slices.Concat(values...) {
		if v != 0 {
			t.Fatalf("value %g, want 0", v)
		}
	}
	if !slices.Equal(critic.layers[1].matrix[downs], actor.layers[1].matrix[downs]) || !slices.Equal(critic.embed, actor.embed) {
		t.Error("the trunk differs from the actor's")
	}
}

// A small model learns to copy: the second half of each row repeats the first.
func TestLearnsToCopy(t *testing.T) {
	t.Parallel()
	config := Config{VocabSize: 16, HiddenSize: 32, IntermediateSize: 64, NumHiddenLayers: 2, NumAttentionHeads: 2, TieWordEmbeddings: true, InitializerRange: 0.1, EmbeddingInit: 0.3}
	m, err := NewActor(config, 1)
	if err != nil {
		t.Fatal(err)
	}
	optimizer, err := NewAdamW(m, AdamWConfig{Beta2: 0.99, MaxGradNorm: 1})
	if err != nil {
		t.Fatal(err)
	}
	const half, batch, steps = 8, 32, 400
	rng := rand.New(rand.NewPCG(1, 1))
	gradients := NewGradients(m)
	var loss float64
	for step := range steps {
		rows := make([]Sequence, batch)
		for i := range rows {
			tokens := randomTokens(rng, half, config.VocabSize)
			rows[i].Tokens = append(tokens, tokens...)
			for t := half; t < 2*half; t++ {
				rows[i].Targets = append(rows[i].Targets, int32(t))
			}
		}
		losses := make([]float64, batch)
		gradients.Zero()
		err := m.AccumulatePolicy(t.Context(), rows, 1, func(row int, logProb, _ []float32) ([]float32, []float32) {
			dp := make([]float32, len(logProb))
			for i := range dp {
				dp[i] = -1.0 / (batch * half)
				losses[row] -= float64(logProb[i]) / (batch * half)
			}
			return dp, nil
		}, gradients)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := optimizer.Step(gradients, 5e-3*min(1, float64(step+1)/20)*(1-float64(step)/steps)); err != nil {
			t.Fatal(err)
		}
		loss = 0
		for _, l := range losses {
			loss += l
		}
	}
	if !(loss < 0.02) {
		t.Errorf("loss %g nats a token after training, want below 0.02", loss)
	}
}
