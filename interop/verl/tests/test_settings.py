"""What is refused before anything runs, and what is not."""

import unittest

from infinirl_verl.fifo import CondenseSettings
from infinirl_verl.report import report
from infinirl_verl.rows import Rows
from infinirl_verl.settings import LOOP, check, check_loops, read

import numpy as np


def configuration(**changes):
    """A verl configuration that is right; a change names a place by dots."""
    config = {
        "trainer": {"use_v1": True, "v1": {"trainer_mode": "infinirl_sync"}},
        "algorithm": {"adv_estimator": "infinirl_gae", "gamma": 1.0, "lam": 0.95},
        "critic": {"enable": True, "ppo_mini_batch_size": 4, "loss_agg_mode": "token-mean"},
        "actor_rollout_ref": {"actor": {"loss_agg_mode": "token-mean", "ppo_mini_batch_size": 4, "use_kl_loss": False, "entropy_coeff": 0}},
        "data": {"train_batch_size": 8},
    }
    for place, value in changes.items():
        *path, last = place.split("__")
        part = config
        for name in path:
            part = part.setdefault(name, {})
        part[last] = value
    return config


class Settings(unittest.TestCase):
    def test_what_is_right_passes(self):
        check(configuration())
        check(configuration(algorithm__adv_estimator="infinirl_grpo", critic__enable=False))
        check(configuration(trainer__v1__trainer_mode="sync", algorithm__adv_estimator="gae"))
        check(configuration(algorithm__infinirl__weigh="trajectories", actor_rollout_ref__actor__loss_agg_mode="token-sum"))

    def test_what_is_wrong_is_named(self):
        for changes, want in (
            ({"trainer__v1__trainer_mode": "sync"}, "trainer_mode: sync: infinirl_gae needs to know which rows are one trajectory: want trainer_mode=infinirl_sync"),
            ({"trainer__use_v1": False}, "trainer.use_v1: False"),
            ({"algorithm__adv_estimator": "gae"}, "algorithm.adv_estimator: gae: it takes every row for a trajectory"),
            ({"algorithm__adv_estimator": "infinirl_gea"}, "infinirl_gea: want one of infinirl_gae, "),
            ({"critic__enable": None}, "critic.enable: None: infinirl_gae reads values: want True"),
            ({"critic__enable": False, "algorithm__adv_estimator": "infinirl_turn_gae"}, "critic.enable: False: infinirl_turn_gae reads values"),
            ({"actor_rollout_ref__actor__loss_agg_mode": "seq-mean-token-mean"}, "actor.loss_agg_mode: seq-mean-token-mean: it weighs rows"),
            ({"critic__loss_agg_mode": "seq-mean-token-sum"}, "critic.loss_agg_mode: seq-mean-token-sum: it weighs rows"),
            ({"actor_rollout_ref__actor__ppo_mini_batch_size": 3}, "actor.ppo_mini_batch_size: 3: want a divisor of data.train_batch_size 8"),
            ({"critic__ppo_mini_batch_size": 5}, "critic.ppo_mini_batch_size: 5: want a divisor"),
            ({"algorithm__gamma": 1.5}, "algorithm.gamma: 1.5: want a number from 0 to 1"),
            ({"algorithm__infinirl__critic_lambda": -1}, "algorithm.infinirl.critic_lambda: -1.0: want a number from 0 to 1"),
            ({"algorithm__infinirl__lambda_alpha": -0.1}, "algorithm.infinirl.lambda_alpha: -0.1: want 0"),
            ({"algorithm__infinirl__lamda_alpha": 1}, "algorithm.infinirl.lamda_alpha: unknown: want one of critic_lambda, "),
            ({"algorithm__infinirl__truncated": "drop"}, "algorithm.infinirl.truncated: 'drop': want bootstrap or zero"),
            ({"algorithm__infinirl__weigh": "rows"}, "algorithm.infinirl.weigh: 'rows': want tokens or trajectories"),
            ({"algorithm__infinirl__weigh": "trajectories"}, "loss_agg_mode: token-mean: weights of trajectories are exact under sums: want token-sum"),
            ({"algorithm__infinirl__weigh": "trajectories", "actor_rollout_ref__actor__loss_agg_mode": "token-sum", "actor_rollout_ref__actor__use_kl_loss": True},
             "actor.use_kl_loss: True: it has no advantages"),
        ):
            with self.subTest(changes), self.assertRaisesRegex(ValueError, want):
                check(configuration(**changes))

    def test_defaults_follow_the_estimator(self):
        for name, want in (("gae", True), ("turn_gae", True), ("grpo", False), ("reinforce_plus_plus", True)):
            self.assertEqual(read("infinirl_" + name, {}).whiten, want)
        self.assertFalse(read("infinirl_gae", {"infinirl": {"whiten": False}}).whiten)

    def test_loops(self):
        rollout = {"prompt_length": 100, "response_length": 100, "max_model_len": None, "multi_turn": {"max_assistant_turns": 9}}
        check_loops([{"name": "other", "_target_": "else.Loop", "high": 1}, {"name": "mine", "_target_": LOOP, "high": 200, "reply": 20}], rollout)
        for entry, want in (
            ({"high": 201, "reply": 20}, "agent loop: high: 201: the server's window is 200 tokens"),
            ({"high": 150, "reply": 150}, "agent loop: reply: 150: want 1 to 149"),
            ({"high": 150, "reply": 20, "lo": 3}, "agent loop mine: lo: unknown: want one of high, reply, low"),
            ({"high": 150, "reply": 20, "low": 151}, r"agent loop: low: 151: want 1 to high \(150\)"),
            ({"high": 150, "reply": 20, "mode": "both"}, "agent loop: mode: 'both': want pair or result"),
            ({"high": 150, "reply": 20, "keep_last": -1}, "agent loop: keep_last: -1"),
            ({"high": 0, "reply": 20}, "agent loop: high: 0"),
        ):
            with self.subTest(entry), self.assertRaisesRegex(ValueError, want):
                check_loops([{"name": "mine", "_target_": LOOP, **entry}], rollout)
        with self.assertRaisesRegex(ValueError, "max_assistant_turns: none: a window that is condensed never ends an episode"):
            CondenseSettings(160, 20).check({**rollout, "multi_turn": {"max_assistant_turns": None, "max_user_turns": None}})
        with self.assertRaisesRegex(ValueError, "the server's window is 150 tokens"):
            CondenseSettings(160, 20).check({**rollout, "max_model_len": 150})


