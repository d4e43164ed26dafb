"""python -m infinirl_verl check [OVERRIDE...]

Tells whether verl has loaded the plugin, and with the overrides of a run's command line,
whether that run is configured as it should be. Exit status 1 if not.
"""

import importlib.metadata
import os
import sys

VERSIONS = ((0, 9, 1), (0, 10))


def check_version(version):
    parts = tuple(int("".join(filter(str.isdigit, p)) or 0) for p in version.split(".")[:3])
    if not VERSIONS[0] <= parts < VERSIONS[1]:
        raise ValueError(f"verl {version}: want >=0.9.1,<0.10")


def check_plugin():
    """Whether the estimators and trainers are there, after `import verl`."""
    entries = [e for e in importlib.metadata.entry_points(group="verl.plugins") if e.value == "infinirl_verl.plugin"]
    if not entries:
        raise RuntimeError("verl.plugins has no entry infinirl: install the package (pip install interop/verl), a PYTHONPATH alone does not do")
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    if policy != "auto" and "infinirl" not in policy.split(","):
        raise RuntimeError(f"VERL_USE_EXTERNAL_PLUGINS={policy}: verl does not load infinirl: want auto, or infinirl among the names")
    entries[0].load()  # raises what verl has swallowed
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    from .estimators import ESTIMATORS, PREFIX
    from .settings import TRAINERS

    missing = [n for n in (PREFIX + e for e in ESTIMATORS) if n not in ADV_ESTIMATOR_REGISTRY] + [n for n in TRAINERS if n not in TRAINER_REGISTRY]
    if missing:
        raise RuntimeError(f"verl does not know {', '.join(missing)}")
    return [PREFIX + e for e in ESTIMATORS], list(TRAINERS)


def check_run(overrides):
    import verl
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    from verl.utils.import_utils import resolve_config_path

    from . import settings

    with initialize_config_dir(os.path.join(os.path.dirname(verl.__file__), "trainer", "config"), version_base=None):
        config = compose("ppo_trainer", overrides)
    if config.trainer.v1.trainer_mode not in settings.TRAINERS and not settings.is_ours(config.algorithm.adv_estimator):
        raise ValueError(f"trainer.v1.trainer_mode: {config.trainer.v1.trainer_mode}: this run does not use infinirl: want one of {', '.join(settings.TRAINERS)}")
    settings.check(config)
    path = config.actor_rollout_ref.rollout.agent.agent_loop_config_path
    if path:
        settings.check_loops(OmegaConf.load(resolve_config_path(path)), config.actor_rollout_ref.rollout)


def main(arguments):
    if arguments[:1] != ["check"]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        try:
            version = importlib.metadata.version("verl")
        except importlib.metadata.PackageNotFoundError:
            raise RuntimeError("verl is not installed here: want verl>=0.9.1,<0.10 (pip install 'verl>=0.9.1,<0.10')") from None
        check_version(version)
        import verl  # noqa: F401  loads the plugin

        estimators, trainers = check_plugin()
        print(f"verl {version}: loaded estimators {', '.join(estimators)}; trainers {', '.join(trainers)}")
        if arguments[1:]:
            check_run(arguments[1:])
            print("the run is configured as it should be")
    except Exception as error:
        print(f"infinirl_verl: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
