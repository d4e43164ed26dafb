"""Layer (b): the agent loop on verl's own tool agent, parser and tools, against
`infinirl condense` on the same conversations. No Ray: the server has a script.
Usage: verl_loop.py TINY [EPISODES]"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import verl
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.tools.function_tool import FUNCTION_TOOL_REGISTRY, function_tool
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from episodes import infinirl
from infinirl_verl.agent_loop import CondensingToolAgentLoop
from infinirl_verl.credit import said
from infinirl_verl.rows import Rows

TINY = sys.argv[1]
EPISODES = int(sys.argv[2]) if len(sys.argv) > 2 else 120
REPLY = 220


@function_tool
def page(n: int) -> str:
    """Shows a page.

    Args:
        n: its length in words.
    """
    return " ".join(f"word{k}" for k in range(n))


tokenizer = AutoTokenizer.from_pretrained(TINY)
with initialize_config_dir(os.path.join(os.path.dirname(verl.__file__), "trainer/config"), version_base=None):
    config = compose("ppo_trainer", [
        "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.rollout.multi_turn.format=hermes", f"actor_rollout_ref.model.path={TINY}",
        "data.max_prompt_length=1024", "data.max_response_length=4096", "actor_rollout_ref.rollout.multi_turn.max_tool_response_length=100000",
        "actor_rollout_ref.rollout.multi_turn.max_parallel_calls=3", "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=14"])


def call(*lengths):
    return "look" + "".join(f'\n<tool_call>\n{{"name": "page", "arguments": {{"n": {n}}}}}\n</tool_call>' for n in lengths)


class Server:
    """Says what its script says."""

    def __init__(self, script):
        self.script, self.saw, self.said = script, [], []

    async def generate(self, request_id, prompt_ids, sampling_params, **_):
        assert sampling_params["max_tokens"] == REPLY
        ids = tokenizer.encode(self.script[len(self.said)], add_special_tokens=False) + [tokenizer.eos_token_id]
        self.saw.append(list(prompt_ids))
        assert len(ids) <= REPLY
        self.said.append(ids)
        return TokenOutput(token_ids=ids, log_probs=[-1.0] * len(ids), extra_fields={"global_steps": 1, "min_global_steps": 1, "max_global_steps": 1})


def make(server, **settings):
    return CondensingToolAgentLoop(
        trainer_config=DictConfigWrap(config), server_manager=server, tokenizer=tokenizer, processor=None, dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data), hf_model_type="qwen2", tools=ToolListWrap([FUNCTION_TOOL_REGISTRY["page"]]), **settings)


async def play(script, opening, **settings):
    server = Server(script)
    loop = make(server, **settings)
    messages = []
    pending = loop._handle_pending_state

    async def remember(agent_data, sampling_params):
        messages.append(agent_data.messages)  # the list grows as the episode does
        return await pending(agent_data, sampling_params)

    loop._handle_pending_state = remember
    rows = await loop.run({}, raw_prompt=opening)
    return loop, server, rows, messages[0]


def recording(loop, server, messages):
    """The conversation in OpenAI's form; replies with the ids that were sampled."""
    said = iter(server.said)
    out = [{**m, "content": "", "token_ids": next(said)} if m["role"] == "assistant" else dict(m) for m in messages]
    out += [{"role": "assistant", "content": "", "token_ids": ids} for ids in said]  # that a bound on turns ended
    if loop.status == "context_overflow":  # the reply that had no room
        out.append({"role": "assistant", "content": "", "token_ids": [tokenizer.eos_token_id]})
    for m in out:
        if calls := m.get("tool_calls"):
            m["tool_calls"] = [{"id": f"c{k}", "type": "function", "function": {**c["function"], "arguments": json.dumps(c["function"]["arguments"])}} for k, c in enumerate(calls)]
    return {"messages": out, "reward": 1.0}


