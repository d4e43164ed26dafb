"""GAE with one step a turn: a run of decisions that nothing interrupts, within a segment.

    r_k  the rewards of the turn's tokens, and of those up to the next turn
    V_k  the value at the turn's first token

The recursion is that of gae over turns: one gamma lambda a turn, whatever its length.
A_k and R_k are written to all tokens of the turn.
"""

import numpy as np

from .gae import actor_lambda, scan


def turn_gae(d, settings):
    if len(d.row) == 0:
        return np.zeros(0), np.zeros(0)
    first = np.ones(len(d.row), bool)
    first[1:] = (np.diff(d.row) != 0) | (np.diff(d.column) != 1)
    first[np.cumsum(d.lengths)[:-1]] = True
    starts = np.flatnonzero(first)
    turns = np.add.reduceat(first.astype(int), np.cumsum(d.lengths) - d.lengths)  # of each trajectory
    a, r = scan(np.add.reduceat(d.rewards, starts), d.values[starts], turns, d.bootstrap, settings.gamma, actor_lambda(d, settings), settings.critic_lambda)
    size = np.diff(np.append(starts, len(d.row)))
    return np.repeat(a, size), np.repeat(r, size)
