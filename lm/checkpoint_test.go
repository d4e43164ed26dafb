package lm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/safetensors"
)

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	for name, config := range shapes() {
		for _, critic := range []bool{false, true} {
			m := newTest(t, config, critic, "go")
			dir := filepath.Join(t.TempDir(), "new", "folder")
			for range 2 { // the second time over the first
				if err := m.Save(dir); err != nil {
					t.Fatal(err)
				}
			}
			loaded, err := Load(dir)
			if err != nil {
				t.Fatalf("%s, critic %v: %v", name, critic, err)
			}
			data, err := m.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			embedded, err := Unmarshal(data)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []*Model{loaded, embedded} {
				if got.Config() != m.Config() || got.IsCritic() != critic || !slices.Equal(got.params, m.params) {
					t.Errorf("%s, critic %v: the loaded model differs: %+v", name, critic, got.Config())
				}
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 2 {
				t.Errorf("files %v, %v: want two", files, err)
			}
		}
	}
}

// Every damage is one error of one line, not a panic and not a wrong model.
func TestDamagedCheckpoint(t *testing.T) {
	t.Parallel()
	m := newTest(t, shapes()["everything"], false, "go")
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		damaged := slices.Clone(data)
		if rng.IntN(2) == 0 {
			damaged = damaged[:rng.IntN(len(data))]
		} else {
			damaged[rng.IntN(len(data))] ^= byte(1 << rng.IntN(8))
		}
		if _, err := Unmarshal(damaged); err == nil || strings.Contains(err.Error(), "\n") {
			t.Fatalf("error %v", err)
		}
	}
	file, err := safetensors.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(tensors []safetensors.Tensor) []safetensors.Tensor) error {
		var buffer bytes.Buffer
		metadata := map[string]string{metadataConfig: file.Metadata[metadataConfig]}
		if err := safetensors.Write(&buffer, change(slices.Clone(file.Tensors)), metadata); err != nil {
			t.Fatal(err)
		}
		_, err := Unmarshal(buffer.Bytes())
		return err
	}
	D := m.config.HiddenSize
	for want, err := range map[string]error{
		`tensor "model.embed_tokens.weight" is missing`: with(func(ts []safetensors.Tensor) []safetensors.Tensor { return ts[1:] }),
		`tensor "extra" does not belong`: with(func(ts []safetensors.Tensor) []safetensors.Tensor {
			return append(ts, safetensors.New("extra", []int{1}, []float32{1}))
		}),
		`has shape [1 12], the configuration asks for [19 12]`: with(func(ts []safetensors.Tensor) []safetensors.Tensor {
			ts[0] = safetensors.New(ts[0].Name, []int{1, D}, make([]float32, D))
			return ts
		}),
		`has dtype I32`: with(func(ts []safetensors.Tensor) []safetensors.Tensor {
			ts[0].DType = safetensors.I32
			return ts
		}),
		`element 1 is NaN`: with(func(ts []safetensors.Tensor) []safetensors.Tensor {
			ts[0].Data = slices.Clone(ts[0].Data)
			copy(ts[0].Data[4:], []byte{0, 0, 0xc0, 0x7f})
			return ts
		}),
		`"model.layers.0.self_attn.o_proj.bias" is not zero`: with(func(ts []safetensors.Tensor) []safetensors.Tensor {
			for i := range ts {
				if strings.HasSuffix(ts[i].Name, outputBias) {
					ts[i] = safetensors.New(ts[i].Name, []int{D}, slices.Repeat([]float32{1}, D))
				}
			}
			return ts
		}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	// A configuration that asks for terabytes is refused before they are.
	huge := strings.Replace(file.Metadata[metadataConfig], `"vocab_size": 19`, `"vocab_size": 2000000000`, 1)
	deep := strings.Replace(file.Metadata[metadataConfig], `"num_hidden_layers": 1`, `"num_hidden_layers": 2000000000`, 1)
	for config, want := range map[string]string{huge: "asks for [2000000000 12]", deep: "asks for 2000000000 layers"} {
		if _, err := unmarshal([]byte(config), data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("error %v of an empty folder", err)
	}
}

// Every flipped bit of a saved model's config.json and of its weights' header, and
// any of its weights, is found at load; so is a folder with something else.
func TestEveryFlippedBitIsFoundAtLoad(t *testing.T) {
	t.Parallel()
	m := newTest(t, shapes()["everything"], false, "go")
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{configFile, weightsFile} {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 * (len(data) - 1) { // the last byte of config.json is a newline
			if name == weightsFile && i > 8*200 && i%997 != 0 {
				continue
			}
			damaged := slices.Clone(data)
			damaged[i/8] ^= 1 << (i % 8)
			if err := os.WriteFile(path, damaged, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err == nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s: bit %d of byte %d is flipped: error %v", name, i%8, i/8, err)
			}
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(dir); err != nil {
		t.Error(err)
	}
	// Weights of a terabyte that the configuration does not ask for are not read.
	header := `{"x":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}}`
	sparse := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	path := filepath.Join(dir, weightsFile)
	if err := os.WriteFile(path, sparse, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(sparse))+1<<40); err == nil {
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), `"x" does not belong`) {
			t.Errorf("a sparse file of a terabyte: error %v", err)
		}
	}
	if _, err := os.Stat("/dev/zero"); err == nil {
		for _, name := range []string{weightsFile, configFile} {
			if err := errors.Join(os.Remove(filepath.Join(dir, name)), os.Symlink("/dev/zero", filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); !errors.Is(err, bounded.ErrNotRegular) {
				t.Errorf("%s is /dev/zero: error %v", name, err)
			}
		}
	}
}

func TestHuggingFaceConfigs(t *testing.T) {
	t.Parallel()
	const shape = `"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2`
	for extra, want := range map[string]func(c Config) bool{
		`"model_type": "llama"`: func(c Config) bool {
			return !c.AttentionBias && !c.UseQKNorm && c.HeadDim == 4 && c.NumKeyValueHeads == 2 && c.RopeTheta == 10000
		},
		`"model_type": "qwen2", "rope_theta": 1e6`:       func(c Config) bool { return c.AttentionBias && !c.UseQKNorm && c.RopeTheta == 1e6 },
		`"model_type": "qwen3", "attention_bias": false`: func(c Config) bool { return !c.AttentionBias && c.UseQKNorm && c.HeadDim == 128 },
		`"model_type": "qwen3", "head_dim": 6`:           func(c Config) bool { return c.HeadDim == 6 },
		`"rope_theta": 5, "rope_scaling": {"type": "linear", "factor": 4}`: func(c Config) bool {
			return c.RopeTheta == 5 && c.RopeScaling == RopeScaling{Type: "linear", Factor: 4}
		},
		`"rope_scaling": null, "rope_parameters": {"rope_type": "default", "rope_theta": 777.0}`: func(c Config) bool { return c.RopeTheta == 777 },
	} {
		c, err := unmarshalConfig([]byte("{" + shape + ", " + extra + "}"))
		if err != nil || !want(c) {
			t.Errorf("%s: %+v, %v", extra, c, err)
		}
	}
	for extra, want := range map[string]string{
		`"model_type": "gemma"`:                             `model_type "gemma"`,
		`"hidden_act": "gelu"`:                              `hidden_act "gelu"`,
		`"rope_scaling": {"rope_type": "llama3"}`:           `rope scaling: factor is 0`,
		`"rope_scaling": {"type": "yarn"}`:                  `rope scaling of type "yarn"`,
		`"layer_types": ["sliding_attention"]`:              `"sliding_attention"`,
		`"rope_interleaved": true`:                          `rope_interleaved`,
		`"quantization_config": {"bits": 4}`:                `quantization_config`,
		`"rope_parameters": {"partial_rotary_factor": 0.5}`: `partial_rotary_factor 0.5`,
		`"mlp_bias": true`:                                  `mlp_bias`,
		`"use_sliding_window": true`:                        `use_sliding_window`,
		`"vocab_size": "8"`:                                 `vocab_size`,
		`"head_dim": 5`:                                     `head_dim is 5`,
	} {
		if _, err := unmarshalConfig([]byte("{" + shape + ", " + extra + "}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", extra, err, want)
		}
	}
}

// A run that is saved and loaded in the middle ends with the same bits.
func TestResume(t *testing.T) {
	t.Parallel()
	config := shapes()["everything"]
	rows := randomRows(rand.New(rand.NewPCG(4, 4)), 4, 20, config.VocabSize)
	settings := AdamWConfig{WeightDecay: 0.1, MaxGradNorm: 0.5}
	train := func(m *Model, optimizer *AdamW, steps int) {
		gradients := NewGradients(m)
		for range steps {
			gradients.Zero()
			if err := m.AccumulatePolicy(t.Context(), rows, 1, func(_ int, logProb, _ []float32) ([]float32, []float32) {
				return logProb, nil
			}, gradients); err != nil {
				t.Fatal(err)
			}
			if _, err := optimizer.Step(gradients, 1e-2); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh := func(m *Model) *AdamW {
		optimizer, err := NewAdamW(m, settings)
		if err != nil {
			t.Fatal(err)
		}
		return optimizer
	}
	m := newTest(t, config, false, "go")
	optimizer := fresh(m)
	train(m, optimizer, 3)
	dir := t.TempDir()
	state := filepath.Join(dir, "optimizer.safetensors")
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := optimizer.Save(state); err != nil {
		t.Fatal(err)
	}
	train(m, optimizer, 3)

	resumed, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	resumed.kernel = m.kernel
	again := fresh(resumed)
	if err := again.Load(state); err != nil {
		t.Fatal(err)
	}
	train(resumed, again, 3)
	if !slices.Equal(resumed.params, m.params) || again.Steps() != 6 {
		t.Error("the resumed run ends elsewhere")
	}

	data, err := again.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{"truncated": data[:len(data)-1], "another model's": func() []byte {
		m := newTest(t, shapes()["llama"], false, "go")
		data, err := fresh(m).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}()} {
		before := slices.Clone(again.m)
		if err := again.Unmarshal(damaged); err == nil {
			t.Errorf("%s: no error", name)
		}
		if !slices.Equal(before, again.m) || again.Steps() != 6 {
			t.Errorf("%s: the state has changed", name)
		}
	}
}

// Whatever the bytes, Unmarshal gives an error or a model that gives them back.
func FuzzUnmarshal(f *testing.F) {
	m, err := NewCritic(Config{VocabSize: 2, HiddenSize: 2, IntermediateSize: 1, NumHiddenLayers: 1, NumAttentionHeads: 1}, 1)
	if err != nil {
		f.Fatal(err)
	}
	data, err := m.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Unmarshal(data)
		if err != nil {
			return
		}
		again, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Unmarshal(again); err != nil || got.Config() != m.Config() || !slices.Equal(got.params, m.params) {
			t.Fatalf("%+v became %+v, %v", m.Config(), got, err)
		}
	})
}
