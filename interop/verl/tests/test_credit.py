"""The estimators against `infinirl advantage`, and what must hold of them."""

import tempfile
import unittest

import numpy as np

from infinirl_verl.estimators import estimate
from infinirl_verl.rows import Rows, decisions, split_key, trajectories
from infinirl_verl.settings import Settings
from infinirl_verl.weights import trajectory_weights

from episodes import Batch, all_settings

TOLERANCE = 1e-6


def one(rewards, values, masks, **more):
    """One trajectory of some segments, its rows in the order of time."""
    n, width = len(masks), max(map(len, masks))
    pad = lambda rows: np.array([[*row, *[0] * (width - len(row))] for row in rows], float)
    rows = Rows([("u", "0")] * n, list(range(n)), ["u"] * n, [False] * n, [n] * n, values=pad(values), **more)
    return rows, pad(rewards), pad(masks)


GOLDEN = one(rewards=[[0] * 4, [0] * 3, [0, 0, 1, 0]], values=[[0.1, 0.2, 9, 0.3], [9, 0.4, 0.5], [0.6, 0.7, 0.8, 9]], masks=[[1, 1, 0, 1], [0, 1, 1], [1, 1, 1, 0]])


class Oracle(unittest.TestCase):
    def test_every_estimator_equals_infinirl_advantage(self):
        for seed in range(2):
            for settings in all_settings():
                with self.subTest(seed=seed, settings=settings), tempfile.TemporaryDirectory() as folder:
                    batch = Batch(np.random.default_rng(seed), kl=0.1 * seed)
                    want = batch.theirs(folder, settings)
                    for got, there in zip(batch.credit(settings), want):
                        self.assertLess(np.max(np.abs(got - there) / np.maximum(1, np.abs(there))), TOLERANCE)
                        self.assertTrue(there.any())


