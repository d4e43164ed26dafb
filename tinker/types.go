package tinker

import "encoding/json"

// protocolVersion is that of the published client whose requests these are.
const protocolVersion = "0.24.1"

// Capabilities are what a server offers.
type Capabilities struct {
	SupportedModels []SupportedModel `json:"supported_models"`
}

// SupportedModel is a base model of a server.
type SupportedModel struct {
	ModelName        string `json:"model_name"`
	MaxContextLength int    `json:"max_context_length"` // 0: not told
}

type createSession struct {
	Tags       []string          `json:"tags"`
	Metadata   map[string]string `json:"user_metadata"`
	SDKVersion string            `json:"sdk_version"`
	Type       string            `json:"type"`
}

type createSessionResponse struct {
	SessionID    string  `json:"session_id"`
	ErrorMessage *string `json:"error_message"`
}

type heartbeat struct {
	SessionID string `json:"session_id"`
	Type      string `json:"type"`
}

// LoRA is the adapter of a model. Rank 0 is full fine-tuning, where a server has it.
type LoRA struct {
	Rank         int   `json:"rank"`
	Seed         int64 `json:"seed"`
	TrainUnembed bool  `json:"train_unembed"`
	TrainMLP     bool  `json:"train_mlp"`
	TrainAttn    bool  `json:"train_attn"`
}

type createModel struct {
	SessionID  string `json:"session_id"`
	ModelSeqID int    `json:"model_seq_id"`
	BaseModel  string `json:"base_model"`
	LoRA       LoRA   `json:"lora_config"`
	Role       string `json:"model_role,omitempty"`
	Type       string `json:"type"`
}

type modelResponse struct {
	ModelID   string `json:"model_id"`
	BaseModel string `json:"base_model"`
}

// Chunk is a piece of a model's input.
type Chunk struct {
	Tokens []int32 `json:"tokens"`
	Type   string  `json:"type"`
}

// Input is what a model reads.
type Input struct {
	Chunks []Chunk `json:"chunks"`
}

// Text is an input of token ids.
func Text(tokens []int32) Input { return Input{[]Chunk{{tokens, "encoded_text"}}} }

// Tensor is a column of numbers. Data is a []float32 or []int32 in what is sent.
type Tensor struct {
	Data  any    `json:"data"`
	Dtype string `json:"dtype"` // float32 or int64
	Shape []int  `json:"shape"`
}

// Floats is a column of reals.
func Floats(data []float32) Tensor { return Tensor{data, "float32", []int{len(data)}} }

// Ints is a column of integers.
func Ints(data []int32) Tensor { return Tensor{data, "int64", []int{len(data)}} }

// Datum is a row: entry i of every loss input belongs to token i of the input, and is
// about the token after it.
type Datum struct {
	Inputs map[string]Tensor `json:"loss_fn_inputs"`
	Model  Input             `json:"model_input"`
}

// Names of loss inputs and outputs.
const (
	TargetTokens = "target_tokens"
	LogProbs     = "logprobs"
	Advantages   = "advantages"
	Weights      = "weights"
	Values       = "values"
	Returns      = "returns"
)

// Loss is a loss function over rows.
type Loss struct {
	Data   []Datum            `json:"data"`
	Name   string             `json:"loss_fn"`
	Config map[string]float64 `json:"loss_fn_config,omitempty"`
}

// Names of loss functions, and of the limits of the ratio in the configuration of PPO.
const (
	CrossEntropy       = "cross_entropy"
	ImportanceSampling = "importance_sampling"
	PPO                = "ppo"
	PPOCritic          = "ppo_critic"

	ClipLow  = "clip_low_threshold"
	ClipHigh = "clip_high_threshold"
)

type forward struct {
	Input   Loss   `json:"forward_input"`
	ModelID string `json:"model_id"`
	SeqID   int    `json:"seq_id"`
}

type forwardBackward struct {
	Input   Loss   `json:"forward_backward_input"`
	ModelID string `json:"model_id"`
	SeqID   int    `json:"seq_id"`
}

