"""The condenser against `infinirl condense`, a byte a token."""

import json
import random
import tempfile
import unittest
from pathlib import Path

from infinirl_verl.fifo import CondenseSettings, Overflow, ToolFIFO, ranges
from infinirl_verl.pieces import body, pieces, shared

from episodes import infinirl

REPLY = 200


def conversation(rng, rounds):
    messages = [{"role": "system", "content": "s" * rng.randint(1, 40)}, {"role": "user", "content": "u" * rng.randint(1, 80)}]
    longest = rng.choice([20, 100, 1500])
    for k in range(rounds):
        calls = [{"id": f"{k}.{c}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for c in range(rng.choice([1, 1, 2]))]
        messages.append({"role": "assistant", "content": "a" * rng.randint(1, 20), "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": "".join(rng.choices("xyz ", k=rng.randint(0, longest)))} for c in calls]
    return messages + [{"role": "assistant", "content": "done"}]


class Text:
    """ChatML, a byte a token, as `infinirl condense` writes it without a tokenizer."""

    def __init__(self, fifo, empty):
        self.fifo, self.empty = fifo, empty

    def body(self, i):
        return body(self.fifo.log[i].ids, self.empty)

    def marker(self, text):
        return list(text.encode())


def condense(messages, flags):
    """Segments in the order of time, and the log of the one run."""
    with tempfile.TemporaryDirectory() as folder:
        run, log, out = (Path(folder, name) for name in ("run.json", "log.jsonl", "out.jsonl"))
        run.write_text(json.dumps({"messages": messages, "reward": 1}))
        infinirl("condense", run, *flags, "-o", out, "--log", log)
        return sorted(map(json.loads, out.read_text().splitlines()), key=lambda line: -line["inv_iter"]), json.loads(log.read_text())


def play(entries, settings, empty):
    """(prompt, record) of each segment, and whether the window overflowed."""
    replies = [i for i, e in enumerate(entries) if "sampled" in e]
    first = entries[replies[0]]
    fifo = ToolFIFO(settings)
    fifo.open([e["ids"] for e in entries[: replies[0]]], first["ids"][: first["sampled"][0]])
    segments = [(fifo.prompt(), fifo.whole())]
    for i, following in zip(replies, [*replies[1:], len(entries)]):
        if fifo.full():
            try:
                record = fifo.condense(Text(fifo, empty))
            except Overflow:
                return segments, True
            segments.append((fifo.prompt(), record))
        fifo.add_round(entries[i]["ids"], [e["ids"] for e in entries[i + 1 : following]])
    return segments, False


class Oracle(unittest.TestCase):
    def test_prompts_and_records_are_those_of_infinirl_condense(self):
        rng, seen = random.Random(2), {"pair": 0, "result": 0, "cut": 0, "overflow": 0}
        empty = condense([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                          {"role": "tool", "tool_call_id": "c", "content": ""}, {"role": "assistant", "content": "a"}], ["--high", 4000])[1]["entries"][2]["ids"]
        for k in range(30):
            high = rng.randint(700, 2500)
            settings = CondenseSettings(high, REPLY, rng.randint(REPLY + 50, high), rng.randint(0, 3), "result" if k % 2 else "pair", rng.random() < 0.7)
            flags = ["--high", high, "--low", settings.low, "--keep-last", settings.keep_last, "--mode", settings.mode, "--reply", REPLY]
            messages = conversation(rng, rng.randint(1, 25))
            want, _ = condense(messages, [*flags, *([] if settings.cut_oversize else ["--no-cut-oversize"])])
            log = condense(messages, ["--high", 1 << 20])[1]["entries"]
            got, overflow = play(log, settings, empty)
            with self.subTest(k=k, settings=settings):
                self.assertEqual(want[0].get("status", "finished") == "context_overflow", overflow)
                self.assertEqual([(line.get("prompt_ids", []), line["condense"]) for line in want], got)
            seen[settings.mode] += len(got) > 1
            seen["cut"] += any("replace" in record for _, record in got)
            seen["overflow"] += overflow
        self.assertTrue(all(seen.values()), seen)


class Parts(unittest.TestCase):
    def test_a_window_that_overflows_stays_as_it_was(self):
        fifo = ToolFIFO(CondenseSettings(high=60, reply=10, keep_last=1, cut_oversize=False))
        fifo.open([[1] * 5], [9])
        fifo.add_round([2] * 10, [[3] * 10])
        fifo.add_round([2] * 10, [[3] * 40])
        before = (list(fifo.shown), dict(fifo.cuts), fifo.tokens, fifo.dropped)
        with self.assertRaisesRegex(Overflow, "3 messages of 55 tokens that tool-fifo must keep and 11 reserved tokens exceed high 60"):
            fifo.condense(Text(fifo, []))
        self.assertEqual(before, (fifo.shown, fifo.cuts, fifo.tokens, fifo.dropped))

    def test_pieces(self):
        whole = [1, 2, 3, 9, 4, 5, 9]
        parts = {1: [1, 2, 3, 9, 7], 2: whole}
        self.assertEqual(pieces(2, whole, parts.get), [[1, 2, 3, 9], [4, 5, 9]])
        self.assertEqual(pieces(1, whole, parts.get), [whole])
        self.assertEqual(pieces(0, [], parts.get), [])

        def refuses(k):
            raise ValueError("want a user message")

        self.assertEqual(pieces(2, whole, refuses), [[], whole])

    def test_body(self):
        self.assertEqual(body([1, 5, 6, 7, 2], [1, 2]), (1, 4))
        self.assertEqual(body([1, 1, 1, 2], [1, 2]), (1, 3))
        self.assertEqual(body([1, 2], [1, 2]), (2, 2))
        self.assertEqual(body([4, 4], []), (0, 2))

    def test_shared_and_ranges(self):
        self.assertEqual((shared([1, 2], [1, 3]), shared([], [1])), (1, 0))
        self.assertEqual(ranges([0, 1, 4, 6, 7]), [[0, 2], [4, 5], [6, 8]])


if __name__ == "__main__":
    unittest.main()
