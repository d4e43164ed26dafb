"""Layer (c): what verl's trainer has stored, against `infinirl advantage` on its own
values. Usage: verify.py FOLDER [FLAG...]: the folder of a run of examples/tiny_cpu, and
the flags of `infinirl advantage` that say the same as its settings."""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from episodes import infinirl

TOLERANCE = 1e-6
folder, flags = Path(sys.argv[1]), sys.argv[2:]


def compare(path):
    """Largest differences of advantages and returns, and what the file holds."""
    again = folder / "again.jsonl"
    infinirl("batch", "check", path)
    infinirl("advantage", path, "-o", again, *flags)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    got = {(r["trajectory_id"], r["inv_iter"]): r for r in map(json.loads, again.read_text().splitlines())}
    worst, tokens = {"advantages": 0.0, "returns": 0.0}, 0
    for row in rows:
        mask = np.array(row["loss_mask"], bool)
        tokens += mask.sum()
        theirs = got[row["trajectory_id"], row["inv_iter"]]
        for name in worst:
            assert not np.array(row[name])[~mask].any(), f"{path}: {name} where nothing was decided"
            want = np.array(theirs[name])
            worst[name] = max(worst[name], (np.abs(np.array(row[name]) - want) / np.maximum(1, np.abs(want)))[mask].max(initial=0))
    last = [r for r in rows if r["inv_iter"] == 0]
    for r in rows:  # the outcome, once
        assert "score" not in r or abs(sum(r["rewards"]) - (r["score"] if r["inv_iter"] == 0 else 0)) < 1e-6, r["trajectory_id"]
    replayed = infinirl("replay", path, "--tokenizer", folder / "tiny").strip().splitlines()[-1]
    return worst, tokens, rows, last, replayed


def main():
    files, metrics = sorted((folder / "rows").glob("*.jsonl")), [json.loads(line)["data"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    metrics = [m for m in metrics if "infinirl/trajectories/total" in m]
    assert len(files) == len(metrics) == 3, f"{len(files)} files of rows, {len(metrics)} lines of metrics: want 3"
    all_padding = all_bootstrapped = 0
    for path, m in zip(files, metrics):
        worst, tokens, rows, last, replayed = compare(path)
        padding, status = int(m["infinirl/padding_rows/total"]), Counter(r["status"] for r in last)
        bootstrapped = sum("bootstrap_value" in r for r in last)
        all_padding, all_bootstrapped = all_padding + padding, all_bootstrapped + bootstrapped
        assert len(last) == m["infinirl/trajectories/total"]
        assert "score" not in rows[0] or abs(np.mean([r["score"] for r in last]) - m["infinirl/score/mean"]) < 1e-6
        assert "values" not in rows[0] or bootstrapped == status["truncated"]
        print(f"  {path.stem}: {len(rows)} rows of {len(last)} trajectories ({', '.join(f'{n} {s}' for s, n in sorted(status.items()))}), {padding} padding rows, "
              f"{tokens} trainable tokens: largest difference of advantages {worst['advantages']:.1e}, of returns {worst['returns']:.1e}; {replayed}")
        assert max(worst.values()) < TOLERANCE, worst
    assert all_padding > 0, "no padding rows: nothing was shown of them"
    taken = {path.stem: path.read_text().count("\n") for path in sorted(folder.glob("*.steps"))}
    assert taken and set(taken.values()) == {6}, f"optimizer steps {taken}: want 3 times 2, however often trajectories were cut"
    print(f"  optimizer steps: {', '.join(f'{n} of {kind}' for kind, n in taken.items())}; {all_bootstrapped} trajectories bootstrapped")


main()
