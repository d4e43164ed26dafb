"""Discounted returns through all segments, for both advantages and returns:

    G_t = r_t + gamma G_{t+1},   G_T = V(s_T) if truncated, else 0

which is the recursion of gae with lambda = 1 and V = 0. Whitened over the batch they
are the advantages of REINFORCE++ (Hu, arXiv 2501.03262).
"""

import numpy as np

from .gae import scan


def reinforce_plus_plus(d, settings):
    return scan(d.rewards, np.zeros(len(d.rewards)), d.lengths, d.bootstrap, settings.gamma, 1.0, 1.0)
