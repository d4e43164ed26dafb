package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bases"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/safetensors"
)

// export writes the base model of an environment with its words.
func export(environment, dir string) error {
	world, err := assembly.World(environment)
	if err != nil {
		return err
	}
	base, err := bases.Read(environment)
	if err != nil {
		return err
	}
	config, weights, err := plain(base)
	if err != nil {
		return fmt.Errorf("base model of %s: %w", environment, err)
	}
	tokenizer, tokenizerConfig, err := words(world)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"config.json": config, "model.safetensors": weights, "tokenizer.json": tokenizer, "tokenizer_config.json": tokenizerConfig,
	} {
		if err := atomicfile.WriteBytes(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// plain is a model without a factor of its logits, which Llama and Qwen do not have: the
// last norm's weights take it.
func plain(base []byte) (config, weights []byte, err error) {
	file, err := safetensors.Parse(base)
	if err != nil {
		return nil, nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(file.Metadata["config"]), &fields); err != nil {
		return nil, nil, fmt.Errorf("its config: %w", err)
	}
	scale, ok := fields["logit_scale"].(float64)
	if !ok {
		return nil, nil, fmt.Errorf("its config: logit_scale: %v: want a number", fields["logit_scale"])
	}
	fields["logit_scale"] = 1
	if config, err = json.MarshalIndent(fields, "", "  "); err != nil {
		return nil, nil, err
	}
	norm, err := file.Tensor("model.norm.weight")
	if err != nil {
		return nil, nil, err
	}
	values, err := safetensors.Float32s(norm)
	if err != nil {
		return nil, nil, err
	}
	for i := range values {
		values[i] *= float32(scale)
	}
	for i, t := range file.Tensors {
		if t.Name == norm.Name {
			file.Tensors[i] = safetensors.New(t.Name, t.Shape, values)
		}
	}
	var out bytes.Buffer
	if err := safetensors.Write(&out, file.Tensors, map[string]string{"format": "pt"}); err != nil {
		return nil, nil, err
	}
	return config, out.Bytes(), nil
}

// words is the vocabulary of a world as tokenizer.json, and the file beside it.
func words(world curriculum.World) (tokenizer, config []byte, err error) {
	type added struct {
		ID         int32  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LeftStrip  bool   `json:"lstrip"`
		RightStrip bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	ids := map[string]int32{}
	for id := range int32(world.VocabularySize) {
		ids[world.Renderer.Spell([]int32{id})] = id
	}
	var controls []added
	for _, word := range chat.WordControls() {
		controls = append(controls, added{ID: ids[word], Content: word, Special: true})
	}
	end := world.Renderer.Spell(world.Renderer.Stop()[0])
	tokenizer, err = json.Marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "post_processor": nil, "decoder": nil,
		"added_tokens":  controls,
		"pre_tokenizer": map[string]any{"type": "WhitespaceSplit"},
		"model":         map[string]any{"type": "WordLevel", "vocab": ids, "unk_token": end},
	})
	if err != nil {
		return nil, nil, err
	}
	config, err = json.Marshal(map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "pad_token": end})
	return tokenizer, config, err
}
