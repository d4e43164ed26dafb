"""Layer (b): `python -m infinirl_verl check` on a real verl, right and wrong."""

import contextlib
import importlib.metadata
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import verl  # noqa: F401  loads the plugin

from infinirl_verl import __main__ as check

GOOD = ["algorithm.adv_estimator=infinirl_gae", "trainer.v1.trainer_mode=infinirl_sync", "critic.enable=True", "data.train_batch_size=256",
        "actor_rollout_ref.actor.ppo_mini_batch_size=64", "critic.ppo_mini_batch_size=64"]
LOOP = "- {name: mine, _target_: infinirl_verl.agent_loop.CondensingToolAgentLoop, high: %d, reply: 100}\n"


def says(want, *overrides):
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(err):
        status = check.main(["check", *overrides])
    assert (status == 0) == (want == "the run is configured as it should be") and want in err.getvalue(), (want, err.getvalue())


def main():
    says("the run is configured as it should be", *GOOD)
    says("reads values: want True", *GOOD, "critic.enable=False")
    says("want trainer_mode=infinirl_sync", *GOOD, "trainer.v1.trainer_mode=sync")
    says("this run does not use infinirl", *GOOD[2:])
    says("algorithm.infinirl.lambda: unknown", *GOOD, "+algorithm.infinirl.lambda=1")
    with tempfile.TemporaryDirectory() as folder:
        agents = Path(folder, "agent.yaml")
        place = f"actor_rollout_ref.rollout.agent.agent_loop_config_path={agents}"
        agents.write_text(LOOP % 1024)
        says("max_assistant_turns: none", *GOOD, place)
        place = [place, "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=20"]
        says("the run is configured as it should be", *GOOD, *place)
        agents.write_text(LOOP % 1025)
        says("agent loop: high: 1025: the server's window is 1024 tokens", *GOOD, *place)
    with mock.patch.dict(os.environ, VERL_USE_EXTERNAL_PLUGINS="other"):
        says("VERL_USE_EXTERNAL_PLUGINS=other: verl does not load infinirl")
    with mock.patch.object(importlib.metadata, "entry_points", lambda group: []):
        says("verl.plugins has no entry infinirl: install the package")
    with mock.patch.object(check.importlib.metadata, "version", lambda name: "0.10.0"):
        says("verl 0.10.0: want >=0.9.1,<0.10")
    # what verl swallows, the plugin says
    broken = "import sys; sys.modules['transfer_queue'] = None; import verl"
    done = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True)
    assert done.returncode == 0 and "infinirl_verl is not loaded: " in done.stderr and "python -m infinirl_verl check" in done.stderr, done.stderr
    print("check: a right run passes; ten wrong ones and a plugin that cannot be loaded are named")


main()
