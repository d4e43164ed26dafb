package lm

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/safetensors"
)

// Adapters of PEFT load and give PEFT's log-probs and gradients; saved again, they are
// the same. Where compare/run.sh asks for it, they are left for PEFT to read.
func TestPEFT(t *testing.T) {
	t.Parallel()
	for _, dir := range checkpoints(t) {
		from := filepath.Join(dir, "adapter")
		if !IsAdapter(from) {
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			base, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			m, err := LoadAdapter(base, from)
			if err != nil {
				t.Fatal(err)
			}
			compareLogProbs(t, m, from)
			comparePEFTGradients(t, m, from)
			merged, err := m.Merged()
			if err != nil {
				t.Fatal(err)
			}
			compareLogProbs(t, merged, from)
			compareLogProbs(t, base, dir)

			again := filepath.Join(t.TempDir(), "adapter")
			if filepath.Dir(dir) != "testdata" {
				again = filepath.Join(dir, "adapter-again")
			}
			if err := m.Save(again); err != nil {
				t.Fatal(err)
			}
			loaded, err := LoadAdapter(base, again)
			if err != nil || !slices.Equal(loaded.values, m.values) {
				t.Errorf("saved and loaded, the adapter has other values, or error %v", err)
			}
			a, _ := m.Adapter()
			b, _ := loaded.Adapter()
			if a.Rank != b.Rank || a.Alpha != b.Alpha || !slices.Equal(a.Targets, b.Targets) {
				t.Errorf("%+v became %+v", a, b)
			}
		})
	}
}

// comparePEFTGradients checks the gradient of minus the mean log-prob of all tokens.
func comparePEFTGradients(t *testing.T, m *Model, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "gradients.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := safetensors.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, m.trained.size)
	if err := m.trained.load("", file.Tensors, want); err != nil {
		t.Fatal(err)
	}
	rows, _ := expected(t, dir)
	tolerance := 1e-4
	if m.large { // thirty layers in float32
		tolerance = 1e-3
	}
	count := 0
	for _, row := range rows {
		count += len(row.Targets)
	}
	got := NewGradients(m)
	err = m.AccumulatePolicy(t.Context(), rows, 1, func(_ int, logProb, _ []float32) ([]float32, []float32) {
		return slices.Repeat([]float32{-1 / float32(count)}, len(logProb)), nil
	}, got)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for _, p := range m.trained.parameters {
		difference, norm := 0.0, 0.0
		for i := p.offset; i < p.offset+p.size(); i++ {
			difference += math.Pow(float64(got.flat[i])-float64(want[i]), 2)
			norm += math.Pow(float64(want[i]), 2)
		}
		if !(math.Sqrt(difference) <= tolerance*math.Sqrt(norm)) || norm == 0 {
			t.Errorf("gradient of %s: off by %.2g of its norm %.2g, want at most %g", p.name, math.Sqrt(difference/norm), math.Sqrt(norm), tolerance)
		}
		worst = max(worst, math.Sqrt(difference/norm))
	}
	t.Logf("gradients differ by at most %.2g of their norm", worst)
}