class Holds(unittest.TestCase):
    def test_golden_case(self):
        a, r, _ = estimate(Settings("gae", 0.9, 0.8, 1.0), *GOLDEN)
        mask = GOLDEN[2] > 0
        np.testing.assert_allclose(a[mask], [0.219568, 0.193845, 0.172007, 0.155565, 0.146618, 0.14808, 0.164, 0.2], atol=5e-7)
        np.testing.assert_allclose(r[mask], [0.478297, 0.531441, 0.59049, 0.6561, 0.729, 0.81, 0.9, 1.0], atol=5e-7)
        self.assertFalse(a[~mask].any() or r[~mask].any())

    def test_cutting_changes_no_bit(self):
        rng = np.random.default_rng(5)
        for _ in range(50):
            n = int(rng.integers(2, 80))
            mask, values, rewards = (rng.random(n) < 0.6).astype(float), rng.standard_normal(n), rng.standard_normal(n) * (rng.random(n) < 0.2)
            mask[0] = 1
            cuts = np.sort(rng.choice(np.arange(1, n), min(n - 1, int(rng.integers(1, 6))), replace=False))
            whole = one([rewards], [values], [mask])
            parts = one(*(np.split(x, cuts) for x in (rewards, values, mask)))
            for name in ("gae", "reinforce_plus_plus"):
                settings = Settings(name, 0.98, 0.9, 0.95)
                for want, got in zip(estimate(settings, *whole)[:2], estimate(settings, *parts)[:2]):
                    np.testing.assert_array_equal(want[whole[2] > 0], got[parts[2] > 0])

    def test_padding_and_the_order_of_rows_change_nothing(self):
        for settings in all_settings():
            full, bare = Batch(np.random.default_rng(2), padding=9), Batch(np.random.default_rng(2), padding=9)
            bare.lines = [r for r in bare.lines if r["key"][0] != "padding"][::-1]
            results = []
            for batch in (full, bare):
                a, r, _ = batch.credit(settings)
                results.append({(row["key"], row["order"]): (a[i].tobytes(), r[i].tobytes()) for i, row in enumerate(batch.lines)})
                for i, row in enumerate(batch.lines):
                    self.assertTrue(row["key"][0] != "padding" or not a[i].any() and not r[i].any())
            exact = settings.estimator in ("grpo", "dr_grpo", "rloo") or settings.whiten  # sums in another order
            for key, want in results[1].items():
                for x, y in zip(want, results[0][key]):
                    if exact:
                        np.testing.assert_allclose(np.frombuffer(x), np.frombuffer(y), rtol=1e-12, atol=1e-14)
                    else:
                        self.assertEqual(x, y)

    def test_the_outcome_counts_once(self):
        rewards, outcome = np.array([[0, 1.0], [0, 1.0], [0, 1.0]]), np.array([[0, 1.0]] * 3)
        rows, _, mask = one(rewards, np.zeros((3, 2)), np.ones((3, 2)), outcome=outcome)
        self.assertEqual(decisions(rows, rewards, mask).scores, [1.0])
        _, r, _ = estimate(Settings("gae", 1.0, 1.0), rows, rewards, mask)
        np.testing.assert_array_equal(r, np.ones((3, 2)))

    def test_a_truncated_trajectory_goes_on_with_the_value_it_was_left_with(self):
        rows, rewards, mask = one([[0, 0]], [[0.5, 0.5]], [[1, 1]], bootstrap=np.array([2.0]))
        _, r, _ = estimate(Settings("gae", 0.5, 1.0), rows, rewards, mask)
        np.testing.assert_allclose(r, [[0.5, 1.0]])

    def test_nan_where_nothing_was_decided_reaches_no_result(self):
        rows, rewards, mask = one([[0, 0, 1]], [[0.5, 0.1, 0.5]], [[1, 0, 1]])
        want = estimate(Settings("gae"), rows, rewards, mask)[0]
        rewards[0, 1], rows.values[0, 1] = np.nan, np.inf
        np.testing.assert_array_equal(estimate(Settings("gae"), rows, rewards, mask)[0], want)

    def test_one_token_is_not_whitened(self):
        a, _, _ = estimate(Settings("gae", whiten=True), *one([[3]], [[1]], [[1]]))
        self.assertEqual(a, [[2.0]])

    def test_equal_scores_give_exactly_nothing(self):
        rows = Rows([("u", str(k)) for k in range(3)], [0] * 3, ["u"] * 3, [False] * 3, [1] * 3)
        for name in ("grpo", "dr_grpo", "rloo"):
            self.assertFalse(estimate(Settings(name), rows, np.full((3, 1), 0.1), np.ones((3, 1)))[0].any())

    def test_a_vote_a_trajectory(self):
        keys = [("u", "0")] * 3 + [("u", "1")]
        outcome = np.array([[1.0], [1.0], [1.0], [0.0]])
        rows = Rows(keys, [0, 1, 2, 0], ["u"] * 4, [False] * 4, [3, 3, 3, 1], outcome=outcome)
        a, _, _ = estimate(Settings("dr_grpo"), rows, outcome, np.ones((4, 1)))
        np.testing.assert_array_equal(a, [[0.5], [0.5], [0.5], [-0.5]])

    def test_trajectories_weigh_the_same_however_they_were_cut(self):
        loss = np.array([[1.0, 2, 3], [4, 5, 6]])
        mask = np.array([[1.0, 1, 0], [1, 0, 0]])
        for trajectory, want in (([0, 0], 7 / 3), ([0, 1], 2.75)):
            lengths = np.bincount(trajectory, mask.sum(1)).astype(int)
            weights = trajectory_weights(lengths, minibatches=1)[trajectory]
            self.assertAlmostEqual(float((loss * mask * weights[:, None]).sum()), want)

    def test_weights_are_those_of_the_advantages(self):
        batch = Batch(np.random.default_rng(3))
        plain, _, _ = batch.credit(Settings("gae"))
        weighed, _, _ = batch.credit(Settings("gae", weigh="trajectories"), minibatches=2)
        count = {}
        for r in batch.lines:
            if r["key"][0] != "padding":
                count[r["key"]] = count.get(r["key"], 0) + r["mask"].sum()
        trained = sum(n > 0 for n in count.values())
        for i, r in enumerate(batch.lines):
            if r["key"][0] != "padding":
                np.testing.assert_allclose(weighed[i], plain[i] * 2 / (trained * max(1, count[r["key"]])), rtol=1e-12)

    def test_what_is_lost_is_said(self):
        rows, rewards, mask = one([[1, 0], [0, 0]], [[0, 0]] * 2, [[0, 1], [0, 1]])
        self.assertIn("trajectory u_0: reward 1 before the first trainable token follows no action: dropped", estimate(Settings("gae"), rows, rewards, mask)[2])
        a, r, warnings = estimate(Settings("gae"), *one([[1]], [[0]], [[0]]))
        self.assertEqual(warnings, ["trajectory u_0: no trainable token: no sample"])
        self.assertFalse(a.any() or r.any())

    def test_an_empty_batch(self):
        rows = Rows([("p", "0")], [0], ["p"], [True], [None], values=np.zeros((1, 2)))
        for settings in all_settings():
            a, _, _ = estimate(settings, rows, np.zeros((1, 2)), np.zeros((1, 2)))
            self.assertFalse(a.any())


