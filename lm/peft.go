package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/safetensors"
)

// The files of an adapter, as PEFT names them.
const (
	adapterConfigFile  = "adapter_config.json"
	adapterWeightsFile = "adapter_model.safetensors"
)

// metadataBase is, in the metadata of an adapter's weights, the checksum of the base that
// it was trained on: on another one of the same shape it would be nonsense.
const metadataBase = "infinirl.base"

// peftConfig is adapter_config.json as far as it says what an adapter computes.
type peftConfig struct {
	PEFTType      string   `json:"peft_type"`
	TaskType      string   `json:"task_type"`
	Base          *string  `json:"base_model_name_or_path"`
	R             int      `json:"r"`
	Alpha         float64  `json:"lora_alpha"`
	Dropout       float64  `json:"lora_dropout"`
	Targets       targets  `json:"target_modules"`
	Bias          string   `json:"bias"`
	FanInFanOut   bool     `json:"fan_in_fan_out"`
	InferenceMode bool     `json:"inference_mode"`
	Saved         []string `json:"modules_to_save"`
	RSLoRA        bool     `json:"use_rslora"`
	DoRA          bool     `json:"use_dora"`

	// Read only: what makes another function of it, and is refused.
	RankPattern  map[string]any `json:"rank_pattern,omitempty"`
	AlphaPattern map[string]any `json:"alpha_pattern,omitempty"`
	Layers       any            `json:"layers_to_transform,omitempty"`
	Excluded     any            `json:"exclude_modules,omitempty"`
	Replication  any            `json:"layer_replication,omitempty"`
	Parameters   any            `json:"target_parameters,omitempty"`
	TokenIndices any            `json:"trainable_token_indices,omitempty"`
	LoRABias     bool           `json:"lora_bias,omitempty"`
	ALoRA        any            `json:"alora_invocation_tokens,omitempty"`
	QALoRA       bool           `json:"use_qalora,omitempty"`
	BDLoRA       any            `json:"use_bdlora,omitempty"`
}

// targets are a list of names. PEFT also takes a regular expression, of which one is in
// wide use.
type targets []string

func (t *targets) UnmarshalJSON(data []byte) error {
	var pattern string
	if json.Unmarshal(data, &pattern) == nil {
		if pattern != "all-linear" {
			return fmt.Errorf("target_modules %q: want a list of names", pattern)
		}
		*t = projectionNames[:]
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

const (
	taskActor  = "CAUSAL_LM"
	taskCritic = "SEQ_CLS"
	scoreName  = "score" // the critic's head, which is saved whole
)

// saveAdapter writes the files of an adapter to dir, as PEFT does.
func (m *Model) saveAdapter(dir string) error {
	l := m.adapter.settings
	config := peftConfig{PEFTType: "LORA", TaskType: taskActor, R: l.Rank, Alpha: l.Alpha, Targets: l.Targets, Bias: "none", InferenceMode: true}
	if m.layout.critic {
		config.TaskType, config.Saved = taskCritic, []string{scoreName}
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	data, err := m.marshalAdapter()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, adapterWeightsFile), data); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, adapterConfigFile), append(text, '\n')); err != nil {
		return fmt.Errorf("lm: save: %w", err)
	}
	return nil
}

func (m *Model) marshalAdapter() ([]byte, error) {
	tensors := m.trained.export("", m.values)
	return encode(tensors, map[string]string{"format": "pt", metadataBase: m.adapter.base.fingerprint()})
}

// IsAdapter tells whether a folder holds an adapter, of PEFT or of [Model.Save].
func IsAdapter(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, adapterConfigFile))
	return err == nil
}

// LoadAdapter reads a LoRA adapter that Save or PEFT wrote, for the model that it was
// trained on, whose weights the result shares. Of one that Save wrote, a base with other
// weights is an error, and so is every changed bit of its tensors.
func LoadAdapter(base *Model, dir string) (*Model, error) {
	if err := base.adaptable(); err != nil {
		return nil, err
	}
	text, err := bounded.ReadFile(filepath.Join(dir, adapterConfigFile), maxConfig)
	if err != nil {
		return nil, fmt.Errorf("lm: load adapter: %w", err)
	}
	m, err := base.loadAdapter(text, filepath.Join(dir, adapterWeightsFile))
	if err != nil {
		return nil, fmt.Errorf("lm: load adapter %s: %w", dir, err)
	}
	return m, nil
}

