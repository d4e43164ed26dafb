"""Layer (b): verl's own compute_advantage and losses with these estimators, against
`infinirl advantage`."""

import tempfile
import time

import numpy as np
import torch
import verl
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.workers.config import FSDPActorConfig

from episodes import Batch, all_settings
from infinirl_verl.credit import said
from infinirl_verl.estimators import ESTIMATORS, PREFIX
from infinirl_verl.settings import Settings

TOLERANCE = 1e-6


def proto(batch):
    tensors = {"token_level_rewards": batch.rewards(), "response_mask": batch.column("mask"), "values": batch.column("values")}
    return DataProto.from_dict({name: torch.from_numpy(x).float() for name, x in tensors.items()}, {"uid": [r["key"][0] for r in batch.lines]})


def through_verl(batch, settings, call=compute_advantage, minibatches=1):
    own = {"critic_lambda": settings.critic_lambda, "lambda_alpha": settings.lambda_alpha, "whiten": settings.whiten, "weigh": settings.weigh}
    config = OmegaConf.create({"gamma": settings.gamma, "lam": settings.lam, "infinirl": own})
    values = ESTIMATORS[settings.estimator].values
    with said(batch.rows(values), minibatches):
        out = call(proto(batch), adv_estimator=PREFIX + settings.estimator, gamma=settings.gamma, lam=settings.lam, config=config)
    return out.batch["advantages"], out.batch["returns"]


def multi(batch):
    keys = ["_".join((*r["key"], str(r["order"]))) for r in batch.lines]
    return lambda data, **named: compute_advantage_for_multi_trajectories(data, batch_keys=keys, **named)


def credit():
    """Both of verl's functions, every estimator, 200 trajectories each."""
    worst, count, took = 0.0, 0, 0.0
    for seed, settings in enumerate(all_settings()):
        batch = Batch(np.random.default_rng(seed), trajectories=200, longest=120, kl=0.05)
        with tempfile.TemporaryDirectory() as folder:
            want = batch.theirs(folder, settings)
        for call in (compute_advantage, multi(batch)):
            started = time.perf_counter()
            got = through_verl(batch, settings, call)
            took += time.perf_counter() - started
            for x, y in zip(got, want):
                worst = max(worst, np.max(np.abs(x.numpy() - y) / np.maximum(1, np.abs(y))))
        count += 1
        assert worst < TOLERANCE, (settings, worst)
    print(f"verl {verl.__version__}: {count} settings of {len(ESTIMATORS)} estimators, 200 trajectories each, through compute_advantage and "
          f"compute_advantage_for_multi_trajectories: largest difference {worst:.1e}; {took / (2 * count):.2f} s a batch")


def theirs():
    """What verl's own gae does with the same rows."""
    batch, settings = Batch(np.random.default_rng(0), trajectories=200, longest=120), Settings("gae", 1.0, 0.95)
    with tempfile.TemporaryDirectory() as folder:
        _, want = batch.theirs(folder, settings)
    config = OmegaConf.create({"gamma": 1.0, "lam": 0.95, "use_pf_ppo": False})
    got = compute_advantage(proto(batch), adv_estimator="gae", gamma=1.0, lam=0.95, config=config).batch["returns"].numpy()
    mask = (batch.column("mask") > 0) & np.array([r["key"][0] != "padding" for r in batch.lines])[:, None]
    off = np.abs(got - want)[mask]
    print(f"verl's own gae on such rows: returns differ at {(off > 1e-3).mean():.1%} of trainable tokens, by {off.mean():.2f} on average")


def padding():
    """Rows that fill the batch change neither credit nor loss."""
    policy_loss = get_policy_loss_fn("vanilla")
    for settings in all_settings():
        full, bare = Batch(np.random.default_rng(4), padding=9), Batch(np.random.default_rng(4), padding=9)
        bare.lines = [r for r in bare.lines if r["key"][0] != "padding"]
        real = [i for i, r in enumerate(full.lines) if r["key"][0] != "padding"]
        a, b = through_verl(full, settings)[0], through_verl(bare, settings)[0]
        assert torch.equal(a[real], b), settings
        old = torch.randn(a.shape, generator=torch.Generator().manual_seed(0))
        new = old + 0.3 * torch.randn(a.shape, generator=torch.Generator().manual_seed(1))
        config = FSDPActorConfig(strategy="fsdp", rollout_n=1, ppo_mini_batch_size=1, ppo_micro_batch_size_per_gpu=1)
        losses = [policy_loss(old_log_prob=old[i], log_prob=new[i], advantages=adv, response_mask=torch.from_numpy(batch.column("mask")).float(), loss_agg_mode="token-mean", config=config)[0]
                  for batch, adv, i in ((full, a, slice(None)), (bare, b, real))]
        assert torch.isclose(*losses, rtol=1e-6), (settings, losses)
    print("padding: the same advantages, bit for bit, and the same clipped loss")


def weights():
    """Trajectories weigh the same through verl's clipped loss, summed over two mini-batches."""
    batch, policy_loss = Batch(np.random.default_rng(6)), get_policy_loss_fn("vanilla")
    plain, weighed = (through_verl(batch, Settings("gae", weigh=w), minibatches=2)[0] for w in ("tokens", "trajectories"))
    mask = torch.from_numpy(batch.column("mask")).float()
    old = torch.randn(mask.shape, generator=torch.Generator().manual_seed(0))
    new = old + 0.5 * torch.randn(mask.shape, generator=torch.Generator().manual_seed(1))
    config = FSDPActorConfig(strategy="fsdp", rollout_n=1, ppo_mini_batch_size=1, ppo_micro_batch_size_per_gpu=1)
    loss = lambda a, rows: policy_loss(old_log_prob=old[rows], log_prob=new[rows], advantages=a[rows], response_mask=mask[rows], loss_agg_mode="token-sum", config=config)[0].item()
    keys, rows = [r["key"] for r in batch.lines], list(range(len(batch.lines)))
    real = {k for k in keys if k[0] != "padding" and mask[[i for i in rows if keys[i] == k]].sum() > 0}
    each = []
    for key in real:
        own = [i for i in rows if keys[i] == key]
        each.append(loss(plain, own) / mask[own].sum().item())
    half = len(rows) // 2
    got = (loss(weighed, rows[:half]) + loss(weighed, rows[half:])) / 2
    assert abs(got - np.mean(each)) < 1e-6 * max(1, abs(got)), (got, np.mean(each))
    print(f"weights: mean over {len(each)} trajectories {np.mean(each):.6f}, verl's token-sum over two mini-batches {got:.6f}")
    assert agg_loss(mask, mask, "token-sum") == mask.sum()


def plain_trainer():
    try:
        compute_advantage(proto(Batch(np.random.default_rng(0))), adv_estimator="infinirl_gae", config=OmegaConf.create({}))
    except RuntimeError as error:
        assert "want trainer.v1.trainer_mode=infinirl_sync" in str(error), error
        print(f"plain trainer_mode: {error}")
        return
    raise AssertionError("nothing said of a plain trainer_mode")


for check in (credit, theirs, padding, weights, plain_trainer):
    check()
