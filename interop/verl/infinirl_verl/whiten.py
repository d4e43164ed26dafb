"""(x - mean) / sqrt(var + 1e-8) over the decisions of the whole batch, var unbiased.
One decision alone stays as it is."""

import numpy as np


def whiten(x):
    if len(x) < 2:
        return x
    return (x - x.mean()) / np.sqrt(x.var(ddof=1) + 1e-8)
