"""Makes the files beside it: a Llama of random weights and what Hugging Face's own
code computes with it (transformers 4.41, in JAX: FlaxLlamaForCausalLM, which knows rope_theta 10000 alone)."""
import json

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import save_file
from transformers import FlaxLlamaForCausalLM, LlamaConfig

config = LlamaConfig(
    vocab_size=29, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False)
model = FlaxLlamaForCausalLM(config)
rng = np.random.default_rng(1)
flat = {k: rng.normal(0, 0.4, v.shape).astype(np.float32)
        for k, v in flatten_dict(model.params, sep=".").items()}
for k in flat:
    if "norm" in k:
        flat[k] = 1 + flat[k]
tokens = rng.integers(0, config.vocab_size, 40).tolist()
params = unflatten_dict({k: jnp.array(v) for k, v in flat.items()}, sep=".")
with jax.default_matmul_precision("float32"):
    logits = model(jnp.array([tokens]), params=params).logits[0]
log_probs = jax.nn.log_softmax(logits, axis=-1)

config.architectures = ["LlamaForCausalLM"]
config.to_json_file("config.json", use_diff=True)
save_file({k.replace(".kernel", ".weight").replace(".embedding", ".weight"):
           np.ascontiguousarray(v.T if k.endswith(".kernel") else v) for k, v in flat.items()},
          "model.safetensors", metadata={"format": "pt"})
with open("expected.json", "w") as f:
    json.dump([{"tokens": tokens, "log_probs": [float(log_probs[t - 1, tokens[t]]) for t in range(1, len(tokens))]}], f)
    f.write("\n")
