"""Cross-segment GAE.

    A = C = 0;  nv = V(s_T) if truncated, else 0               once a trajectory
    for every decision, last to first, through all segments:
        delta_t = r_t + gamma nv - V_t
        A_t = delta_t + gamma lambda_actor  A_{t+1}            advantage
        C_t = delta_t + gamma lambda_critic C_{t+1}            return R_t = C_t + V_t
        nv  = V_t

A cut is a deterministic part of the environment: the state after the last action of a
segment is the condensed prompt of the next, whose value is V at that segment's first
decision. So the carry (A, C, nv) crosses the cut as it is, and cutting a trajectory
anywhere changes no bit of the result.

Schulman et al., arXiv 1506.02438; decoupled lambda: arXiv 2503.01491 and 2504.05118.
"""

import numpy as np


def scan(rewards, values, lengths, bootstrap, gamma, lambda_actor, lambda_critic):
    """The recursion, all trajectories side by side.

    rewards, values: [D], trajectory after trajectory; lengths, bootstrap: [J];
    lambda_actor: a number or [J]. Returns advantages and returns, [D] each.
    """
    longest_first = np.argsort(-lengths, kind="stable")
    lengths, ends = lengths[longest_first], np.cumsum(lengths)[longest_first]
    actor = np.broadcast_to(np.asarray(lambda_actor, np.float64), lengths.shape)[longest_first] * gamma
    critic = gamma * lambda_critic
    a, c, nv = np.zeros(len(lengths)), np.zeros(len(lengths)), np.asarray(bootstrap, np.float64)[longest_first]
    advantages, returns = np.zeros(len(rewards)), np.zeros(len(rewards))
    live = len(lengths)
    for t in range(lengths[0] if live else 0):  # t decisions before the end
        while lengths[live - 1] <= t:
            live -= 1
        at = ends[:live] - 1 - t
        v = values[at]
        delta = rewards[at] + gamma * nv[:live] - v
        a = delta + actor[:live] * a[:live]
        c = delta + critic * c[:live]
        nv = v
        advantages[at], returns[at] = a, c + v
    return advantages, returns


def length_adaptive_lambda(alpha, lengths):
    """max(0, 1 - 1/(alpha l)), l the decisions of the trajectory (arXiv 2504.05118)."""
    return np.maximum(0.0, 1.0 - 1.0 / (alpha * np.maximum(lengths, 1)))


def actor_lambda(d, settings):
    return length_adaptive_lambda(settings.lambda_alpha, d.lengths) if settings.lambda_alpha else settings.lam


def gae(d, settings):
    return scan(d.rewards, d.values, d.lengths, d.bootstrap, settings.gamma, actor_lambda(d, settings), settings.critic_lambda)
