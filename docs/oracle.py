#!/usr/bin/env python3
"""How much of the variance of returns could a critic explain?

    python3 docs/oracle.py runs/NAME/rollouts/step-00000[1-8].safetensors

reads saved rollouts of one policy (train.save_rollouts; the first steps, with train.critic_warmup as many, are of
the base model) and predicts the return at the first token of each turn twice: from the window that the policy saw,
and from the whole history of the trajectory, which no critic over condensed prompts sees. Each half of the groups
is predicted by a fit to the other half, so noise explains nothing; groups stay together, so a task that was seen
explains nothing either.

The fit is a ridge regression on counts of tokens and pairs of neighbours, in all that is seen and in its newest
part, on which tokens came twice and three times, on the number of the turn, and on random ReLUs of these. It does not find everything: what it explains is a lower
bound, and so is the gap that it leaves. Needs numpy alone.
"""

import argparse
import json
import struct
import zlib

import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2"}
PAIRS, RELUS, NEWEST = 512, 512, 24


def read(path):
    """The columns of a batch (docs/formats.md) that are needed here."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__")
    column = {n: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], TYPES[t["dtype"]]).reshape(t["shape"]) for n, t in header.items() if t["dtype"] in TYPES}
    ids, groups = json.loads(metadata["trajectory_ids"]), json.loads(metadata.get("group_ids", "[]"))
    n = len(column["token_ids"])
    if "spans" in column:
        mask = np.zeros(n, bool)
        for start, end in column["spans"]:
            mask[start:end] = True
        returns = np.zeros(n, np.float32)
        returns[mask] = column["returns"]
        values = np.zeros(n, np.float32)
        if "values" in column:
            values[mask] = column["values"]
    else:
        mask, returns = column["loss_mask"].astype(bool), column["returns"]
        values = column.get("values", np.zeros(n, np.float32))
    rows = len(column["cu_seqlens"]) - 1
    return {"tokens": column["token_ids"], "mask": mask, "returns": returns, "values": values, "cuts": column["cu_seqlens"],
            "prompt": column["prompt_len"], "inv_iter": column["inv_iter"],
            "trajectory": [ids[k] for k in column["trajectory"]],
            "group": [groups[k] for k in column["group"]] if "group" in column else [ids[k] for k in column["trajectory"]], "rows": rows}


class Counts:
    """Counts of tokens and hashed pairs of a growing text."""

    def __init__(self, vocabulary):
        self.v, self.text = vocabulary, []
        self.all = np.zeros(vocabulary + PAIRS, np.float32)

    def add(self, token):
        self.all[token] += 1
        if self.text:
            self.all[self.v + (self.text[-1] * 1000003 + token) % PAIRS] += 1
        self.text.append(token)

    def features(self):
        newest = np.zeros(self.v, np.float32)
        np.add.at(newest, self.text[-NEWEST:], 1)
        seen = self.all[:self.v]  # twice: shown, and then taken
        return np.concatenate([self.all, newest, seen >= 2, seen >= 3])


def samples(batches):
    """One sample a turn: group, return, value, features of the window, features of the history."""
    vocabulary = 1 + max(int(b["tokens"].max()) for b in batches)
    out = []
    for b in batches:
        trajectories = {}
        for i in range(b["rows"]):
            trajectories.setdefault(b["trajectory"][i], []).append(i)
        for rows in trajectories.values():
            rows.sort(key=lambda i: -b["inv_iter"][i])
            history, turn = Counts(vocabulary), 0
            for k, i in enumerate(rows):
                start, end = b["cuts"][i], b["cuts"][i + 1]
                window = Counts(vocabulary)
                for t in range(start, end):
                    if b["mask"][t] and not (t > start and b["mask"][t - 1]):
                        place = [turn, k, t - start]
                        out.append((b["group"][i], b["returns"][t], b["values"][t], np.append(window.features(), place), np.append(history.features(), place)))
                        turn += 1
                    token = int(b["tokens"][t])
                    window.add(token)
                    if k == 0 or t >= start + b["prompt"][i]:
                        history.add(token)
    return out


def predict(x, y, half):
    """Predicts each half from a ridge fit to the other; its penalty is chosen within that."""
    rng = np.random.default_rng(0)
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    keep = x.std(0) > 0
    x = np.clip(x[:, keep], -5, 5)
    hidden = np.maximum(0, x @ rng.normal(size=(x.shape[1], RELUS)) / np.sqrt(x.shape[1]) + rng.normal(size=RELUS))
    x = np.concatenate([np.ones((len(x), 1)), x, hidden - hidden.mean(0)], 1)

    def fit(rows, penalty):
        a = x[rows].T @ x[rows]
        a[np.diag_indices_from(a)] += penalty
        return np.linalg.solve(a, x[rows].T @ y[rows])

    out = np.zeros(len(y))
    for side in (False, True):
        rows = np.flatnonzero(half == side)
        inner = np.arange(len(rows)) * 2 < len(rows)  # samples of a group stand together
        best = min((10.0, 100.0, 1e3, 1e4, 1e5, 1e6), key=lambda p: np.var(y[rows[~inner]] - x[rows[~inner]] @ fit(rows[inner], p)))
        other = half != side
        out[other] = x[other] @ fit(rows, best)
    return out


def explained(y, p):
    return 1 - np.var(y - p) / np.var(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--most", type=int, default=20000, help="samples at most")
    arguments = parser.parse_args()
    data = samples([read(path) for path in arguments.files])[:arguments.most]
    y, v = np.array([s[1] for s in data], float), np.array([s[2] for s in data], float)
    half = np.array([zlib.crc32(s[0].encode()) % 2 == 1 for s in data])
    if len(set(half)) < 2 or np.var(y) == 0:
        raise SystemExit("want returns that differ, of more than one group")
    window = np.array([s[3] for s in data], np.float64)
    history = np.concatenate([window, np.array([s[4] for s in data], np.float64)], 1)
    print(f"{len(data)} turns, returns {y.mean():.3f} ± {y.std():.3f}")
    print("share of their variance that is explained")
    print(f"  by the critic of the run       {explained(y, v):6.3f}")
    print(f"  by the window, at least        {explained(y, predict(window, y, half)):6.3f}")
    print(f"  by the whole history, at least {explained(y, predict(history, y, half)):6.3f}")


if __name__ == "__main__":
    main()