def episode(rng, k):
    settings = {"high": rng.randint(800, 2200), "reply": REPLY, "keep_last": rng.randint(0, 3), "mode": "result" if k % 2 else "pair", "cut_oversize": rng.random() < 0.8}
    settings["low"] = rng.randint(REPLY + 100, settings["high"])
    longest = rng.choice([12, 40, 150])  # words of seven bytes: some results are larger than the window
    script = [call(*(rng.randint(0, longest) for _ in range(rng.choice([1, 1, 1, 2, 3])))) for _ in range(rng.randint(0, 16))] + ["done " + "x" * rng.randint(0, 50)]
    opening = [{"role": "system", "content": "You read."}] * (rng.random() < 0.8) + [{"role": "user", "content": f"task {k} " + "y" * rng.randint(0, 60)}]
    return script, opening, settings


def credit(played, folder):
    """verl's compute_advantage on the rows of the loop, against `infinirl advantage` on the
    segments of `infinirl condense`. played: (rows, segments, values of each, score)."""
    lines, rows, width = [], [], 1 + max(len(row.response_ids) for episode, *_ in played for row in episode)
    for k, (episode, segments, values, score) in enumerate(played):
        status = episode[0].extra_fields["infinirl"]["status"]
        for i, (row, segment, v) in enumerate(zip(episode, segments, values)):
            last = i == len(episode) - 1
            bootstrap = {"bootstrap_value": 0.5} if status == "truncated" and last else {}
            lines.append({**segment, "trajectory_id": f"e{k}_0", "group_id": f"e{k}", "status": status, "values": v, "score": score, **bootstrap})
            rows.append((row, v, score, f"e{k}", i, len(episode), bootstrap.get("bootstrap_value", 0.0)))
    source, out = Path(folder, "with_values.jsonl"), Path(folder, "credit.jsonl")
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    infinirl("advantage", source, "-o", out, "--whiten", "--gamma", 0.99, "--lambda", 0.9)
    want = {(line["trajectory_id"], line["inv_iter"]): line for line in map(json.loads, out.read_text().splitlines())}
    random.Random(3).shuffle(rows)
    mask, values, outcome = (np.zeros((len(rows), width)) for _ in range(3))
    for r, (row, v, score, *_) in enumerate(rows):
        n = len(row.response_ids)
        mask[r, :n], values[r, :n], outcome[r, n - 1] = row.response_mask, v, score
    uid = [row[3] for row in rows]
    said_rows = Rows([(u, "0") for u in uid], [row[4] for row in rows], uid, [False] * len(rows), [row[5] for row in rows], outcome, values, np.array([row[6] for row in rows]))
    data = DataProto.from_dict({"token_level_rewards": torch.from_numpy(outcome).float(), "response_mask": torch.from_numpy(mask).float()}, {"uid": uid})
    algorithm = OmegaConf.create({"gamma": 0.99, "lam": 0.9})
    with said(said_rows):
        got = compute_advantage(data, adv_estimator="infinirl_gae", gamma=0.99, lam=0.9, config=algorithm).batch
    worst = 0.0
    for r, (row, _, _, u, i, segments, _) in enumerate(rows):
        there, trained = want[f"{u}_0", segments - 1 - i], np.array(row.response_mask, bool)
        for name in ("advantages", "returns"):
            worst = max(worst, np.abs(got[name][r, : len(trained)].numpy() - np.array(there[name]))[trained].max())
    assert worst < 1e-6, worst
    return worst


