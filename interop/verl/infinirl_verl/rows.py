"""Which rows of a batch are one trajectory, and its decisions in the order of time.

verl V1 has a row a segment, in any order: row r belongs to trajectory[r] and is its
order[r]-th in time. Rows that verl adds to fill a batch belong to none.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Rows:
    """R rows of L response tokens. What a batch does not have is None."""

    trajectory: list  # [R] a hashable each
    order: list  # [R] ascending in time, from 0
    group: list  # [R] trajectories of one prompt share it
    padding: list  # [R] true on rows that only fill the batch
    segments: list  # [R] rows that the trajectory was cut into; None where nobody tells
    outcome: np.ndarray | None = None  # [R, L] the outcome, which verl copies to every row
    values: np.ndarray | None = None  # [R, L] V_t before token t
    bootstrap: np.ndarray | None = None  # [R] V(s_T) on the last row of a truncated trajectory, else 0


def split_key(key):
    """verl's key of a row: {uid}_{session}_{index}, the index ascending in time."""
    parts = key.rsplit("_", 2)
    if len(parts) != 3 or not parts[2].isdecimal():
        raise ValueError(f"key {key!r}: want uid_session_index, as verl's V1 trainers name rows")
    return (parts[0], parts[1]), int(parts[2])


@dataclass
class Trajectory:
    """The rows of one trajectory in the order of time."""

    key: object
    group: object
    rows: list

    @property
    def name(self):
        return "_".join(map(str, self.key)) if isinstance(self.key, tuple) else str(self.key)


def trajectories(rows):
    """Puts the rows together. A missing or doubled segment is an error that names it."""
    members = {}
    for r, (key, padding) in enumerate(zip(rows.trajectory, rows.padding)):
        if not padding:
            members.setdefault(key, []).append(r)
    found = []
    for key, mine in members.items():
        mine.sort(key=lambda r: rows.order[r])
        one = Trajectory(key, rows.group[mine[0]], mine)
        for want, r in enumerate(mine):
            if rows.group[r] != one.group:
                raise ValueError(f"trajectory {one.name}: groups {one.group!r} and {rows.group[r]!r}: want one uid on all its rows")
            if rows.order[r] < want:
                raise ValueError(f"trajectory {one.name}: segment {rows.order[r]} is there twice: want a row a segment")
            if rows.order[r] > want:
                raise ValueError(f"trajectory {one.name}: segment {want} of {rows.order[mine[-1]] + 1} is missing: want all rows of a trajectory in one batch")
        for told in {rows.segments[r] for r in mine} - {None, len(mine)}:
            raise ValueError(f"trajectory {one.name}: {len(mine)} of its {told} segments are here: want all rows of a trajectory in one batch")
        found.append(one)
    return found


@dataclass
class Decisions:
    """The trainable tokens of J trajectories, D in all: trajectory after trajectory,
    each in the order of time through all of its segments."""

    trajectories: list  # [J]
    lengths: np.ndarray  # [J] decisions of each
    row: np.ndarray  # [D] where in the batch
    column: np.ndarray  # [D]
    rewards: np.ndarray  # [D]
    values: np.ndarray  # [D] zeros if there are none
    bootstrap: np.ndarray  # [J]
    scores: np.ndarray  # [J] sum of the rewards
    warnings: list

    def at(self, d):
        """Names decision d in errors."""
        j = int(np.searchsorted(np.cumsum(self.lengths), d, side="right"))
        t = self.trajectories[j]
        return f"trajectory {t.name}, segment {t.rows.index(self.row[d])}, response token {self.column[d]}"

    def spread(self, flat, shape):
        """Puts one number a decision back into rows; 0 elsewhere."""
        out = np.zeros(shape)
        out[self.row, self.column] = flat
        return out


def decisions(rows, rewards, mask):
    """Gathers rewards and values at the trainable tokens.

    The outcome counts once, on the last segment: verl has copied it to all of them. A
    reward on a token that is no decision belongs to the nearest decision before it,
    through cuts if need be; one before the first decision follows no action and is
    dropped with a warning. A NaN or infinity counts at decisions only, as an error.
    A trajectory without a decision has no part in anything.
    """
    mask = np.asarray(mask) > 0
    rewards = np.asarray(rewards, np.float64)
    kept, at, given, scores, bootstrap, warnings = [], [], [], [], [], []
    for t in trajectories(rows):
        trainable = mask[t.rows]
        if not trainable.any():
            warnings.append(f"trajectory {t.name}: no trainable token: no sample")
            continue
        earned = rewards[t.rows]
        if rows.outcome is not None:
            earned[:-1] -= np.asarray(rows.outcome, np.float64)[t.rows[:-1]]
        earned = np.where(trainable | np.isfinite(earned), earned, 0.0).ravel()
        places = np.flatnonzero(trainable)
        some = np.flatnonzero(earned)
        decision = np.searchsorted(places, some, side="right") - 1
        r = np.zeros(len(places))
        np.add.at(r, decision[decision >= 0], earned[some[decision >= 0]])
        lost = earned[some[decision < 0]].sum()
        if lost:
            warnings.append(f"trajectory {t.name}: reward {lost:g} before the first trainable token follows no action: dropped")
        kept.append(t)
        at.append(np.stack([np.asarray(t.rows)[places // mask.shape[1]], places % mask.shape[1]]))
        given.append(r)
        scores.append(r.sum() + lost)
        bootstrap.append(0.0 if rows.bootstrap is None else rows.bootstrap[t.rows[-1]])
    row, column = np.concatenate(at, 1) if at else np.zeros((2, 0), int)
    values = np.zeros(len(row)) if rows.values is None else np.asarray(rows.values, np.float64)[row, column]
    d = Decisions(kept, np.array([len(g) for g in given], int), row, column, np.concatenate(given) if given else np.zeros(0), values,
                  np.array(bootstrap, np.float64), np.array(scores, np.float64), warnings)
    for name, column in (("rewards", d.rewards), ("values", d.values)):
        for bad in np.flatnonzero(~np.isfinite(column)):
            raise ValueError(f"{d.at(bad)}: {name}: {column[bad]}: want a finite number at a trainable token")
    for j in np.flatnonzero(~np.isfinite(d.bootstrap)):
        raise ValueError(f"trajectory {kept[j].name}: bootstrap value {d.bootstrap[j]}: want a finite number")
    return d
