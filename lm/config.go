package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Config is the shape of a model. The names are those of Hugging Face's
// config.json; LogitScale (Cohere's name), EmbeddingInit and UseQKNorm are
// added to them. Fields that say so may be left zero for a default.
type Config struct {
	VocabSize             int         `json:"vocab_size" yaml:"vocab_size"`
	HiddenSize            int         `json:"hidden_size" yaml:"hidden_size"`                         // D, width of the residual stream
	IntermediateSize      int         `json:"intermediate_size" yaml:"intermediate_size"`             // F, width of the SwiGLU
	NumHiddenLayers       int         `json:"num_hidden_layers" yaml:"num_hidden_layers"`             // L
	NumAttentionHeads     int         `json:"num_attention_heads" yaml:"num_attention_heads"`         // H, query heads
	NumKeyValueHeads      int         `json:"num_key_value_heads" yaml:"num_key_value_heads"`         // 0: as many as query heads
	HeadDim               int         `json:"head_dim" yaml:"head_dim"`                               // 0: hidden_size / num_attention_heads
	MaxPositionEmbeddings int         `json:"max_position_embeddings" yaml:"max_position_embeddings"` // longest sequence; 0: 2048
	RMSNormEps            float64     `json:"rms_norm_eps" yaml:"rms_norm_eps"`                       // 0: 1e-6
	RopeTheta             float64     `json:"rope_theta" yaml:"rope_theta"`                           // 0: 10000
	RopeScaling           RopeScaling `json:"rope_scaling,omitzero" yaml:"-"`                         // zero: none
	TieWordEmbeddings     bool        `json:"tie_word_embeddings" yaml:"tie_word_embeddings"`         // the head is the embedding
	AttentionBias         bool        `json:"attention_bias" yaml:"attention_bias"`                   // of the Q, K and V projections
	UseQKNorm             bool        `json:"use_qk_norm" yaml:"use_qk_norm"`                         // RMSNorm of every Q and K head, as Qwen3
	LogitScale            float64     `json:"logit_scale" yaml:"logit_scale"`                         // factor of the logits; 0: 1
	InitializerRange      float64     `json:"initializer_range" yaml:"initializer_range"`             // standard deviation of fresh weights; 0: 0.02
	EmbeddingInit         float64     `json:"embedding_init" yaml:"embedding_init"`                   // that of fresh embeddings; 0: initializer_range
}

// withDefaults fills in the fields that were left zero.
func (c Config) withDefaults() Config {
	if c.NumKeyValueHeads == 0 {
		c.NumKeyValueHeads = c.NumAttentionHeads
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	if c.MaxPositionEmbeddings == 0 {
		c.MaxPositionEmbeddings = 2048
	}
	for _, field := range []struct {
		value    *float64
		default_ float64
	}{
		{&c.RMSNormEps, 1e-6}, {&c.RopeTheta, 10000}, {&c.LogitScale, 1}, {&c.InitializerRange, 0.02},
	} {
		if *field.value == 0 {
			*field.value = field.default_
		}
	}
	if c.EmbeddingInit == 0 {
		c.EmbeddingInit = c.InitializerRange
	}
	return c
}

// Validate tells which field makes the configuration unusable. Zero fields
// stand for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	for _, field := range []struct {
		name  string
		value int
	}{
		{"vocab_size", c.VocabSize}, {"hidden_size", c.HiddenSize}, {"intermediate_size", c.IntermediateSize},
		{"num_hidden_layers", c.NumHiddenLayers}, {"num_attention_heads", c.NumAttentionHeads},
		{"num_key_value_heads", c.NumKeyValueHeads}, {"head_dim", c.HeadDim},
		{"max_position_embeddings", c.MaxPositionEmbeddings},
	} {
		if field.value < 1 || field.value > math.MaxInt32 {
			return fmt.Errorf("lm config: %s is %d, want 1…%d", field.name, field.value, math.MaxInt32)
		}
	}
	for _, field := range []struct {
		name  string
		value float64
	}{
		{"rms_norm_eps", c.RMSNormEps}, {"rope_theta", c.RopeTheta}, {"logit_scale", c.LogitScale},
		{"initializer_range", c.InitializerRange}, {"embedding_init", c.EmbeddingInit},
	} {
		if !(field.value > 0) || field.value > math.MaxFloat32 {
			return fmt.Errorf("lm config: %s is %g, want a positive number", field.name, field.value)
		}
	}
	if err := c.RopeScaling.validate(); err != nil {
		return fmt.Errorf("lm config: %w", err)
	}
	if c.HeadDim%2 != 0 {
		return fmt.Errorf("lm config: head_dim is %d, rotary embedding needs an even one", c.HeadDim)
	}
	if c.NumAttentionHeads%c.NumKeyValueHeads != 0 {
		return fmt.Errorf("lm config: num_attention_heads %d is not a multiple of num_key_value_heads %d",
			c.NumAttentionHeads, c.NumKeyValueHeads)
	}
	// The reader multiplies sizes; bounding each product keeps them within an int.
	const most = 1 << 40
	for _, n := range []int{c.VocabSize, c.IntermediateSize, c.NumAttentionHeads * c.HeadDim} {
		if c.HiddenSize > most/n || c.NumHiddenLayers > most/n/c.HiddenSize {
			return errors.New("lm config: the model would have more than 2^40 parameters")
		}
	}
	return nil
}

