"""Layer (b): what the trainers refuse at their start, and how they cut mini-batches."""

import os

import verl
from hydra import compose, initialize_config_dir
from verl.trainer.ppo.v1 import get_trainer_cls

MODES = ("sync", "colocate_async", "separate_async")


def config(mode, *overrides):
    with initialize_config_dir(os.path.join(os.path.dirname(verl.__file__), "trainer/config"), version_base=None):
        return compose("ppo_trainer", [
            f"trainer.v1.trainer_mode=infinirl_{mode}", "algorithm.adv_estimator=infinirl_gae", "critic.enable=True", "data.train_batch_size=32",
            "actor_rollout_ref.actor.ppo_mini_batch_size=8", "critic.ppo_mini_batch_size=8", "actor_rollout_ref.rollout.n=3",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2", "critic.ppo_micro_batch_size_per_gpu=4",
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1", *overrides])


def refuses(want, mode, *overrides):
    try:
        get_trainer_cls(f"infinirl_{mode}")(config(mode, *overrides))
    except ValueError as error:
        assert want in str(error), error
        return
    raise AssertionError(f"nothing said: {want}")


def at_start():
    for mode in MODES:
        refuses("critic.enable: False: infinirl_gae reads values: want True", mode, "critic.enable=False")
        refuses("algorithm.adv_estimator: gae: it takes every row for a trajectory", mode, "algorithm.adv_estimator=gae")
        refuses("loss_agg_mode: seq-mean-token-mean: it weighs rows", mode, "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean")


def bare(mode, *overrides):
    """A trainer without machines."""
    cls = get_trainer_cls(f"infinirl_{mode}")
    trainer = object.__new__(cls)
    trainer.config = config(mode, *overrides)
    trainer.use_critic, trainer.use_reference_policy = True, False
    trainer.parameter_sync_step = 4 if mode == "separate_async" else 1
    return trainer


def minibatches():
    for mode, overrides, steps, multiple in (
        ("sync", (), 4, 4 * 24),  # 4 steps; 24: lcm of n 3, and 2 ranks of micro-batches of 2, 4 and 1
        ("colocate_async", ("critic.ppo_mini_batch_size=4",), 4, 8 * 24),  # the critic takes 8
        ("separate_async", (), 1, 24),  # a quarter of a batch at a time
        ("sync", ("actor_rollout_ref.actor.use_dynamic_bsz=True", "critic.use_dynamic_bsz=True", "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True"), 4, 4 * 6),
    ):
        trainer = bare(mode, *overrides)
        actor = trainer.config.actor_rollout_ref.actor
        assert trainer._minibatches(actor) == steps and trainer._get_required_batch_multiple(2) == multiple, (mode, trainer._get_required_batch_multiple(2))
        for times in (1, 2, 5):
            rows = range(times * multiple)
            with trainer._split(actor, rows):
                assert len(rows) == steps * actor.ppo_mini_batch_size * 3
            assert actor.ppo_mini_batch_size == 8


at_start()
minibatches()
print(f"trainers {', '.join(MODES)}: wrong runs are refused at their start; as many optimizer steps as configured for any number of rows")
