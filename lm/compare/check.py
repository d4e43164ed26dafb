"""Loads the adapters that the engine saved (adapter-again beside each adapter of
make.py) with PEFT and compares the log-probs with those of the original.

    python check.py FOLDER
"""
import glob
import json
import os
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from make import log_probs

failed = 0
found = sorted(glob.glob(os.path.join(sys.argv[1], "*", "adapter-again")))
for folder in found:
    base = AutoModelForCausalLM.from_pretrained(os.path.dirname(folder), dtype=torch.float32)
    model = PeftModel.from_pretrained(base, folder).eval()
    with open(os.path.join(os.path.dirname(folder), "adapter", "expected.json")) as f:
        expected = json.load(f)
    with torch.no_grad():
        values = log_probs(model, [row["tokens"] for row in expected])
    worst = max(float((v - torch.tensor(row["log_probs"])).abs().max()) for v, row in zip(values, expected))
    print("%-60s log-probs differ by at most %.2g" % (folder, worst))
    failed += not worst <= 1e-4
if failed or not found:
    sys.exit("%d of %d adapters do not give the same in PEFT" % (failed, len(found)))
