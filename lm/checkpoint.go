package lm

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/safetensors"
)

// The files of a model directory, as Hugging Face names them.
const (
	configFile  = "config.json"
	weightsFile = "model.safetensors"
)

// Metadata of the weights file beside Hugging Face's "format".
const (
	metadataConfig   = "config"   // config.json, so that the file alone is a model
	metadataChecksum = "checksum" // CRC-32C of the tensors' bytes, in the order of the file
)

// Save writes config.json and model.safetensors to dir, which it creates. Each
// file is written under a temporary name and renamed.
func (m *Model) Save(dir string) error {
	config, err := marshalConfig(m.config, m.layout.critic)
	if err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	data, err := m.Marshal()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	if err := writeFile(filepath.Join(dir, weightsFile), data); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	if err := writeFile(filepath.Join(dir, configFile), append(config, '\n')); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	return nil
}

// Load reads a model that Save wrote, or a Llama, Qwen2 or Qwen3 checkpoint of
// Hugging Face in one model.safetensors (F32, F16 or BF16).
func Load(dir string) (*Model, error) {
	config, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil {
		return nil, fmt.Errorf("lm: load: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, weightsFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, sharded := os.Stat(filepath.Join(dir, weightsFile+".index.json")); sharded == nil {
			err = fmt.Errorf("%s is split into shards; join them into one %s", dir, weightsFile)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lm: load: %w", err)
	}
	m, err := unmarshal(config, data)
	if err != nil {
		return nil, fmt.Errorf("lm: load %s: %w", dir, err)
	}
	return m, nil
}

// Marshal returns the model as the content of one safetensors file, which holds
// its configuration, too.
func (m *Model) Marshal() ([]byte, error) {
	config, err := marshalConfig(m.config, m.layout.critic)
	if err != nil {
		return nil, fmt.Errorf("lm: marshal: %w", err)
	}
	tensors := m.layout.export("", m.params)
	if m.config.UseQKNorm && m.config.AttentionBias {
		// Qwen3 has no biases, or four; the fourth is zero here.
		for layer := range m.config.NumHiddenLayers {
			tensors = append(tensors, safetensors.New(outputBias(layer), []int{m.config.HiddenSize}, make([]float32, m.config.HiddenSize)))
		}
	}
	return encode(tensors, map[string]string{"format": "pt", metadataConfig: string(config)})
}

// Unmarshal is the inverse of Marshal.
func Unmarshal(data []byte) (*Model, error) {
	m, err := unmarshal(nil, data)
	if err != nil {
		return nil, fmt.Errorf("lm: unmarshal: %w", err)
	}
	return m, nil
}

// unmarshal reads a weights file. Without config the file's own is used.
func unmarshal(config, data []byte) (*Model, error) {
	file, err := decode(data)
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = []byte(file.Metadata[metadataConfig])
		if len(config) == 0 {
			return nil, fmt.Errorf("the file's metadata lacks %q", metadataConfig)
		}
	}
	c, err := unmarshalConfig(config)
	if err != nil {
		return nil, err
	}
	tensors := file.Tensors[:0:0]
	critic := false
	for _, t := range file.Tensors {
		switch {
		case t.Name == "lm_head.weight" && c.TieWordEmbeddings:
			continue // a copy of the embedding that some exporters write
		case t.Name == "score.weight":
			critic = true
		}
		if zero, err := isZeroOutputBias(c, t); err != nil {
			return nil, err
		} else if !zero {
			tensors = append(tensors, t)
		}
	}
	m, err := allocate(c, critic)
	if err != nil {
		return nil, err
	}
	return m, m.layout.load("", tensors, m.params)
}

func outputBias(layer int) string {
	return fmt.Sprintf("model.layers.%d.self_attn.o_proj.bias", layer)
}

// isZeroOutputBias recognises the one parameter of Llama and Qwen3 with
// attention_bias that this model lacks. It may be dropped if it is zero.
func isZeroOutputBias(c Config, t safetensors.Tensor) (bool, error) {
	for layer := range c.NumHiddenLayers {
		if t.Name != outputBias(layer) {
			continue
		}
		values, err := safetensors.Float32s(t)
		if err != nil {
			return false, err
		}
		for _, x := range values {
			if x != 0 {
				return false, fmt.Errorf("tensor %q is not zero; a bias of the output projection is not supported", t.Name)
			}
		}
		return true, nil
	}
	return false, nil
}

// export returns a flat array of the layout as tensors of Hugging Face's shapes.
func (l *layout) export(prefix string, flat []float32) []safetensors.Tensor {
	var tensors []safetensors.Tensor
	for _, p := range l.parameters {
		values := flat[p.offset : p.offset+p.size()]
		if p.projection() {
			values = transpose(values, p.in, p.out)
		}
		tensors = append(tensors, safetensors.New(prefix+p.name, p.shape(), values))
	}
	return tensors
}

