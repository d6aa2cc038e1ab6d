"""Whether draws of a random f contradict the bounds of its mean.

A single draw may lie anywhere, but the average of n draws whose means are at most b rarely exceeds b by much. Two tests
see it. Student's t compares the excess with the spread of all draws; since a few values, such as 0 and 1, do not show
how far others may be, its degrees of freedom are those of the distinct values. Hoeffding's inequality (1963) bounds the
probability by exp(-2 n e^2 / R^2) for an excess e and draws in a range of width R, which is known if both bounds are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from cbq._arrays import Array, Integers

LEVEL = 1e-6  # of normal draws; draws of an exponential distribution at its bound fail less often than one in 1000
LEAST_DRAWS, MAX_PARTS = 16, 64  # in a part of the draws that is averaged by itself, and of parts along a coordinate


@dataclass(frozen=True, eq=False)
class BoundsContradiction:
    """The average of some draws, rows (n,), of an output lies beyond one end of its bounds: 0, the lower, or 1."""

    output: int
    end: int
    rows: Integers
    average: float


def bounds_contradictions(f: Array, theta: Array, bounds: Array) -> list[BoundsContradiction]:
    """For each end of bounds (2, C) that draws f (n, C) at theta (n, p) contradict, the part that does it most."""
    beyond = np.stack([np.min(f, axis=0) < bounds[0], np.max(f, axis=0) > bounds[1]])  # (2, C)
    if not np.any(beyond):
        return []
    found, parts = [], list(_parts(theta))
    delta = LEVEL / (2 * np.count_nonzero(np.isfinite(bounds)) * len(parts))
    for end, c in np.argwhere(beyond):
        significance = _significance(f[:, c], bounds[:, c], end, parts, delta)
        if np.max(significance) > 1:
            rows = parts[int(np.argmax(significance))]
            found.append(BoundsContradiction(int(c), int(end), rows, float(np.mean(f[rows, c]))))
    return found


def _parts(theta: Array) -> Iterator[Integers]:
    """Rows of thetas (n, p): all, and halves, quarters, ... of them along each coordinate of theta."""
    n, parts = len(theta), 2
    yield np.arange(n)
    orders = [np.argsort(column, kind="stable") for column in theta.T]
    while parts <= min(n // LEAST_DRAWS, MAX_PARTS):
        for order in orders:
            yield from np.array_split(order, parts)
        parts *= 2


def _significance(f: Array, bounds: Array, end: int, parts: list[Integers], delta: float) -> list[float]:
    """How far the averages of parts of draws f (n,) lie beyond an end of bounds (2,), where 1 has probability delta."""
    seen, std = np.concatenate([f, bounds]), float(np.std(f)) * np.sqrt(len(f) / max(len(f) - 1, 1))
    width = float(np.max(seen) - np.min(seen))  # inf if a bound is
    found = []
    for rows in parts:
        df, n = len(np.unique(f[rows])) - 1, len(rows)
        student = stdtrit(df, 1 - delta) * std / np.sqrt(n) if df else np.inf
        limit = min(student, width * np.sqrt(np.log(1 / delta) / (2 * n)))
        excess = float(np.mean(f[rows]) - bounds[end]) * (1 if end else -1)
        found.append(excess / limit)
    return found
