"""Trajectories that weigh the same, however often they were cut.

The wanted loss is the mean over J trajectories of the mean over each one's n_j tokens.
verl hands no trajectory to its losses, but the clipped loss is homogeneous in A: a
positive factor on the advantages is one on the loss. Where verl sums over tokens
(loss_agg_mode token-sum), each of M mini-batches an optimizer step, the factor is

    w_j = M / (J n_j)

and the mean over the M losses is the wanted one, whatever rows a mini-batch holds.
"""

import numpy as np


def trajectory_weights(lengths, minibatches):
    """[J] decisions of each trajectory -> [J] factors."""
    return minibatches / (len(lengths) * np.maximum(lengths, 1))
