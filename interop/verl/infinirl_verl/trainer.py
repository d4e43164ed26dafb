"""verl's V1 trainers, which say which rows are one trajectory.

verl's estimators see rows, in any order. This one names the trajectories, and hands on
what the critic thinks of the state in which a truncated one was left. It also takes as
many optimizer steps as configured: verl cuts mini-batches by rows, of which there are
more the more often trajectories were cut.
"""

import logging
import math
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import ray
import transfer_queue as tq
from omegaconf import OmegaConf, open_dict
from verl.trainer.ppo.v1 import PPOTrainerColocateAsync, PPOTrainerSeparateAsync, PPOTrainerSync, register_trainer
from verl.utils.import_utils import resolve_config_path
from verl.workers.utils.padding import response_from_nested

from . import settings
from .credit import said
from .estimators import ESTIMATORS, PREFIX
from .report import report
from .rows import Rows, split_key
from .save import save

logger = logging.getLogger("infinirl_verl")


class CrossSegment:
    """Mixed in before one of verl's V1 trainers."""

    def __init__(self, config):
        settings.check(config)
        if path := config.actor_rollout_ref.rollout.agent.agent_loop_config_path:
            settings.check_loops(OmegaConf.load(resolve_config_path(path)), config.actor_rollout_ref.rollout)
        self.credit = settings.read(config.algorithm.adv_estimator, config.algorithm)
        with open_dict(config):  # verl compares with "sync" in many places
            config.trainer.v1.trainer_mode = config.trainer.v1.trainer_mode.removeprefix(PREFIX)
        super().__init__(config)

    # --- optimizer steps

    def _minibatches(self, part):
        return max(1, self.config.data.train_batch_size // self.parameter_sync_step // part.ppo_mini_batch_size)

    def _get_required_batch_multiple(self, dp_size):
        """Rows are filled up to what all mini-batches, ranks, micro-batches and rollout.n divide."""
        model = self.config.actor_rollout_ref
        parts = [model.actor, *([self.config.critic] if self.use_critic else [])]
        inference = [model.rollout, *([model.ref] if self.use_reference_policy else [])]
        micro = [part.ppo_micro_batch_size_per_gpu for part in parts if not part.use_dynamic_bsz]
        micro += [part.get("forward_micro_batch_size_per_gpu") for part in parts if not part.use_dynamic_bsz]
        micro += [part.log_prob_micro_batch_size_per_gpu for part in inference if not part.log_prob_use_dynamic_bsz]
        rows = math.lcm(model.rollout.n, *(dp_size * (size or 1) for size in micro), dp_size)
        return rows * math.lcm(*map(self._minibatches, parts))

    @contextmanager
    def _split(self, part, batch):
        """Within it verl's mini-batch is this batch's share of rows: verl multiplies by rollout.n."""
        configured = part.ppo_mini_batch_size
        share = len(batch) // self._minibatches(part) // self.config.actor_rollout_ref.rollout.n
        with open_dict(part):
            part.ppo_mini_batch_size = share
        try:
            yield
        finally:
            with open_dict(part):
                part.ppo_mini_batch_size = configured

    def _update_actor(self, batch, metrics):
        with self._split(self.config.actor_rollout_ref.actor, batch):
            return super()._update_actor(batch, metrics)

    def _update_critic(self, batch, metrics):
        with self._split(self.config.critic, batch):
            return super()._update_critic(batch, metrics)

    # --- credit

    def _compute_values(self, batch, metrics):
        """As verl's, and keeps V behind the last token of each row, which verl drops."""
        batch.extra_info.update({"compute_loss": False, "temperature": self.config.actor_rollout_ref.rollout.temperature})
        ray.get(self.critic_wg.infer_batch(batch).futures)
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["values", "response_mask"])
        values = data.pop("values")
        self._last_values = dict(zip(batch.keys, values.values()[values.offsets()[1:] - 1].double().tolist()))
        data["values"] = response_from_nested(values, data["response_mask"])
        tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=data.select("values"))
        return batch

    def _compute_advantage(self, batch, metrics):
        rows, extra = self._rows(batch)
        with said(rows, self._minibatches(self.config.actor_rollout_ref.actor)) as hearing:
            batch = super()._compute_advantage(batch, metrics)
        for warning in hearing.warnings:
            logger.warning(warning)
        mask = self._column(batch, "response_mask")
        metrics.update(report(rows, mask, rows.outcome, extra))
        if self.credit.save_rows:
            self._save_rows(batch, rows, extra)
        return batch

    def _rows(self, batch):
        """What verl's estimators are not told, and the extra_fields of each row."""
        keys = [split_key(key) for key in batch.keys]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields"])
        extra = [e if isinstance(e, dict) else getattr(e, "data", None) or {} for e in list(data["extra_fields"])]
        own = [e.get("infinirl", {}) for e in extra]
        rows = Rows(
            trajectory=[trajectory for trajectory, _ in keys], order=[order for _, order in keys], group=[uid for (uid, _), _ in keys],
            padding=[tag.get("is_padding", False) for tag in batch.tags], segments=[o.get("segments") for o in own],
            outcome=self._column(batch, "rm_scores"))
        if self.use_critic:
            rows.values = self._column(batch, "values")
            if ESTIMATORS[self.credit.estimator].bootstraps and self.credit.truncated == "bootstrap":
                rows.bootstrap = np.array([self._last_values[key] if o.get("status") == "truncated" and o.get("inv_iter") == 0 and not padding else 0.0
                                           for key, o, padding in zip(batch.keys, own, rows.padding)])
        return rows, extra

    def _column(self, batch, name):
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=[name])
        return data[name].to_padded_tensor(0).double().numpy()

    def _save_rows(self, batch, rows, extra):
        names = ["prompts", "responses", "response_mask", "rm_scores", "rollout_log_probs", "old_log_probs", "advantages", "returns"]
        names += ["values"] * self.use_critic + ["ref_log_prob"] * self.use_reference_policy + ["token_level_rewards"] * self.config.algorithm.use_kl_in_reward
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
        columns = {name: [row.double().tolist() for row in data[name].unbind()] for name in data.keys()}
        save(Path(self.credit.save_rows) / f"step{self.global_steps}.{self.local_trigger_step}.jsonl", rows, columns, extra)


@register_trainer("infinirl_sync")
class Sync(CrossSegment, PPOTrainerSync):
    pass


@register_trainer("infinirl_colocate_async")
class ColocateAsync(CrossSegment, PPOTrainerColocateAsync):
    pass


@register_trainer("infinirl_separate_async")
class SeparateAsync(CrossSegment, PPOTrainerSeparateAsync):
    pass
