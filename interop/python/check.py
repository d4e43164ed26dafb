"""Checks that the stock safetensors package and infinirl read what the other
has written. Usage: check.py INFINIRL, the path of the program."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import infinirl_batch


def random_batch(rng, trajectories):
    batch = {name: [] for name in ("trajectory_id", "group_id", "status", "error", "success", "inv_iter", "prompt_len", "bootstrap_value", "policy_version", "oldest_policy_version")}
    batch["next_offsets"], batch["next_ids"] = [0], []
    lengths, masks = [], []
    for j in range(trajectories):
        segments = int(rng.integers(1, 5))
        for inv_iter in reversed(range(segments)):
            prompt, response = int(rng.integers(0, 9)), int(rng.integers(1, 40))
            batch["trajectory_id"].append(f"trajectory {j} 轨迹")
            batch["group_id"].append(f"group {j // 4}")
            batch["status"].append("truncated" if j % 3 == 0 else "finished")
            batch["inv_iter"].append(inv_iter)
            batch["prompt_len"].append(prompt)
            batch["bootstrap_value"].append(0.5 if inv_iter == 0 else 0.0)
            batch["error"].append("out of turns" if j % 3 == 0 else "")
            batch["success"].append(j % 3)
            batch["policy_version"].append(7)
            batch["oldest_policy_version"].append(7 - j % 2)
            batch["next_ids"] += [j, 5] if inv_iter == 0 and j % 3 == 0 else []
            batch["next_offsets"].append(len(batch["next_ids"]))
            lengths.append(prompt + response)
            masks.append(np.concatenate([np.zeros(prompt, bool), rng.random(response) < 0.5]))
            masks[-1][-1] = True
    batch["cu_seqlens"] = np.concatenate([[0], np.cumsum(lengths)])
    batch["loss_mask"] = np.concatenate(masks)
    n = len(batch["loss_mask"])
    batch["token_ids"] = rng.integers(0, 150000, n)
    response = np.concatenate([np.arange(l) >= p for l, p in zip(lengths, batch["prompt_len"])])
    batch["values"] = (rng.standard_normal(n) * response).astype(np.float32)
    batch["rewards"] = ((rng.random(n) < 0.2) * rng.standard_normal(n) * response).astype(np.float32)
    return batch


def gae(batch, gamma, lambda_actor, lambda_critic):
    """The recursion of docs/credit.md, token by token."""
    advantages, returns = np.zeros(len(batch["token_ids"])), np.zeros(len(batch["token_ids"]))
    rows = {}
    for i, (name, inv_iter) in enumerate(zip(batch["trajectory_id"], batch["inv_iter"])):
        rows.setdefault(name, {})[int(inv_iter)] = i
    for segments in rows.values():
        a = c = reward = 0.0
        last = segments[0]
        nv = batch["bootstrap_value"][last] if batch["status"][last] == "truncated" else 0.0
        for inv_iter in range(len(segments)):
            i = segments[inv_iter]
            for t in reversed(range(batch["cu_seqlens"][i] + batch["prompt_len"][i], batch["cu_seqlens"][i + 1])):
                reward += float(batch["rewards"][t])
                if not batch["loss_mask"][t]:
                    continue
                v = float(batch["values"][t])
                delta = reward + gamma * nv - v
                a, c = delta + gamma * lambda_actor * a, delta + gamma * lambda_critic * c
                advantages[t], returns[t] = a, c + v
                nv, reward = v, 0.0
    return advantages, returns


def main():
    infinirl = Path(sys.argv[1]).resolve()
    run = lambda *args: subprocess.run([infinirl, *args], check=True, capture_output=True, text=True).stdout
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: str(Path(folder, name))
        written = random_batch(rng, 50)
        infinirl_batch.write(path("python.safetensors"), written)
        print(run("batch", "check", path("python.safetensors")).split(": ")[1].strip(), "written by Python")

        for layout in ("safetensors", "packed"):
            run("advantage", path("python.safetensors"), "-o", path("out.safetensors"), "--format", layout,
                "--gamma", "0.98", "--lambda", "0.9", "--critic-lambda", "0.97")
            got = infinirl_batch.read(path("out.safetensors"))
            for name in ("trajectory_id", "group_id", "status", "error"):
                assert got[name] == written[name], name
            for name in ("cu_seqlens", "inv_iter", "prompt_len", "token_ids", "loss_mask", "rewards", "bootstrap_value",
                         "success", "policy_version", "oldest_policy_version", "next_offsets", "next_ids"):
                assert np.array_equal(got[name], written[name]), name
            mask = got["loss_mask"]
            assert np.array_equal(got["values"][mask], written["values"][mask])
            for column, want in zip(("advantages", "returns"), gae(written, 0.98, 0.9, 0.97)):
                worst = np.max(np.abs(got[column] - want) / np.maximum(1, np.abs(want)))
                print(f"{layout}: {column} differ by {worst:.1e} from the recursion in Python")
                assert worst < 1e-6

        lines = [json.loads(line) for line in run("batch", "convert", path("out.safetensors"), "--format", "jsonl").splitlines()]
        assert [line["trajectory_id"] for line in lines] == written["trajectory_id"]
        assert np.array_equal(np.concatenate([line["prompt_ids"] + line["response_ids"] if "prompt_ids" in line else line["response_ids"] for line in lines]), written["token_ids"])
        print("JSON Lines agree")


main()
