"""Layer (b): `infinirl advantage` against verl's own compute_gae_advantage_return on whole
trajectories. Usage: verl_gae.py INFINIRL, the path of the program."""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import verl
from verl.trainer.ppo.core_algos import compute_gae_advantage_return

from load import load

GAMMA, LAMBDA = 0.99, 0.95


def write(path, trajectories):
    """Segments in random order, rewards on trainable tokens."""
    lines = []
    for j in range(trajectories):
        segments = random.randint(1, 5)
        for inv_iter in range(segments):
            n = random.randint(1, 200)
            mask = [random.randint(0, 1) for _ in range(n - 1)] + [1]
            lines.append(json.dumps({
                "trajectory_id": f"t{j}", "group_id": f"g{j // 8}", "inv_iter": inv_iter,
                "prompt_ids": [random.randint(1, 150000) for _ in range(random.randint(1, 60))],
                "response_ids": [random.randint(1, 150000) for _ in range(n)], "loss_mask": mask,
                "values": [random.gauss(0, 1) for _ in range(n)],
                "rewards": [m * (random.random() < 0.1) * random.gauss(0, 1) for m in mask]}))
    random.shuffle(lines)
    Path(path).write_text("\n".join(lines) + "\n")


def concatenated(data):
    """One row a trajectory: the responses of its segments in the order of time."""
    order = sorted(range(len(data)), key=lambda i: (data.non_tensor_batch["trajectory_id"][i], -data.non_tensor_batch["inv_iter"][i]))
    lengths = data.batch["attention_mask"][:, data.batch["prompts"].shape[1]:].sum(1).tolist()
    rows = {}
    for i in order:
        rows.setdefault(data.non_tensor_batch["trajectory_id"][i], []).append(i)
    join = lambda name: torch.nn.utils.rnn.pad_sequence(
        [torch.cat([data.batch[name][i, :lengths[i]] for i in r]) for r in rows.values()], batch_first=True)
    return {name: join(name) for name in ("token_level_rewards", "values", "response_mask", "advantages", "returns")}


def main():
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: str(Path(folder, name))
        write(path("in.jsonl"), 200)
        subprocess.run([Path(sys.argv[1]).resolve(), "advantage", path("in.jsonl"), "-o", path("out.safetensors"), "--whiten",
                        "--gamma", str(GAMMA), "--lambda", str(LAMBDA), "--critic-lambda", str(LAMBDA)], check=True)
        data = load(path("out.safetensors"))
    print(f"verl {verl.__version__}, torch {torch.__version__}")
    print(f"DataProto of {len(data)} rows:", ", ".join(f"{k} {list(v.shape)}" for k, v in sorted(data.batch.items())))
    whole = concatenated(data)
    mask = whole["response_mask"].bool()
    advantages, returns = compute_gae_advantage_return(whole["token_level_rewards"], whole["values"], whole["response_mask"], GAMMA, LAMBDA)
    for name, want in (("advantages", advantages), ("returns", returns)):
        worst = ((whole[name] - want).abs() / want.abs().clamp(min=1))[mask].max().item()
        print(f"{name} of {int(mask.sum())} trainable tokens in {len(mask)} trajectories: largest difference {worst:.1e}")
        assert worst < 1e-5

    rewards, values, mask = torch.zeros(256, 8192), torch.rand(256, 8192), torch.zeros(256, 8192)
    for row in mask:
        t = 0
        while t < 8192:
            t += random.randint(60, 120)
            span = random.randint(40, 80)
            row[t:t + span] = 1
            t += span
    for threads in (1, 2):
        torch.set_num_threads(threads)
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            compute_gae_advantage_return(rewards, values, mask, GAMMA, LAMBDA)
            best = min(best, time.perf_counter() - start)
        print(f"verl's compute_gae_advantage_return, 256 × 8192 tokens, {threads} threads: {best:.3f} s, {mask.numel() / best / 1e6:.1f} million tokens/s")


main()