class Errors(unittest.TestCase):
    def rows(self, order, segments=None, group=None, keys=None):
        n = len(order)
        return Rows(keys or [("u", "0")] * n, order, group or ["u"] * n, [False] * n, segments or [None] * n)

    def test_rows_that_do_not_make_trajectories(self):
        for rows, want in (
            (self.rows([0, 1, 1]), "trajectory u_0: segment 1 is there twice"),
            (self.rows([0, 2]), "trajectory u_0: segment 1 of 3 is missing"),
            (self.rows([1]), "trajectory u_0: segment 0 of 2 is missing"),
            (self.rows([0, 1], [3, 3]), "trajectory u_0: 2 of its 3 segments are here"),
            (self.rows([0, 1], group=["u", "v"]), "trajectory u_0: groups 'u' and 'v'"),
        ):
            with self.assertRaisesRegex(ValueError, want):
                trajectories(rows)

    def test_keys(self):
        self.assertEqual(split_key("a_b_1_2"), (("a_b", "1"), 2))
        for key in ("a", "a_1", "a_1_x"):
            with self.assertRaisesRegex(ValueError, "want uid_session_index"):
                split_key(key)

    def test_no_critic(self):
        rows = self.rows([0])
        for name in ("gae", "turn_gae"):
            with self.assertRaisesRegex(ValueError, f"infinirl_{name} reads values: set critic.enable=True"):
                estimate(Settings(name), rows, np.zeros((1, 1)), np.ones((1, 1)))

    def test_nothing_to_compare_with(self):
        rows = self.rows([0, 0], keys=[("u", "0"), ("v", "0")], group=["u", "v"])
        with self.assertRaisesRegex(ValueError, "estimator grpo: each of 2 groups has one trajectory.*rollout.n of 2"):
            estimate(Settings("grpo"), rows, np.zeros((2, 1)), np.ones((2, 1)))

    def test_numbers(self):
        for rewards, values, bootstrap, want in (
            ([[0, np.nan]], [[0, 0]], 0, "trajectory u_0, segment 0, response token 1: rewards: nan"),
            ([[0, 0]], [[np.inf, 0]], 0, "trajectory u_0, segment 0, response token 0: values: inf"),
            ([[0, 0]], [[0, 0]], np.nan, "trajectory u_0: bootstrap value nan"),
            ([[0, 3e38]], [[-3e38, 0]], 0, "response token 0: advantages: .*too large for 32 bits"),
        ):
            with self.assertRaisesRegex(ValueError, want):
                estimate(Settings("gae", lam=1.0), *one(rewards, values, [[1, 1]], bootstrap=np.array([bootstrap])))


if __name__ == "__main__":
    unittest.main()