// A fresh adapter changes nothing, shares the base's memory, and leaves it alone when it
// is trained; a copy is independent.
func TestAdapt(t *testing.T) {
	t.Parallel()
	base := newTest(t, shapes()["qwen2"], false, "go")
	before := slices.Clone(base.params)
	m, err := Adapt(base, LoRA{Rank: 2, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := m.Adapter(); !ok || l.Alpha != 4 || len(l.Targets) != 7 || m.Base() != base || &m.params[0] != &base.params[0] {
		t.Errorf("adapter %+v, %v, or other memory than the base's", l, ok)
	}
	rows := []Sequence{{Tokens: []int32{1, 2, 3, 4, 5}, Targets: []int32{1, 2, 4}}}
	logProbs := func(m *Model) []float32 {
		out := outputs(rows)
		if err := m.LogProbs(t.Context(), rows, 1, out, nil); err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	if !slices.Equal(logProbs(m), logProbs(base)) {
		t.Error("a fresh adapter changes the log-probs")
	}
	clone := m.Clone()
	optimizer, err := NewAdamW(m, AdamWConfig{})
	if err != nil {
		t.Fatal(err)
	}
	gradients := NewGradients(m)
	for range 3 {
		gradients.Zero()
		if err := m.AccumulatePolicy(t.Context(), rows, 1, func(int, []float32, []float32) ([]float32, []float32) { return []float32{-1, -1, -1}, nil }, gradients); err != nil {
			t.Fatal(err)
		}
		if _, err := optimizer.Step(gradients, 0.01); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(before, base.params) {
		t.Error("training the adapter has changed the base")
	}
	if slices.Equal(logProbs(m), logProbs(base)) || !slices.Equal(logProbs(clone), logProbs(base)) {
		t.Error("training has not changed the adapter, or has changed its copy")
	}
	if err := clone.CopyFrom(m); err != nil || !slices.Equal(logProbs(clone), logProbs(m)) {
		t.Errorf("a copy differs, or error %v", err)
	}
	if m.NumTrained() >= base.NumParameters() || m.NumParameters() != base.NumParameters()+m.NumTrained() {
		t.Errorf("%d of %d parameters are trained, the base has %d", m.NumTrained(), m.NumParameters(), base.NumParameters())
	}
	critic, err := AdaptCritic(base, LoRA{Rank: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	critic.values[len(critic.values)-alignment] = 3
	if err := critic.Save(dir); err != nil {
		t.Fatal(err)
	}
	if loaded, err := LoadAdapter(base, dir); err != nil || !loaded.IsCritic() || !slices.Equal(loaded.values, critic.values) {
		t.Errorf("a critic was saved and loaded: error %v", err)
	}
	for want, err := range map[string]error{
		"lora.rank: -1":          second(Adapt(base, LoRA{Rank: -1})),
		"lora.rank: 0":           second(Adapt(base, LoRA{})),
		"lora.alpha: -2":         second(Adapt(base, LoRA{Rank: 1, Alpha: -2})),
		`"lm_head"`:              second(Adapt(base, LoRA{Rank: 1, Targets: []string{"lm_head"}})),
		"is there twice":         second(Adapt(base, LoRA{Rank: 1, Targets: []string{"q_proj", "q_proj"}})),
		"has an adapter already": second(Adapt(m, LoRA{Rank: 1})),
		"a critic cannot be":     second(Adapt(newTest(t, shapes()["qwen2"], true, "go"), LoRA{Rank: 1})),
		"Merged gives a model":   second(m.Marshal()),
		"holds an adapter":       second(Load(dir)),
		"belongs to a model":     m.CopyFrom(base),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// What is wrong with an adapter is said in one line.
func TestUnusableAdapters(t *testing.T) {
	t.Parallel()
	base, err := Load(filepath.Join("testdata", "hf-qwen3"))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, adapterConfigFile)
			data, err := os.ReadFile(path)
			if err == nil && !strings.Contains(string(data), old) {
				err = errors.New("nothing to replace")
			}
			return errors.Join(err, os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o666))
		}
	}
	for want, damage := range map[string]func(dir string) error{
		`peft_type "IA3" (LORA) is not supported`: edit(`"LORA"`, `"IA3"`),
		`use_dora is not supported`:               edit(`"use_dora": false`, `"use_dora": true`),
		`rank_pattern is not supported`:           edit(`"rank_pattern": {}`, `"rank_pattern": {"q_proj": 4}`),
		`layers_to_transform is not supported`:    edit(`"layers_to_transform": null`, `"layers_to_transform": [0]`),
		`modules_to_save "lm_head" is not`:        edit(`"modules_to_save": null`, `"modules_to_save": ["lm_head"]`),
		`"wte"`:                                   edit(`"q_proj"`, `"wte"`),
		`does not belong to this configuration`:   edit(`"q_proj",`, ``),
		`has shape [2 24]`:                        edit(`"r": 2`, `"r": 3`),
		`r is 0`:                                  edit(`"r": 2`, `"r": 0`),
		`no such file`:                            func(dir string) error { return os.Remove(filepath.Join(dir, adapterWeightsFile)) },
		`truncated`:                               func(dir string) error { return os.Truncate(filepath.Join(dir, adapterWeightsFile), 5000) },
		`base with other weights`: func(dir string) error {
			other := base.Clone()
			other.params[0]++
			m, err := Adapt(other, LoRA{Rank: 2})
			return errors.Join(err, m.Save(dir))
		},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "hf-qwen3", "adapter"))); err != nil {
			t.Fatal(err)
		}
		if err := damage(dir); err != nil {
			t.Fatal(want, err)
		}
		if _, err := LoadAdapter(base, dir); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %s", err, want)
		}
	}
}
