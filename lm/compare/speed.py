"""Times forward and backward of PyTorch over 4 rows of 173 tokens, all of them targets but
the first, pass by pass: as TestSpeed135M does.

    python speed.py MODEL PASSES
"""
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM


def processor_time():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


torch.set_num_threads(2)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).train()
model.config.use_cache = False
rows, length = 4, 173
tokens = torch.randint(0, model.config.vocab_size, (rows, length), generator=torch.Generator().manual_seed(1))
count = rows * (length - 1)
for i in range(int(sys.argv[2])):
    start, cpu = time.time(), processor_time()
    model.zero_grad(set_to_none=False)
    logits = model(tokens).logits[:, :-1]
    torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), tokens[:, 1:].reshape(-1)).backward()
    wall, used = time.time() - start, processor_time() - cpu
    print("forward and backward, PyTorch %s, pass %d: %.1f tokens/s; %.2f s of processor time: %.1f tokens/s; peak %d MiB" % (
        torch.__version__, i, count / wall, used, 2 * count / used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10), flush=True)