// load is the inverse of export. Every parameter must be there, of the right
// shape and finite, and nothing else may be.
func (l *layout) load(prefix string, tensors []safetensors.Tensor, flat []float32) error {
	missing := make(map[string]parameter, len(l.parameters))
	for _, p := range l.parameters {
		missing[prefix+p.name] = p
	}
	for _, t := range tensors {
		p, ok := missing[t.Name]
		if !ok {
			return fmt.Errorf("tensor %q does not belong to this configuration", t.Name)
		}
		delete(missing, t.Name)
		if fmt.Sprint(t.Shape) != fmt.Sprint(p.shape()) {
			return fmt.Errorf("tensor %q has shape %v, the configuration asks for %v", t.Name, t.Shape, p.shape())
		}
		values, err := safetensors.Float32s(t)
		if err != nil {
			return err
		}
		for i, x := range values {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("tensor %q: element %d is %g", t.Name, i, x)
			}
		}
		if p.projection() {
			values = transpose(values, p.out, p.in)
		}
		copy(flat[p.offset:p.offset+p.size()], values)
	}
	for _, p := range l.parameters {
		if _, ok := missing[prefix+p.name]; ok {
			return fmt.Errorf("tensor %q is missing", prefix+p.name)
		}
	}
	return nil
}

// transpose returns the transpose of x [rows, cols].
func transpose(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for i := range rows {
		for j := range cols {
			y[j*rows+i] = x[i*cols+j]
		}
	}
	return y
}

// Marshal returns the optimizer's state as the content of a safetensors file:
// the number of steps and, by the names of the parameters, both moments. A run
// that loads model and optimizer goes on bit for bit.
func (o *AdamW) Marshal() ([]byte, error) {
	tensors := []safetensors.Tensor{safetensors.New("step", nil, []int64{o.steps})}
	tensors = append(tensors, o.model.layout.export("exp_avg.", o.m)...)
	tensors = append(tensors, o.model.layout.export("exp_avg_sq.", o.v)...)
	return encode(tensors, map[string]string{"format": "pt"})
}

// Unmarshal restores the state that Marshal returned. On an error the state is
// unchanged.
func (o *AdamW) Unmarshal(data []byte) error {
	if err := o.unmarshal(data); err != nil {
		return fmt.Errorf("lm: load optimizer: %w", err)
	}
	return nil
}

func (o *AdamW) unmarshal(data []byte) error {
	file, err := decode(data)
	if err != nil {
		return err
	}
	step, err := file.Tensor("step")
	if err != nil {
		return err
	}
	steps, err := safetensors.Values[int64](step)
	if err != nil {
		return err
	}
	if len(steps) != 1 || steps[0] < 0 {
		return fmt.Errorf("step is %v, want a number from 0", steps)
	}
	first, second := file.Tensors[:0:0], file.Tensors[:0:0]
	for _, t := range file.Tensors {
		switch {
		case t.Name == "step":
		case strings.HasPrefix(t.Name, "exp_avg_sq."):
			second = append(second, t)
		default:
			first = append(first, t)
		}
	}
	m, v := make([]float32, len(o.m)), make([]float32, len(o.v))
	if err := o.model.layout.load("exp_avg.", first, m); err != nil {
		return err
	}
	if err := o.model.layout.load("exp_avg_sq.", second, v); err != nil {
		return err
	}
	o.steps, o.m, o.v = steps[0], m, v
	return nil
}

// Save writes the state to a file, under a temporary name first.
func (o *AdamW) Save(path string) error {
	data, err := o.Marshal()
	if err != nil {
		return err
	}
	if err := writeFile(path, data); err != nil {
		return fmt.Errorf("lm: save optimizer: %w", err)
	}
	return nil
}

// Load restores the state that Save wrote.
func (o *AdamW) Load(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("lm: load optimizer: %w", err)
	}
	return o.Unmarshal(data)
}

// encode returns the file of tensors, which begin with the widest elements, and
// metadata with a checksum.
func encode(tensors []safetensors.Tensor, metadata map[string]string) ([]byte, error) {
	metadata[metadataChecksum] = checksum(tensors)
	var buffer bytes.Buffer
	if err := safetensors.Write(&buffer, tensors, metadata); err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	return buffer.Bytes(), nil
}

// decode reads a file and compares the checksum if there is one.
func decode(data []byte) (*safetensors.File, error) {
	file, err := safetensors.Parse(data)
	if err != nil {
		return nil, err
	}
	if want, ok := file.Metadata[metadataChecksum]; ok {
		if got := checksum(file.Tensors); got != want {
			return nil, fmt.Errorf("the file is damaged: checksum %s of its tensors, want %s", got, want)
		}
	}
	return file, nil
}

func checksum(tensors []safetensors.Tensor) string {
	table := crc32.MakeTable(crc32.Castagnoli)
	var sum uint32
	for _, t := range tensors {
		sum = crc32.Update(sum, table, t.Data)
	}
	return strconv.FormatUint(uint64(sum), 16)
}

// writeFile writes data under a temporary name in the same directory, syncs
// and renames it; on an error nothing is left behind.
func writeFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}