// hfConfig is config.json: the fields of Config, and those by which Hugging
// Face's loaders choose an architecture.
type hfConfig struct {
	Architectures []string `json:"architectures"`
	ModelType     string   `json:"model_type"`
	HiddenAct     string   `json:"hidden_act"`
	TorchDType    string   `json:"torch_dtype,omitempty"`
	NumLabels     int      `json:"num_labels,omitempty"`
	Config

	// In the place of Config's: the form of the files.
	RopeScaling *hfRope `json:"rope_scaling,omitempty"`

	// Read only: other names of known fields, and features that change the
	// function and are refused.
	RopeParameters *hfRope         `json:"rope_parameters,omitempty"` // of transformers 5, in the place of rope_theta and rope_scaling
	MLPBias        bool            `json:"mlp_bias,omitempty"`
	SlidingWindow  bool            `json:"use_sliding_window,omitempty"`
	LayerTypes     []string        `json:"layer_types,omitempty"`
	Interleaved    bool            `json:"rope_interleaved,omitempty"`
	PartialRotary  float64         `json:"partial_rotary_factor,omitempty"`
	Quantization   json.RawMessage `json:"quantization_config,omitempty"`
}

// marshalConfig writes config.json. The architecture is the one whose layers
// are the model's: Qwen2 has QKV biases, Qwen3 has QK-norm, Llama neither.
func marshalConfig(c Config, critic bool) ([]byte, error) {
	architecture, modelType := "Llama", "llama"
	if c.UseQKNorm {
		architecture, modelType = "Qwen3", "qwen3"
	} else if c.AttentionBias {
		architecture, modelType = "Qwen2", "qwen2"
	}
	hf := hfConfig{ModelType: modelType, HiddenAct: "silu", TorchDType: "float32", Config: c}
	if c.RopeScaling != (RopeScaling{}) {
		hf.RopeScaling = &hfRope{RopeScaling: c.RopeScaling}
	}
	if critic {
		hf.Architectures = []string{architecture + "ForSequenceClassification"}
		hf.NumLabels = 1
	} else {
		hf.Architectures = []string{architecture + "ForCausalLM"}
	}
	return json.MarshalIndent(hf, "", "  ")
}

// unmarshalConfig reads the config.json of a Llama, Qwen2 or Qwen3 checkpoint.
func unmarshalConfig(data []byte) (Config, error) {
	var hf hfConfig
	// Llama's and Qwen's own defaults, where a file leaves them out.
	hf.RMSNormEps = 1e-6
	if err := json.Unmarshal(data, &hf); err != nil {
		return Config{}, fmt.Errorf("lm config: %w", err)
	}
	refuse := func(what string) (Config, error) {
		return Config{}, fmt.Errorf("lm config: %s is not supported", what)
	}
	switch hf.ModelType {
	case "", "llama":
	case "qwen2":
		hf.AttentionBias = true
	case "qwen3":
		hf.UseQKNorm = true
		if hf.HeadDim == 0 {
			hf.HeadDim = 128
		}
	default:
		return refuse(fmt.Sprintf("model_type %q (llama, qwen2 or qwen3)", hf.ModelType))
	}
	if hf.HiddenAct != "" && hf.HiddenAct != "silu" {
		return refuse(fmt.Sprintf("hidden_act %q", hf.HiddenAct))
	}
	if hf.MLPBias {
		return refuse("mlp_bias")
	}
	if hf.SlidingWindow {
		return refuse("use_sliding_window")
	}
	for _, kind := range hf.LayerTypes {
		if kind != "full_attention" {
			return refuse(fmt.Sprintf("a layer of type %q (full_attention)", kind))
		}
	}
	if hf.Interleaved {
		return refuse("rope_interleaved")
	}
	if len(hf.Quantization) > 0 && string(hf.Quantization) != "null" {
		return refuse("quantization_config (weights in F32, F16 or BF16)")
	}
	for _, rope := range []*hfRope{hf.RopeParameters, hf.RopeScaling} {
		if rope == nil {
			continue
		}
		if rope.PartialRotary != 0 {
			hf.PartialRotary = rope.PartialRotary
		}
		if rope.Theta != 0 {
			hf.RopeTheta = rope.Theta
		}
		scaling := rope.RopeScaling
		if scaling.Type == "" {
			scaling.Type = rope.OldType
		}
		if scaling.Type != "" && scaling.Type != "default" {
			hf.Config.RopeScaling = scaling
		}
	}
	if hf.PartialRotary != 0 && hf.PartialRotary != 1 {
		return refuse(fmt.Sprintf("partial_rotary_factor %g", hf.PartialRotary))
	}
	if err := hf.Config.Validate(); err != nil {
		return Config{}, err
	}
	return hf.Config.withDefaults(), nil
}
