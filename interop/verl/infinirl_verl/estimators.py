"""The estimators by name, as `infinirl advantage` calls them."""

from dataclasses import dataclass
from typing import Callable

import numpy as np

from .gae import gae
from .group import dr_grpo, group_relative, grpo, rloo
from .returns import reinforce_plus_plus
from .rows import decisions
from .turn import turn_gae
from .weights import trajectory_weights
from .whiten import whiten

PREFIX = "infinirl_"  # of the names in verl


@dataclass(frozen=True)
class Estimator:
    estimate: Callable  # (Decisions, Settings) -> advantages [D], returns [D]
    values: bool = False  # it reads the critic's
    whiten: bool | None = False  # by default; None: always

    @property
    def bootstraps(self):
        return self.whiten is None or self.values


ESTIMATORS = {
    "gae": Estimator(gae, values=True, whiten=True),
    "turn_gae": Estimator(turn_gae, values=True, whiten=True),
    "grpo": Estimator(group_relative(grpo)),
    "dr_grpo": Estimator(group_relative(dr_grpo)),
    "rloo": Estimator(group_relative(rloo)),
    "reinforce_plus_plus": Estimator(reinforce_plus_plus, whiten=None),
}

LARGEST = float(np.finfo(np.float32).max)


def estimate(settings, rows, rewards, mask, minibatches=1):
    """Credit for every row: advantages and returns, [R, L], 0 where the mask is 0, and
    a line for each trajectory that lost something."""
    estimator = ESTIMATORS[settings.estimator]
    if estimator.values and rows.values is None:
        raise ValueError(f"{PREFIX}{settings.estimator} reads values: set critic.enable=True")
    d = decisions(rows, rewards, mask)
    a, r = estimator.estimate(d, settings)
    for name, column in (("advantages", a), ("returns", r)):
        for bad in np.flatnonzero(~(np.abs(column) <= LARGEST)):
            raise ValueError(f"{d.at(bad)}: {name}: {column[bad]}: rewards, values or scores are too large for 32 bits")
    if estimator.whiten is None or settings.whiten:
        a = whiten(a)
    if settings.weigh == "trajectories":
        a = a * np.repeat(trajectory_weights(d.lengths, minibatches), d.lengths)
    shape = np.asarray(mask).shape
    return d.spread(a, shape), d.spread(r, shape), d.warnings
