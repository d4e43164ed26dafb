"""Random trajectories, as verl V1 has them and as `infinirl advantage` reads them."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np

from infinirl_verl.estimators import estimate
from infinirl_verl.rows import Rows
from infinirl_verl.settings import Settings

THEIRS = {"gae": "gae", "turn_gae": "turn-gae", "grpo": "grpo", "dr_grpo": "dr-grpo", "rloo": "rloo", "reinforce_plus_plus": "reinforce++"}


def infinirl(*arguments):
    done = subprocess.run([os.environ["INFINIRL"], *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


class Batch:
    """J trajectories of one to five segments, rows shuffled, with rows that fill it."""

    def __init__(self, rng, trajectories=40, group=4, longest=60, kl=0.0, padding=5):
        width = longest + 1
        rows = []
        for j in range(trajectories):
            segments = int(rng.integers(1, 6))
            status = rng.choice(["finished", "finished", "truncated", "context_overflow"])
            score = float(rng.integers(0, 3)) / 2
            for k in range(segments):
                n = int(rng.integers(1, longest))
                mask = (rng.random(n) < 0.6).astype(int)
                mask[-1] = 1 if rng.random() < 0.8 else mask[-1]
                outcome = np.zeros(n)
                outcome[-1] = score
                rows.append({"key": (f"u{j // group}", str(j % group)), "order": k, "segments": segments, "mask": mask, "outcome": outcome, "status": status,
                             "step": kl * rng.standard_normal(n) * mask, "values": rng.standard_normal(n).astype(np.float32),
                             "last": float(rng.standard_normal()) if status == "truncated" and k == segments - 1 else 0.0})
        rng.shuffle(rows)
        filling = {"order": 0, "segments": 3, "mask": np.zeros(1, int), "outcome": np.zeros(1), "step": np.zeros(1), "values": np.full(1, 7.0), "status": "truncated", "last": 9.0}
        rows += [{**filling, "key": ("padding", str(k))} for k in range(padding)]
        rng.shuffle(rows)
        self.lines, self.width = rows, width

    def column(self, name):
        out = np.zeros((len(self.lines), self.width))
        for i, row in enumerate(self.lines):
            out[i, : len(row[name])] = row[name]
        return out

    def rows(self, values=True):
        lines = self.lines
        return Rows([r["key"] for r in lines], [r["order"] for r in lines], [r["key"][0] for r in lines], [r["key"][0] == "padding" for r in lines],
                    [r["segments"] for r in lines], self.column("outcome"), self.column("values") if values else None, np.array([r["last"] for r in lines]))

    def rewards(self):
        """verl's: the outcome on every row."""
        return self.column("step") + self.column("outcome")

    def write(self, path, values=True):
        with open(path, "w") as file:
            for r in self.lines:
                if r["key"][0] == "padding":
                    continue
                last = r["order"] == r["segments"] - 1
                n = len(r["mask"])
                line = {"trajectory_id": "_".join(r["key"]), "group_id": r["key"][0], "inv_iter": r["segments"] - 1 - r["order"], "status": r["status"],
                        "response_ids": [1] * n, "loss_mask": r["mask"].tolist(), "rewards": (r["step"] + (r["outcome"] if last else 0)).tolist()}
                if values:
                    line["values"] = r["values"].tolist()
                if r["last"]:
                    line["bootstrap_value"] = r["last"]
                file.write(json.dumps(line) + "\n")

    def credit(self, settings, **more):
        return estimate(settings, self.rows(), self.rewards(), self.column("mask"), **more)

    def theirs(self, folder, settings):
        """What `infinirl advantage` says: advantages and returns, [R, L]."""
        self.write(Path(folder, "in.jsonl"))
        flags = ["--estimator", THEIRS[settings.estimator], "--gamma", settings.gamma, "--lambda", settings.lam, "--critic-lambda", settings.critic_lambda,
                 "--lambda-alpha", settings.lambda_alpha, *(["--whiten"] if settings.whiten else [])]
        infinirl("advantage", Path(folder, "in.jsonl"), "-o", Path(folder, "out.jsonl"), *flags)
        lines = map(json.loads, Path(folder, "out.jsonl").read_text().splitlines())
        got = {(line["trajectory_id"], line["inv_iter"]): line for line in lines}
        out = np.zeros((2, len(self.lines), self.width))
        for i, r in enumerate(self.lines):
            line = got.get(("_".join(r["key"]), r["segments"] - 1 - r["order"]))
            if line:
                out[0, i, : len(r["mask"])], out[1, i, : len(r["mask"])] = line["advantages"], line["returns"]
        return out


def all_settings():
    """Every estimator, with plain and with unusual numbers."""
    for name in THEIRS:
        whiten = name == "reinforce_plus_plus"
        yield Settings(name, 1.0, 0.95, whiten=whiten)
        yield Settings(name, 0.97, 0.9, 0.8, whiten=True)
        if name in ("gae", "turn_gae"):
            yield Settings(name, 0.99, 0.95, 1.0, lambda_alpha=0.05, whiten=False)