async def main():
    started, rng, seen, played = time.time(), random.Random(1), Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for k in range(EPISODES):
            script, opening, settings = episode(rng, k)
            loop, server, rows, messages = await play(script, opening, **settings)
            # what holds of itself
            own = [row.extra_fields["infinirl"] for row in rows]
            assert [o["inv_iter"] for o in own] == list(range(len(rows)))[::-1] and {o["segments"] for o in own} == {len(rows)}
            assert sum(sum(row.response_mask) for row in rows) == sum(map(len, server.said)), "each sampled token is trained once"
            whole = [row.prompt_ids + row.response_ids for row in rows]
            assert all(any(w[: len(p)] == p for w in whole) for p in server.saw), "every prompt that was sampled from is in a row"
            assert max(map(len, whole)) <= settings["high"]
            # what infinirl condense makes of it
            run, segments = Path(folder, "run.json"), Path(folder, "segments.jsonl")
            run.write_text(json.dumps(recording(loop, server, messages)))
            flags = ["--high", settings["high"], "--low", settings["low"], "--keep-last", settings["keep_last"], "--mode", settings["mode"], "--reply", REPLY]
            infinirl("condense", run, "--tokenizer", TINY, "--chat-template", TINY, *flags, *([] if settings["cut_oversize"] else ["--no-cut-oversize"]), "-o", segments)
            lines = sorted(map(json.loads, segments.read_text().splitlines()), key=lambda line: -line["inv_iter"])
            want = [(line.get("prompt_ids", []), line["response_ids"], line["loss_mask"], line["condense"]) for line in lines]
            got = [(row.prompt_ids, row.response_ids, row.response_mask, o["condense"]) for row, o in zip(rows, own)]
            for i, (g, w) in enumerate(zip(got, want)):
                for name, x, y in zip(("record", "prompt", "response", "mask"), (g[3], *g[:3]), (w[3], *w[:3])):
                    assert x == y, f"episode {k}, segment {i}: {name}: {x}\nwant {y}\nsettings {settings}"
            assert len(got) == len(want), f"episode {k}: {len(got)} segments, want {len(want)}: {settings}"
            status = lines[0].get("status", "finished")
            assert status == (loop.status if loop.status == "context_overflow" else "finished"), (k, status, loop.status)
            played.append((rows, lines, [[rng.gauss(0, 0.5) for _ in row.response_ids] for row in rows], float(rng.random() < 0.5)))
            cut = any("replace" in o["condense"] for o in own)
            seen.update({settings["mode"]: 1, "cut": len(rows) > 1, "oversize results cut": cut, loop.status: 1, "segments": len(rows), "parallel": script[0].count("<tool_call>") > 1,
                         f"cut in mode {settings['mode']}": len(rows) > 1})
        worst = credit(played, folder)
    assert EPISODES < 50 or min(seen[n] for n in ("cut in mode pair", "cut in mode result", "oversize results cut", "context_overflow", "truncated", "finished")) > 0, seen
    await errors()
    print(f"verl {verl.__version__}: {EPISODES} episodes, prompts, responses, masks and records equal to those of infinirl condense: "
          + ", ".join(f"{n} {name}" for name, n in sorted(seen.items())) + f"; their credit through verl's compute_advantage is that of infinirl advantage to {worst:.1e}; {time.time() - started:.1f} s")


async def refuses(want, script=("done",), opening=({"role": "user", "content": "x" * 100},), **settings):
    try:
        await play(list(script), list(opening), **{"high": 1000, "reply": REPLY, **settings})
    except ValueError as error:
        assert want in str(error), error
        return
    raise AssertionError(f"nothing said: {want}")


async def errors():
    await refuses("with a reply of 220 it exceeds high 300", high=300)
    await refuses("verl would cut its start off at data.max_prompt_length 1024", opening=[{"role": "user", "content": "x" * 1100}], high=4000)
    await refuses("the server's window is 5120 tokens", high=5121)
    await refuses("agent loop: mode: 'both'", mode="both")
    server = Server(["done"])
    loop = make(server, high=1000, reply=REPLY)
    server.generate = silent
    assert await loop.run({}, raw_prompt=[{"role": "user", "content": "x"}]) == [], "no row where nothing was sampled"


async def silent(*_, **__):
    return TokenOutput(token_ids=[], log_probs=[], extra_fields={"global_steps": 1})


asyncio.run(main())