class Report(unittest.TestCase):
    def test_a_vote_a_trajectory(self):
        own = {"segments": 3, "status": "truncated", "dropped": 4}
        rows = Rows([("u", "0")] * 3 + [("u", "1"), ("p", "0")], [0, 1, 2, 0, 0], ["u"] * 4 + ["p"], [False] * 4 + [True], [3, 3, 3, 1, 3])
        extra = [{"infinirl": own, "reward_extra_info": {"acc": 1.0}}] * 3 + [{"infinirl": {"segments": 1, "status": "finished", "dropped": 0}, "reward_extra_info": {"acc": 0.0}}, {"infinirl": own}]
        got = report(rows, np.array([[1, 1]] * 4 + [[0, 0]]), np.array([[0, 1.0]] * 3 + [[0, 0.5], [0, 0]]), extra)
        self.assertEqual(got, {
            "infinirl/trajectories/total": 2, "infinirl/padding_rows/total": 1, "infinirl/score/mean": 0.75, "infinirl/segments/mean": 2.0, "infinirl/segments/max": 3.0,
            "infinirl/tokens/mean": 4.0, "infinirl/tokens/max": 6.0, "infinirl/dropped/mean": 2.0, "infinirl/truncated/mean": 0.5, "infinirl/context_overflow/mean": 0.0,
            "infinirl/success/mean": 0.5})

    def test_what_nobody_tells_is_left_out(self):
        got = report(Rows([("u", "0")], [0], ["u"], [False], [None]), np.ones((1, 1)), np.zeros((1, 1)), [{}])
        self.assertNotIn("infinirl/success/mean", got)
        self.assertNotIn("infinirl/dropped/mean", got)


if __name__ == "__main__":
    unittest.main()
