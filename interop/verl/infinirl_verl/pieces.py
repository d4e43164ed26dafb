"""The ids of each message apart, out of ids that a chat template wrote for several.

render(k) gives the ids of the first k messages. The first k own what render(k) and the
whole have in common at the start: templates write neighbouring results into one turn,
which ends only behind the last. A message that cannot be rendered without the next
belongs to the next.
"""


def shared(a, b):
    """How many ids two lists have in common at the start."""
    n = 0
    for x, y in zip(a, b):
        if x != y:
            break
        n += 1
    return n


def pieces(n, whole, render):
    """Divides the ids of n messages into n lists."""
    out, at = [], 0
    for k in range(1, n + 1):
        end = len(whole)
        if k < n:
            try:
                end = max(at, shared(render(k), whole))
            except Exception:  # whatever a template raises
                end = at
        out.append(whole[at:end])
        at = end
    return out


def body(ids, empty):
    """The range of ids between the delimiters, which are what a message shares with an
    empty one."""
    start = shared(ids, empty)
    room = min(len(ids), len(empty)) - start
    tail = min(room, shared(ids[::-1], empty[::-1]))
    return start, len(ids) - tail
