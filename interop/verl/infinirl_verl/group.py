"""Group-relative estimators: one vote a trajectory, however often it was cut.

The score of a trajectory is compared with the scores of its group, and the result is
written to all of its decisions, as advantage and as return. With n scores s of a group:

    grpo     A_i = (s_i - mean) / (std + 1e-6), std unbiased    arXiv 2402.03300
    dr-grpo  A_i = s_i - mean                                   arXiv 2503.20783
    rloo     A_i = (s_i - mean) n/(n-1)                         arXiv 2402.14740

A group of one, or of equal scores, gets exactly 0.
"""

import numpy as np


def centred(scores):
    if (scores == scores[0]).all():  # the mean may be off by one rounding: no noise from it
        return np.zeros(len(scores))
    return scores - scores.mean()


def grpo(scores):
    a = centred(scores)
    return a / (np.sqrt((a * a).sum() / max(1, len(a) - 1)) + 1e-6)


def dr_grpo(scores):
    return centred(scores)


def rloo(scores):
    n = len(scores)
    return centred(scores) * (n / (n - 1) if n > 1 else 1.0)


def group_relative(formula):
    """The estimator of a formula. That every group has one member only is an error."""

    def estimate(d, settings):
        groups = {}
        for j, t in enumerate(d.trajectories):
            groups.setdefault(t.group, []).append(j)
        if d.trajectories and len(groups) == len(d.trajectories):
            raise ValueError(f"estimator {settings.estimator}: each of {len(groups)} groups has one trajectory, and nothing to be compared with: "
                             "want actor_rollout_ref.rollout.n of 2 or more")
        a = np.zeros(len(d.trajectories))
        for members in groups.values():
            a[members] = formula(d.scores[members])
        flat = np.repeat(a, d.lengths)
        return flat, flat.copy()

    return estimate
