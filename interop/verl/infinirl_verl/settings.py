"""What a verl configuration asks of us, checked before anything runs.

    algorithm.adv_estimator     infinirl_gae, infinirl_grpo, ...
    algorithm.gamma, lam        discount, and lambda of the advantages
    +algorithm.infinirl.critic_lambda  lambda of the returns (1)
    +algorithm.infinirl.lambda_alpha   above 0: lambda of the advantages by length (0)
    +algorithm.infinirl.whiten         advantages to mean 0, variance 1 over the batch (gae, turn_gae: true)
    +algorithm.infinirl.truncated      bootstrap or zero: what follows a truncated trajectory (bootstrap)
    +algorithm.infinirl.weigh          tokens or trajectories: what weighs the same (tokens)
    +algorithm.infinirl.save_rows      folder that gets every step's rows as a batch of InfiniRL
"""

from dataclasses import dataclass

from .estimators import ESTIMATORS, PREFIX
from .fifo import CondenseSettings

TRAINERS = ("infinirl_sync", "infinirl_colocate_async", "infinirl_separate_async")
LOOP = "infinirl_verl.agent_loop.CondensingToolAgentLoop"


@dataclass(frozen=True)
class Settings:
    estimator: str
    gamma: float = 1.0
    lam: float = 0.95
    critic_lambda: float = 1.0
    lambda_alpha: float = 0.0
    whiten: bool = False
    truncated: str = "bootstrap"
    weigh: str = "tokens"
    save_rows: str | None = None

    def __post_init__(self):
        if self.estimator not in ESTIMATORS:
            raise ValueError(f"algorithm.adv_estimator: {PREFIX}{self.estimator}: want one of {', '.join(PREFIX + n for n in ESTIMATORS)}")
        for name in ("gamma", "lam", "critic_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{place(name)}: {getattr(self, name)}: want a number from 0 to 1")
        if not 0 <= self.lambda_alpha < float("inf"):
            raise ValueError(f"{place('lambda_alpha')}: {self.lambda_alpha}: want 0 (off) or more")
        for name, choices in (("whiten", (True, False)), ("truncated", ("bootstrap", "zero")), ("weigh", ("tokens", "trajectories"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{place(name)}: {getattr(self, name)!r}: want {' or '.join(map(str, choices))}")


def place(name):
    return f"algorithm.{name}" if name in ("gamma", "lam") else f"algorithm.infinirl.{name}"


def is_ours(estimator):
    return str(estimator).startswith(PREFIX)


def read(estimator, algorithm):
    """Settings of an estimator's name in verl and verl's `algorithm`."""
    name, algorithm = str(estimator).removeprefix(PREFIX), algorithm or {}
    own = dict(algorithm.get("infinirl") or {})
    known = [f for f in Settings.__dataclass_fields__ if f not in ("estimator", "gamma", "lam")]
    for key in own:
        if key not in known:
            raise ValueError(f"algorithm.infinirl.{key}: unknown: want one of {', '.join(known)}")
    if "whiten" not in own and name in ESTIMATORS:
        own["whiten"] = ESTIMATORS[name].whiten is not False
    for key in ("critic_lambda", "lambda_alpha"):
        if key in own:
            own[key] = float(own[key])
    return Settings(name, float(algorithm.get("gamma", 1.0)), float(algorithm.get("lam", 0.95)), **own)


def check(config):
    """Refuses what would train on something else than was meant. config: all of verl's."""
    mode, estimator = config["trainer"]["v1"]["trainer_mode"], config["algorithm"]["adv_estimator"]
    if mode not in TRAINERS:
        if is_ours(estimator):
            raise ValueError(f"trainer.v1.trainer_mode: {mode}: {estimator} needs to know which rows are one trajectory: want trainer_mode={PREFIX}{mode}")
        return
    if not config["trainer"].get("use_v1", True):
        raise ValueError("trainer.use_v1: False: condensed trajectories have several rows a prompt: want True")
    if not is_ours(estimator):
        raise ValueError(f"algorithm.adv_estimator: {estimator}: it takes every row for a trajectory: want one of {', '.join(PREFIX + n for n in ESTIMATORS)}")
    settings = read(estimator, config["algorithm"])
    values, critic = ESTIMATORS[settings.estimator].values, config["critic"].get("enable")
    if values and not critic:
        raise ValueError(f"critic.enable: {critic}: {estimator} reads values: want True")
    _check_loss(settings, config["actor_rollout_ref"]["actor"], config["critic"] if critic else None)
    _check_sizes(config)


def _check_loss(settings, actor, critic):
    for name, part in (("actor_rollout_ref.actor", actor), ("critic", critic or {})):
        mode = part.get("loss_agg_mode", "token-mean")
        if mode.startswith("seq-"):
            raise ValueError(f"{name}.loss_agg_mode: {mode}: it weighs rows, of which cutting makes more, and counts those that fill the batch: want token-mean")
    if settings.weigh != "trajectories":
        return
    if actor.get("loss_agg_mode") != "token-sum":
        raise ValueError(f"actor_rollout_ref.actor.loss_agg_mode: {actor.get('loss_agg_mode')}: weights of trajectories are exact under sums: want token-sum")
    for name in ("use_kl_loss", "entropy_coeff"):
        if actor.get(name):
            raise ValueError(f"actor_rollout_ref.actor.{name}: {actor.get(name)}: it has no advantages, through which trajectories are weighed: want 0, or algorithm.infinirl.weigh=tokens")


def _check_sizes(config):
    actor, batch = config["actor_rollout_ref"]["actor"], config["data"]["train_batch_size"]
    sizes = [("actor_rollout_ref.actor", actor["ppo_mini_batch_size"])]
    if config["critic"].get("enable"):
        sizes.append(("critic", config["critic"]["ppo_mini_batch_size"]))
    for name, size in sizes:
        if batch % size:
            raise ValueError(f"{name}.ppo_mini_batch_size: {size}: want a divisor of data.train_batch_size {batch}")


def check_loops(entries, rollout):
    """Checks the entries of agent.yaml that are ours against verl's `rollout`."""
    for entry in entries:
        if entry.get("_target_") != LOOP:
            continue
        own = {k: v for k, v in entry.items() if k not in ("_target_", "name")}
        for key in own:
            if key not in CondenseSettings.__dataclass_fields__:
                raise ValueError(f"agent loop {entry.get('name')}: {key}: unknown: want one of {', '.join(CondenseSettings.__dataclass_fields__)}")
        CondenseSettings(**own).check(rollout)
