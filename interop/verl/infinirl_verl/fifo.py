"""Rule tool-fifo of `infinirl condense`: when the window is full, the oldest tool rounds go.

The log of a trajectory is append-only, each message encoded once. The window shows some
of its messages, whole or with the middle cut out. A reply is sampled from the window and
the ids that open a reply (prefix); it is full when that and `reply` tokens more would
exceed `high`. Then

    mode result: the calls of all rounds go, their results stay
    the oldest rounds go until window, prefix and reply are down to `low`; the
    `keep_last` newest stay
    if that does not fit and cut_oversize is set, the middle of the largest results goes

A record, in the form of docs/condense.md, tells what a window shows of the log: with the
log it gives the prompt again, token for token. The opening always stays whole.
"""

from dataclasses import dataclass

LEAST_KEPT = 16  # tokens that a cut leaves of a result


@dataclass(frozen=True)
class CondenseSettings:
    """Water marks and lengths are tokens; both marks count the longest reply."""

    high: int
    reply: int
    low: int | None = None  # half of high
    keep_last: int = 1
    mode: str = "pair"
    cut_oversize: bool = True

    def __post_init__(self):
        if self.low is None:
            object.__setattr__(self, "low", self.high // 2)
        if self.high < 1:
            raise ValueError(f"agent loop: high: {self.high}: want at least 1 token")
        if not 1 <= self.reply < self.high:
            raise ValueError(f"agent loop: reply: {self.reply}: want 1 to {self.high - 1} tokens, less than high")
        if not 1 <= self.low <= self.high:
            raise ValueError(f"agent loop: low: {self.low}: want 1 to high ({self.high})")
        if self.keep_last < 0:
            raise ValueError(f"agent loop: keep_last: {self.keep_last}: want at least 0")
        if self.mode not in ("pair", "result"):
            raise ValueError(f"agent loop: mode: {self.mode!r}: want pair or result")

    def check(self, rollout):
        """Holds the window against verl's `rollout` settings."""
        room = rollout["prompt_length"] + rollout["response_length"]
        if rollout.get("max_model_len"):
            room = min(room, rollout["max_model_len"])
        if self.high > room:
            raise ValueError(f"agent loop: high: {self.high}: the server's window is {room} tokens: "
                             "want more data.max_prompt_length or data.max_response_length (or rollout.max_model_len), or a lower high")
        if not rollout["multi_turn"].get("max_assistant_turns") and not rollout["multi_turn"].get("max_user_turns"):
            raise ValueError("rollout.multi_turn.max_assistant_turns: none: a window that is condensed never ends an episode: want a bound on turns")


class Overflow(Exception):
    """Nothing that may go makes the window fit."""


@dataclass
class Message:
    ids: list
    round: int | None = None  # log index of the call that opens its round
    result: bool = False


@dataclass
class Cut:
    """What stands in place of the middle of a message."""

    text: str
    ids: list
    head: int
    cut: int
    tail: int


class ToolFIFO:
    def __init__(self, settings):
        self.settings = settings
        self.log, self.prefix = [], []
        self.shown = []  # log indices, ascending
        self.cuts = {}  # of shown messages: log index -> Cut
        self.told = 0  # messages whose lengths a record has told
        self.dropped = 0  # messages that a cut took from the window, over the trajectory

    # --- the log

    def open(self, messages, prefix):
        """messages: the ids of each message of the opening; prefix opens every reply."""
        self.prefix = prefix
        for ids in messages:
            self._append(Message(ids))

    def add_round(self, call, results):
        """call: all of a reply, from the prefix to where its results begin."""
        at = len(self.log)
        self._append(Message(call, at))
        for ids in results:
            self._append(Message(ids, at, result=True))

    def _append(self, message):
        self.shown.append(len(self.log))
        self.log.append(message)

    # --- the window

    def ids(self, i):
        """Message i as the window shows it."""
        ids, cut = self.log[i].ids, self.cuts.get(i)
        return ids if cut is None else ids[: cut.head] + cut.ids + ids[len(ids) - cut.tail :]

    def size(self, i):
        cut = self.cuts.get(i)
        return len(self.log[i].ids) if cut is None else cut.head + len(cut.ids) + cut.tail

    @property
    def tokens(self):
        return sum(map(self.size, self.shown))

    @property
    def reserve(self):
        return len(self.prefix) + self.settings.reply

    def prompt(self):
        return [token for i in self.shown for token in self.ids(i)] + self.prefix

    def full(self):
        return self.tokens + self.reserve > self.settings.high

    # --- condensing

    def whole(self):
        """The record of a window that nothing was taken from."""
        n, tokens = len(self.log), self.tokens
        return self._record("none", tokens, tokens, [[0, n]] if n else [])

    def condense(self, text):
        """Condenses a full window and returns the record. text.body(i) is the range of
        message i's ids that may be cut, text.marker(words) the ids of words inside a
        message. Raises Overflow, and leaves the window as it was, if nothing helps."""
        before, shown, cuts = self.tokens, self.shown, dict(self.cuts)
        rounds = {}
        for i in shown:
            if self.log[i].round is not None:
                rounds.setdefault(self.log[i].round, []).append(i)
        gone, tokens = set(), before

        def drop(messages):
            nonlocal tokens
            tokens -= sum(self.size(i) for i in messages if i not in gone)
            gone.update(messages)

        if self.settings.mode == "result":
            drop([call for call in rounds if call in rounds[call]])
        for messages in list(rounds.values())[: max(0, len(rounds) - self.settings.keep_last)]:
            if tokens + self.reserve <= self.settings.low:
                break
            drop(messages)
        self.shown = [i for i in shown if i not in gone]
        if tokens + self.reserve > self.settings.high and self.settings.cut_oversize:
            self._cut_oversize(text)
        tokens = self.tokens
        if tokens + self.reserve > self.settings.high:
            kept = len(self.shown)
            self.shown, self.cuts = shown, cuts
            raise Overflow(f"{kept} messages of {tokens} tokens that tool-fifo must keep and {self.reserve} reserved tokens exceed high {self.settings.high}")
        self.cuts = {i: cut for i, cut in self.cuts.items() if i not in gone}
        self.dropped += len(gone)
        return self._record("tool-fifo", before, tokens, ranges(self.shown))

    def _cut_oversize(self, text):
        """Cuts the middle out of the largest results, until the window is down to low."""
        for i in sorted((i for i in self.shown if self.log[i].result), key=self.size, reverse=True):
            excess = self.tokens + self.reserve - self.settings.low
            if excess <= 0:
                return
            start, end = text.body(i)
            whole, size = len(self.log[i].ids), self.size(i)
            body = end - start - (whole - size)  # as it stands
            keep = max(LEAST_KEPT, body - excess - len(text.marker(marker(end - start))))
            if keep + len(text.marker(marker(end - start))) >= body:
                continue
            words, tail = marker(end - start - keep), keep // 2
            self.cuts[i] = Cut(words, text.marker(words), start + keep - tail, end - start - keep, whole - end + tail)

    def _record(self, rule, before, after, keep):
        replace = []
        for i in self.shown:
            if cut := self.cuts.get(i):
                one = {"kind": "cut", "indices": [i], "text": cut.text, "ids": cut.ids, "head": cut.head, "cut": cut.cut, "tail": cut.tail}
                same = next((r for r in replace if {**r, "indices": [i]} == one), None)
                if same:
                    same["indices"].append(i)
                else:
                    replace.append(one)
        lengths = [len(m.ids) for m in self.log[self.told :]]
        self.told = len(self.log)
        return {"version": 1, "rule": rule, "rule_version": 1, "messages": len(self.log), "keep": keep, **({"replace": replace} if replace else {}),
                "tokens_before": before, "tokens_after": after, "lengths": lengths}


def marker(cut):
    return f"[{cut} tokens cut]"


def ranges(indices):
    """Ascending indices as ranges [start, end) that do not touch."""
    out = []
    for i in indices:
        if out and out[-1][1] == i:
            out[-1][1] += 1
        else:
            out.append([i, i + 1])
    return out
