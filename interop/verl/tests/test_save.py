"""Saved rows are a batch that `infinirl advantage` reads."""

import json
import tempfile
import unittest
from pathlib import Path

import numpy as np

from infinirl_verl.__main__ import check_version
from infinirl_verl.save import save
from infinirl_verl.settings import Settings

from episodes import Batch, infinirl


class Save(unittest.TestCase):
    def test_infinirl_computes_the_same_credit_from_them(self):
        settings = Settings("gae", 0.98, 0.9, 0.95)
        for kl in (0.0, 0.1):
            batch = Batch(np.random.default_rng(8), kl=kl)
            a, r, _ = batch.credit(settings)
            cut = lambda matrix: [list(map(float, row[: len(line["mask"])])) for row, line in zip(matrix, batch.lines)]
            ones = [[1] * len(line["mask"]) for line in batch.lines]
            columns = {"prompts": [[5, 6]] * len(ones), "responses": ones, "response_mask": [line["mask"].tolist() for line in batch.lines], "rm_scores": cut(batch.column("outcome")),
                       "values": cut(batch.column("values")), "advantages": cut(a), "returns": cut(r)}
            if kl:
                columns["token_level_rewards"] = cut(batch.rewards())
            record = {"version": 1, "rule": "none", "rule_version": 1, "messages": 1, "keep": [[0, 1]], "tokens_before": 2, "tokens_after": 2}
            extra = [{"infinirl": {"status": str(line["status"]), "condense": record}} for line in batch.lines]
            with tempfile.TemporaryDirectory() as folder:
                path, again = Path(folder, "rows", "step1.jsonl"), Path(folder, "again.jsonl")
                save(path, batch.rows(), columns, extra)
                infinirl("batch", "check", path)
                infinirl("advantage", path, "-o", again, "--gamma", 0.98, "--lambda", 0.9, "--critic-lambda", 0.95)
                want, got = (list(map(json.loads, p.read_text().splitlines())) for p in (path, again))
            self.assertEqual(len(want), sum(line["key"][0] != "padding" for line in batch.lines))
            self.assertEqual(any("score" in line for line in want), not kl)
            by = {(line["trajectory_id"], line["inv_iter"]): line for line in got}
            for line in want:
                there = by.get((line["trajectory_id"], line["inv_iter"]))
                if there is None:  # without a trainable token: left out
                    self.assertFalse(any(line["advantages"]))
                    continue
                self.assertEqual(there["condense"], record)
                for name in ("advantages", "returns"):
                    np.testing.assert_allclose(there[name], line[name], atol=1e-6)


class Version(unittest.TestCase):
    def test_of_verl(self):
        for version in ("0.9.1", "0.9.1.post1", "0.9.12"):
            check_version(version)
        for version in ("0.9.0", "0.10.0", "0.8.9", "1.0"):
            with self.assertRaisesRegex(ValueError, f"verl {version}: want >=0.9.1,<0.10"):
                check_version(version)


if __name__ == "__main__":
    unittest.main()
