package lm

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/atomicfile"
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
	metadataChecksum = "checksum" // of old files: CRC-32C of the tensors' bytes, in the order of the file
)

// Save writes config.json and model.safetensors to dir, which it creates; of an adapted
// model the adapter alone, in PEFT's files. Each file is written under a temporary name
// and renamed.
func (m *Model) Save(dir string) error {
	if m.adapter != nil {
		return m.saveAdapter(dir)
	}
	config, err := marshalConfig(m.config, m.layout.critic)
	if err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	tensors, metadata, err := m.tensors()
	if err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	if err := write(filepath.Join(dir, weightsFile), tensors, metadata); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, configFile), append(config, '\n')); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	return nil
}

// Marshal returns the model as the content of one safetensors file, which holds
// its configuration, too. A model with an adapter is an error.
func (m *Model) Marshal() ([]byte, error) {
	if m.adapter != nil {
		return nil, errAdapter
	}
	tensors, metadata, err := m.tensors()
	if err != nil {
		return nil, fmt.Errorf("lm: marshal: %w", err)
	}
	return encode(tensors, metadata)
}

// tensors are the content of the weights file. They may share the model's memory.
func (m *Model) tensors() ([]safetensors.Tensor, map[string]string, error) {
	config, err := marshalConfig(m.config, m.layout.critic)
	if err != nil {
		return nil, nil, err
	}
	tensors := m.layout.export("", m.params)
	if m.config.UseQKNorm && m.config.AttentionBias {
		// Qwen3 has no biases, or four; the fourth is zero here.
		for layer := range m.config.NumHiddenLayers {
			name := fmt.Sprintf("model.layers.%d%s", layer, outputBias)
			tensors = append(tensors, safetensors.New(name, []int{m.config.HiddenSize}, make([]float32, m.config.HiddenSize)))
		}
	}
	return tensors, map[string]string{"format": "pt", metadataConfig: string(config)}, nil
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
	return fill(config, file)
}

// parts are the tensors of a file that make up the layout of its configuration.
type parts struct {
	layout  *layout
	tensors []safetensors.Tensor
	zeros   []safetensors.Tensor // those that the model lacks; they have to be zero
}

// match compares the shapes of a file, whose tensors may lack their data, with a
// configuration.
func match(config []byte, file *safetensors.File) (parts, error) {
	c, err := unmarshalConfig(config)
	if err != nil {
		return parts{}, err
	}
	if c.NumHiddenLayers > len(file.Tensors) {
		return parts{}, fmt.Errorf("the configuration asks for %d layers, the file has %d tensors", c.NumHiddenLayers, len(file.Tensors))
	}
	var p parts
	critic := false
	for _, t := range file.Tensors {
		if t.Name == "lm_head.weight" && c.TieWordEmbeddings {
			continue // a copy of the embedding that some exporters write
		}
		if strings.HasSuffix(t.Name, ".rotary_emb.inv_freq") {
			continue // what the configuration says, in checkpoints of 2023
		}
		if strings.HasSuffix(t.Name, outputBias) {
			p.zeros = append(p.zeros, t)
			continue
		}
		critic = critic || t.Name == "score.weight"
		p.tensors = append(p.tensors, t)
	}
	p.layout = newLayout(c, critic)
	return p, p.layout.match("", p.tensors)
}

// fill makes the model of a file. Memory of the configuration's size is taken only
// after the shapes were compared.
func fill(config []byte, file *safetensors.File) (*Model, error) {
	p, err := match(config, file)
	if err != nil {
		return nil, err
	}
	for _, t := range p.zeros {
		if err := checkZero(t); err != nil {
			return nil, err
		}
	}
	m, err := allocate(p.layout.config, p.layout.critic)
	if err != nil {
		return nil, err
	}
	return m, m.layout.load("", p.tensors, m.params)
}

// outputBias ends the name of the one parameter of Llama and Qwen3 with
// attention_bias that this model lacks. It may be dropped if it is zero.
const outputBias = ".self_attn.o_proj.bias"

func checkZero(t safetensors.Tensor) error {
	values, err := safetensors.Float32s(t)
	if err != nil {
		return err
	}
	for _, x := range values {
		if x != 0 {
			return fmt.Errorf("tensor %q is not zero; a bias of the output projection is not supported", t.Name)
		}
	}
	return nil
}

// export returns a flat array of the layout as tensors of Hugging Face's shapes, which
// share its memory where they can.
func (l *layout) export(prefix string, flat []float32) []safetensors.Tensor {
	var tensors []safetensors.Tensor
	for _, p := range l.parameters {
		values := flat[p.offset : p.offset+p.size()]
		if p.projection() {
			values = transpose(values, p.in, p.out)
		}
		tensors = append(tensors, safetensors.Tensor{Name: prefix + p.name, DType: safetensors.F32, Shape: p.shape(), Data: floatBytes(values)})
	}
	return tensors
}

// match tells whether tensors are those that export gives: every parameter, of the
// right shape, and nothing else.
func (l *layout) match(prefix string, tensors []safetensors.Tensor) error {
	missing := make(map[string]bool, len(l.parameters))
	for _, p := range l.parameters {
		missing[p.name] = true
	}
	for _, t := range tensors {
		name := strings.TrimPrefix(t.Name, prefix)
		p, ok := l.byName[name]
		if !ok || prefix+name != t.Name {
			return fmt.Errorf("tensor %q does not belong to this configuration", t.Name)
		}
		if !slices.Equal(t.Shape, p.shape()) {
			return fmt.Errorf("tensor %q has shape %v, the configuration asks for %v", t.Name, t.Shape, p.shape())
		}
		delete(missing, name)
	}
	for _, p := range l.parameters {
		if missing[p.name] {
			return fmt.Errorf("tensor %q is missing", prefix+p.name)
		}
	}
	return nil
}

// transpose returns the transpose of x [rows, cols].
func transpose(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	const block = 16 // rows and columns that the caches hold
	for top := 0; top < rows; top += block {
		for left := 0; left < cols; left += block {
			for i := top; i < min(rows, top+block); i++ {
				for j := left; j < min(cols, left+block); j++ {
					y[j*rows+i] = x[i*cols+j]
				}
			}
		}
	}
	return y
}

// write writes the file of tensors, under a temporary name first.
func write(path string, tensors []safetensors.Tensor, metadata map[string]string) error {
	return atomicfile.Create(path, func(f *os.File) error { return safetensors.Write(f, tensors, metadata) })
}

// encode returns the file of tensors, which begin with the widest elements.
func encode(tensors []safetensors.Tensor, metadata map[string]string) ([]byte, error) {
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
	if err := file.Verify(); err != nil {
		return nil, err
	}
	return file, verify(file)
}

// verify compares the checksum of files that were written before all files of tensors
// had one: of the tensors' bytes alone.
func verify(file *safetensors.File) error {
	want, ok := file.Metadata[metadataChecksum]
	if !ok {
		return nil
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	var sum uint32
	for _, t := range file.Tensors {
		sum = crc32.Update(sum, table, t.Data)
	}
	if got := strconv.FormatUint(uint64(sum), 16); got != want {
		return fmt.Errorf("%w: checksum %s of its tensors, want %s", safetensors.ErrDamaged, got, want)
	}
	return nil
}
