"""The estimators as verl calls them.

verl hands a registered estimator rewards and mask alone. The trainer says the rest
beforehand: which rows are one trajectory, their values, and how a truncated one goes on.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from .estimators import ESTIMATORS, PREFIX, estimate
from .rows import Rows
from .settings import read

_said: ContextVar = ContextVar("infinirl_said", default=None)


@dataclass
class Said:
    """What the trainer says of the batch, and what the estimator answers."""

    rows: Rows
    minibatches: int = 1
    warnings: tuple = ()


@contextmanager
def said(rows, minibatches=1):
    token = _said.set(Said(rows, minibatches))
    try:
        yield _said.get()
    finally:
        _said.reset(token)


def as_verl_calls_it(name):
    def estimator(token_level_rewards, response_mask, config=None, **_):
        hearing = _said.get()
        if hearing is None:
            raise RuntimeError(f"{PREFIX}{name}: nobody says which rows are one trajectory: want trainer.v1.trainer_mode={PREFIX}sync, "
                               f"{PREFIX}colocate_async or {PREFIX}separate_async, not a plain one")
        rewards = token_level_rewards.double().cpu().numpy()
        a, r, hearing.warnings = estimate(read(name, config), hearing.rows, rewards, response_mask.cpu().numpy(), hearing.minibatches)
        return tuple(torch.from_numpy(x).to(token_level_rewards) for x in (a, r))

    estimator.__name__ = PREFIX + name
    return estimator


def register():
    from verl.trainer.ppo.core_algos import register_adv_est

    for name in ESTIMATORS:
        register_adv_est(PREFIX + name)(as_verl_calls_it(name))