// Column is a column as a server gives it: an entry that is no number is null.
type Column struct {
	Data  []*float32 `json:"data"`
	Dtype string     `json:"dtype"`
	Shape []int      `json:"shape"`
}

// Output is what a loss function gives, a row of columns for each datum.
type Output struct {
	Rows    []map[string]Column `json:"loss_fn_outputs"`
	Metrics map[string]float64  `json:"metrics"`
}

// Adam is the setting of an optimizer step.
type Adam struct {
	LearningRate float64 `json:"learning_rate"`
	Beta1        float64 `json:"beta1"`
	Beta2        float64 `json:"beta2"`
	Epsilon      float64 `json:"eps"`
	WeightDecay  float64 `json:"weight_decay"`
	GradClipNorm float64 `json:"grad_clip_norm"` // 0: none
}

type optimStep struct {
	Adam    Adam   `json:"adam_params"`
	ModelID string `json:"model_id"`
	SeqID   int    `json:"seq_id"`
	Type    string `json:"type"`
}

// Stepped is what an optimizer step reports.
type Stepped struct {
	Metrics map[string]float64 `json:"metrics"`
}

type saveForSampler struct {
	ModelID              string `json:"model_id"`
	SamplingSessionSeqID int    `json:"sampling_session_seq_id"`
	SeqID                int    `json:"seq_id"`
	Type                 string `json:"type"`
}

type savedForSampler struct {
	SamplingSessionID string `json:"sampling_session_id"`
}

type saveWeights struct {
	ModelID   string `json:"model_id"`
	Path      string `json:"path"`
	SeqID     int    `json:"seq_id"`
	Overwrite bool   `json:"overwrite"`
	Type      string `json:"type"`
}

type savedWeights struct {
	Path string `json:"path"`
}

type loadWeights struct {
	ModelID   string `json:"model_id"`
	SeqID     int    `json:"seq_id"`
	Path      string `json:"path"`
	Optimizer bool   `json:"optimizer"`
	Type      string `json:"type"`
}

type unloadModel struct {
	ModelID string `json:"model_id"`
	Type    string `json:"type"`
}

// SamplingParams say how to continue a prompt.
type SamplingParams struct {
	MaxTokens   int     `json:"max_tokens"`
	Seed        int64   `json:"seed"`
	Stop        []int32 `json:"stop"` // ids, each of which ends the continuation
	Temperature float64 `json:"temperature"`
	TopK        int     `json:"top_k"` // −1: all
	TopP        float64 `json:"top_p"`
}

type sample struct {
	NumSamples         int            `json:"num_samples"`
	Prompt             Input          `json:"prompt"`
	Params             SamplingParams `json:"sampling_params"`
	SamplingSessionID  string         `json:"sampling_session_id"`
	SeqID              int            `json:"seq_id"`
	PromptLogProbs     bool           `json:"prompt_logprobs"`
	TopKPromptLogProbs int            `json:"topk_prompt_logprobs"`
	Type               string         `json:"type"`
}

// Sequence is a continuation.
type Sequence struct {
	Tokens     []int32    `json:"tokens"`
	LogProbs   []*float32 `json:"logprobs"` // nil: not given
	StopReason string     `json:"stop_reason"`
}

// Reasons of a sequence to end.
const (
	StopReasonStop   = "stop"
	StopReasonLength = "length"
)

// Sampled are the continuations of a prompt.
type Sampled struct {
	Sequences []Sequence `json:"sequences"`
	// PromptLogProbs are of the prompt but its first token, for which some servers put
	// null at the front; nil if they were not asked for.
	PromptLogProbs []*float32 `json:"prompt_logprobs"`
}

type retrieve struct {
	RequestID         string `json:"request_id"`
	AllowMetadataOnly bool   `json:"allow_metadata_only"`
}

// submitted is the answer to a submission.
type submitted struct {
	RequestID string `json:"request_id"`
}

// polled are the fields of a poll's answer that tell whether it is a result.
type polled struct {
	Type        string          `json:"type"`
	Status      string          `json:"status"`
	PayloadSize int64           `json:"response_payload_size"`
	Error       json.RawMessage `json:"error"`
	Category    string          `json:"category"`
}
