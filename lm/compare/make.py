"""Makes models of random weights with transformers, adapters on them with PEFT, and
what these compute with them.

    python make.py FOLDER          models for the comparison of run.sh
    python make.py --golden FOLDER the few kilobytes in lm/testdata

Beside each model lies expected.json: rows of tokens with the log-probs of all tokens
but the first. In its folder "adapter" lie an adapter of PEFT, the same with it, and
gradients.safetensors: the gradient, by PEFT's names, of minus the mean log-prob, computed in
float64 but for the norms.
"""
import argparse
import json
import os
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def log_probs(model, rows):
    result = []
    for row in rows:
        logits = model(torch.tensor([row])).logits[0, :-1]
        result.append(torch.log_softmax(logits, -1).gather(-1, torch.tensor(row[1:])[:, None])[:, 0])
    return result


def write_expected(folder, rows, values):
    with open(os.path.join(folder, "expected.json"), "w") as f:
        json.dump([{"tokens": r, "log_probs": [round(float(x), 7) for x in v]} for r, v in zip(rows, values)], f)
        f.write("\n")


def add_adapter(folder, model, rows, rank, alpha, targets):
    """Writes folder/adapter for a model, which it changes."""
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, target_modules=targets, lora_dropout=0.0))
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if "lora_B" in name:  # zero at first
                p.normal_(0, 0.3 / rank)
    adapter = os.path.join(folder, "adapter")
    adapted.save_pretrained(adapter)
    for extra in ("README.md",):
        if os.path.exists(os.path.join(adapter, extra)):
            os.remove(os.path.join(adapter, extra))
    with torch.no_grad():
        write_expected(adapter, rows, log_probs(adapted, rows))
    adapted.double()  # in float32 PEFT's own gradients of thirty layers are off by up to 7e-4 of their norm
    (-torch.cat(log_probs(adapted, rows)).mean()).backward()
    gradients = {n.replace(".default", ""): p.grad.float().contiguous() for n, p in adapted.named_parameters() if p.requires_grad}
    save_file(gradients, os.path.join(adapter, "gradients.safetensors"))


def make(folder, kind, config, dtype, std, shard, lengths, rank, alpha, targets):
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(1)
    model = kind(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.copy_(1 + 0.3 * torch.randn_like(p))
            else:
                p.normal_(0, std)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = [torch.randint(0, config.vocab_size, (n,)).tolist() for n in lengths]
    with torch.no_grad():
        write_expected(folder, rows, log_probs(model, rows))
    if rank:
        add_adapter(folder, model, rows, rank, alpha, targets)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("folder")
    args = parser.parse_args()
    small = args.golden
    common = dict(vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=256) if small else \
        dict(vocab_size=1009, hidden_size=192, intermediate_size=320, num_hidden_layers=6, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=2048)
    std, lengths = (0.3, [40, 11]) if small else (0.06, [500, 173, 60])
    llama3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=16 if small else 128)
    make(os.path.join(args.folder, "hf-llama3"), LlamaForCausalLM, LlamaConfig(**common, rope_parameters=llama3, tie_word_embeddings=False),
         torch.bfloat16, std, "4KB" if small else "1MB", lengths, 3, 6, TARGETS)
    make(os.path.join(args.folder, "hf-qwen2"), Qwen2ForCausalLM, Qwen2Config(**common, tie_word_embeddings=True),
         torch.float16, std, "1GB", lengths, 0 if small else 8, 16, ["q_proj", "v_proj"])
    make(os.path.join(args.folder, "hf-qwen3"), Qwen3ForCausalLM, Qwen3Config(**common, head_dim=8 if small else 48, tie_word_embeddings=True),
         torch.bfloat16 if small else torch.float32, std, "1GB", lengths, 2 if small else 16, 8, TARGETS)


if __name__ == "__main__":
    main()