func (m *Model) loadAdapter(text []byte, path string) (*Model, error) {
	l, critic, err := readAdapterConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", adapterConfigFile, err)
	}
	file, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	adapted := newAdapterLayout(m.config, l, critic)
	if err := adapted.match("", file.Tensors); err != nil {
		return nil, err
	}
	if want, ok := file.Metadata[metadataBase]; ok && want != m.fingerprint() {
		return nil, fmt.Errorf("the adapter was trained on a base with other weights: checksum %s, this one has %s", want, m.fingerprint())
	}
	if err := file.Attach(); err != nil {
		return nil, err
	}
	a := m.adapted(l, critic)
	return a, a.trained.load("", file.Tensors, a.values)
}

// readAdapterConfig reads adapter_config.json and refuses what the engine would compute
// otherwise than PEFT.
func readAdapterConfig(text []byte) (l LoRA, critic bool, err error) {
	var c peftConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return l, false, err
	}
	given := func(x any) bool { return x != nil && x != false }
	for _, feature := range []struct {
		name string
		used bool
	}{
		{fmt.Sprintf("peft_type %q (LORA)", c.PEFTType), c.PEFTType != "LORA"},
		{fmt.Sprintf("task_type %q (%s, %s)", c.TaskType, taskActor, taskCritic), c.TaskType != taskActor && c.TaskType != taskCritic && c.TaskType != ""},
		{fmt.Sprintf("bias %q (none)", c.Bias), c.Bias != "none" && c.Bias != ""},
		{"fan_in_fan_out", c.FanInFanOut},
		{"use_dora", c.DoRA},
		{"rank_pattern", len(c.RankPattern) > 0},
		{"alpha_pattern", len(c.AlphaPattern) > 0},
		{"layers_to_transform", given(c.Layers)},
		{"exclude_modules", given(c.Excluded)},
		{"layer_replication", given(c.Replication)},
		{"target_parameters", given(c.Parameters)},
		{"trainable_token_indices", given(c.TokenIndices)},
		{"lora_bias", c.LoRABias},
		{"alora_invocation_tokens", given(c.ALoRA)},
		{"use_qalora", c.QALoRA},
		{"use_bdlora", given(c.BDLoRA)},
	} {
		if feature.used {
			return l, false, fmt.Errorf("%s is not supported", feature.name)
		}
	}
	critic = c.TaskType == taskCritic
	for _, name := range c.Saved {
		if !critic || name != scoreName && name != "classifier" {
			return l, false, fmt.Errorf("modules_to_save %q is not supported", name)
		}
	}
	if c.R < 1 || !(c.Alpha > 0) || len(c.Targets) == 0 {
		return l, false, fmt.Errorf("r is %d, lora_alpha %g and target_modules %q: want positive numbers and names", c.R, c.Alpha, c.Targets)
	}
	l = LoRA{Rank: c.R, Alpha: c.Alpha, Targets: c.Targets}
	if c.RSLoRA { // Kalajdzievski 2023, arXiv:2312.03732: alpha/√rank
		l.Alpha *= math.Sqrt(float64(c.R))
	}
	for i, target := range l.Targets { // PEFT compares the end of the path
		name := target[strings.LastIndex(target, ".")+1:]
		if name != target && !slices.Contains([]string{"self_attn." + name, "mlp." + name}, target) {
			return l, false, fmt.Errorf("target_modules %q is not supported (%s)", target, strings.Join(projectionNames[:], ", "))
		}
		l.Targets[i] = name
	}
	if err := l.Validate(); err != nil {
		return l, false, err
	}
	return l.withDefaults(), critic, nil
}

// errAdapter is the error of what only whole models have.
var errAdapter = errors.New("lm: marshal: the model has an adapter, whose folder Save writes; Merged gives a model of its own")

// fingerprint is the CRC-32C of a model's weights.
func (m *Model) fingerprint() string {
	const block = 1 << 18
	sums := make([]uint32, (len(m.params)+block-1)/block)
	table := crc32.MakeTable(crc32.Castagnoli)
	team := make(team, m.threads())
	team.each(len(sums), func(i int, s *scratch) {
		part := m.params[i*block : min(len(m.params), (i+1)*block)]
		sums[i] = crc32.Checksum(floatBytes(part), table)
	})
	total := uint32(0)
	for _, sum := range sums {
		total = crc32.Update(total, table, []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
	}
	return fmt.Sprintf("crc32c:%08x", total)
}
