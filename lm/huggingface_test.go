package lm

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/safetensors"
)

// checkpoints are folders of models with what Hugging Face's own code computes with
// them: small ones, and those of compare/run.sh if INFINIRL_COMPARE names their folder.
func checkpoints(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", "hf-*"))
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("INFINIRL_COMPARE"); dir != "" {
		made, err := filepath.Glob(filepath.Join(dir, "*", "expected.json"))
		if err != nil || len(made) < 4 {
			t.Fatalf("INFINIRL_COMPARE: %s: %d models, error %v: want four", dir, len(made), err)
		}
		for _, path := range made {
			found = append(found, filepath.Dir(path))
		}
	}
	return found
}

// expected reads expected.json: rows, all of whose tokens but the first are targets,
// and their log-probs.
func expected(t *testing.T, dir string) (rows []Sequence, logProbs [][]float64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var content []struct {
		Tokens   []int32   `json:"tokens"`
		LogProbs []float64 `json:"log_probs"`
	}
	if err := json.Unmarshal(data, &content); err != nil || len(content) == 0 {
		t.Fatal(len(content), err)
	}
	for _, c := range content {
		row := Sequence{Tokens: c.Tokens}
		for i := range c.LogProbs {
			row.Targets = append(row.Targets, int32(i+1))
		}
		rows, logProbs = append(rows, row), append(logProbs, c.LogProbs)
	}
	return rows, logProbs
}

// compareLogProbs checks them against expected.json within 1e-4.
func compareLogProbs(t *testing.T, m *Model, dir string) {
	t.Helper()
	rows, want := expected(t, dir)
	got := outputs(rows)
	if err := m.LogProbs(t.Context(), rows, 1, got, nil); err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i := range want {
		for j := range want[i] {
			worst = math.Max(worst, math.Abs(float64(got[i][j])-want[i][j]))
		}
	}
	t.Logf("log-probs differ by at most %.2g", worst)
	if !(worst <= 1e-4) {
		t.Errorf("log-probs differ by %g, want at most 1e-4", worst)
	}
}

// Checkpoints of Hugging Face load and give Hugging Face's log-probs.
func TestHuggingFace(t *testing.T) {
	t.Parallel()
	for _, dir := range checkpoints(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			compareLogProbs(t, m, dir)
		})
	}
}

// What is wrong with a checkpoint is said in one line.
func TestUnusableCheckpoints(t *testing.T) {
	t.Parallel()
	edit := func(name, old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(data), old) {
				t.Fatalf("%s: %v, or no %q in it", path, err, old)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(data), old, new)), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	const second = "model-00002-of-00003.safetensors"
	for want, damage := range map[string]func(t *testing.T, dir string){
		`model_type "gemma3" (llama, qwen2 or qwen3) is not supported`: edit("config.json", `"llama"`, `"gemma3"`),
		`rope scaling of type "yarn" is not supported`:                 edit("config.json", `"llama3"`, `"yarn"`),
		`low_freq_factor is 1 and high_freq_factor 0`:                  edit("config.json", `"high_freq_factor": 4.0`, `"high_freq_factor": 0`),
		`has shape [23 16], the configuration asks for [24 16]`:        edit("config.json", `"vocab_size": 23`, `"vocab_size": 24`),
		`shard ` + second + `:`: func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, second)); err != nil {
				t.Fatal(err)
			}
		},
		`truncated:`: func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, second), 4000); err != nil {
				t.Fatal(err)
			}
		},
		`which the index does not place there`:             edit(indexFile, `"model.layers.0.mlp.down_proj.weight": "`+second, `"model.layers.0.mlp.down_proj.weight": "model-00001-of-00003.safetensors`),
		`lacks tensor "model.layers.9.x", which the index`: edit(indexFile, `"weight_map": {`, `"weight_map": {"model.layers.9.x": "`+second+`",`),
		`want the name of a file beside the index`:         edit(indexFile, second, `../`+second),
		`weight_map lists no tensors`:                      edit(indexFile, `"weight_map"`, `"map"`),
		`invalid character`:                                edit(indexFile, `{`, `[`),
		`model.safetensors: no such file or directory`: func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, indexFile)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "hf-llama3"))); err != nil {
				t.Fatal(err)
			}
			damage(t, dir)
			if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %s", err, want)
			}
		})
	}
}

// An infinity in any place of a tensor is found, whatever the type of its elements.
func TestNotFiniteWeights(t *testing.T) {
	t.Parallel()
	const n = 300
	for dtype, infinity := range map[safetensors.DType][]byte{
		safetensors.F32: {0, 0, 0x80, 0x7f}, safetensors.BF16: {0x80, 0xff}, safetensors.F16: {0, 0x7c}, safetensors.F64: {0, 0, 0, 0, 0, 0, 0xf0, 0x7f},
	} {
		for _, at := range []int{0, 7, 8, n * n / 2, n*n - 1} {
			l := &layout{byName: map[string]parameter{"w": {name: "w", in: n, out: n}}, size: n * n}
			l.parameters = []parameter{l.byName["w"]}
			tensor := safetensors.Tensor{Name: "w", DType: dtype, Shape: []int{n, n}, Data: make([]byte, n*n*dtype.Size())}
			flat := make([]float32, n*n)
			if err := l.load("", []safetensors.Tensor{tensor}, flat); err != nil {
				t.Fatal(err)
			}
			copy(tensor.Data[at*dtype.Size():], infinity)
			err := l.load("", []safetensors.Tensor{tensor}, flat)
			if err == nil || !strings.Contains(err.Error(), "Inf") || !strings.Contains(err.Error(), "element ") {
				t.Errorf("%s: element %d: error %v", dtype, at, err)
			}
		}
	}
}

// A configuration with scaled rotary embedding survives Save and Load.
func TestRopeScaling(t *testing.T) {
	t.Parallel()
	for _, scaling := range []RopeScaling{
		{Type: "linear", Factor: 4},
		{Type: "llama3", Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositionEmbeddings: 64},
	} {
		c := shapes()["llama"]
		c.RopeScaling = scaling
		m, err := NewActor(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(dir)
		if err != nil || loaded.Config() != m.Config() {
			t.Errorf("%+v, error %v, want %+v", loaded.Config().RopeScaling, err, scaling)
		}
	}
	// Short waves stay, long ones are stretched, those between are in between.
	s := RopeScaling{Type: "llama3", Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositionEmbeddings: 8192}
	for wavelength, want := range map[float64]float64{100: 1, 2048: 1, 8192: 1.0 / 8, 1e5: 1.0 / 8, 8192 / 2.5: 0.5 + 0.5/8} {
		f := 2 * math.Pi / wavelength
		if got := s.frequency(f) / f; math.Abs(got-want) > 1e-12 {
			t.Errorf("wavelength %g: frequency times %g, want %g", wavelength, got, want)
		}
	}
	if _, err := NewActor(Config{VocabSize: 2, HiddenSize: 4, IntermediateSize: 1, NumHiddenLayers: 1, NumAttentionHeads: 1, RopeScaling: RopeScaling{Type: "dynamic", Factor: 2}}, 1); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("rope scaling of type dynamic: error %v", err)
	}
}
