"""Metrics of a step, a vote a trajectory: verl's own critic/score/* count rows.

The names end in what verl's aggregation over mini-steps reads from them: mean, max, total.
"""

import numpy as np

from .rows import trajectories

SUCCESS = ("acc", "success")  # what reward functions call it


def report(rows, mask, outcome, extra):
    """rows: Rows; mask, outcome: [R, L]; extra: the rows' extra_fields."""
    found = trajectories(rows)
    tokens = np.asarray(mask).sum(1)
    each = lambda number: [number(t) for t in found]
    last = [extra[t.rows[-1]] for t in found]
    own = [e.get("infinirl", {}) for e in last]
    metrics = {"infinirl/trajectories/total": len(found), "infinirl/padding_rows/total": int(sum(rows.padding))}
    columns = {
        "score": each(lambda t: outcome[t.rows[-1]].sum()),
        "segments": each(lambda t: len(t.rows)),
        "tokens": each(lambda t: tokens[t.rows].sum()),
        "dropped": [o["dropped"] for o in own if "dropped" in o],
        "truncated": [o["status"] == "truncated" for o in own if "status" in o],
        "context_overflow": [o["status"] == "context_overflow" for o in own if "status" in o],
        "success": [s for e in last if (s := success(e.get("reward_extra_info") or {})) is not None],
    }
    for name, column in columns.items():
        if column:
            metrics[f"infinirl/{name}/mean"] = float(np.mean(column))
            if name in ("segments", "tokens"):
                metrics[f"infinirl/{name}/max"] = float(np.max(column))
    return metrics


def success(told):
    return next((float(told[name]) for name in SUCCESS if isinstance(told.get(name), (bool, int, float, np.number, np.bool_))), None)
