"""Bounds of f: the argument, the bounds of I that follow, and tests of them where f is random.

A single draw of a random f may lie anywhere, but the average of n draws whose means are at most b rarely exceeds b by
much. There are two tests. Student's t compares the excess with the spread of all draws; its degrees of freedom count
distinct values, because a few values, such as 0 and 1, do not show how far others may be. Hoeffding's inequality (1963)
bounds the probability by exp(-2 n e^2 / R^2) for an excess e and draws in a range of width R, if both bounds are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from cbq.common import ROUNDING, Array, Booleans, Integers, not_nan, shown

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

MIN_TWO_VALUED = 10  # points: from this number on, an f with two values counts as an indicator
BOUNDS_LEVEL = 1e-6  # for normal draws; exponential draws at their bound fail in less than 1 of 1000 cases
LEAST_DRAWS, MAX_PARTS = 16, 64  # draws in a part that is averaged by itself; parts along a coordinate


def as_bounds(bounds: Any) -> Array | None:
    """The argument `bounds`, (low, high), each a number or (C,), as an array (2, C), or (2, 1) for numbers."""
    if bounds is None:
        return None
    if not isinstance(bounds, list | tuple | np.ndarray) or getattr(bounds, "ndim", 1) == 0 or len(bounds) != 2:
        raise ValueError(f"bounds must be a pair (low, high), such as (0, 1), but they are {shown(bounds)}.")
    ends = [not_nan(end, f"bounds[{k}]") for k, end in enumerate(bounds)]
    outputs = max(end.size for end in ends)
    for k, end in enumerate(ends):
        if end.ndim > 1 or end.size not in (1, outputs) or not outputs:
            raise ValueError(
                f"bounds[{k}] has shape {end.shape}, but it must be a number, or one for each output of f."
            )
    low, high = (np.broadcast_to(end, (outputs,)) for end in ends)
    wrong = (low > high) | (low == np.inf) | (high == -np.inf)
    if np.any(wrong):
        c = int(np.argmax(wrong))
        raise ValueError(
            f"bounds must be a pair (low, high), but low is {low[c]:g} and high is {high[c]:g}: swap them."
        )
    return np.stack([low, high])


def bounds_of(bounds: Any, C: int | None) -> Array | None:
    """The argument `bounds` as an array (2, C) for C outputs, or (2, 1) where C is None."""
    array, outputs = as_bounds(bounds), C or 1
    if array is None:
        return None
    if array.shape[1] not in (1, outputs):
        has = "no axis of outputs: pass two numbers" if C is None else f"{C} outputs: pass one for each"
        raise ValueError(f"bounds have {array.shape[1]} columns, one for each output, but f has {has}.")
    return np.repeat(array, outputs // array.shape[1], axis=1)


def shown_bounds(bounds: Array) -> str:
    """Bounds (2, C) as text: a single number for each end that all outputs share."""
    return f"({', '.join(f'{end[0]:g}' if np.all(end == end[0]) else str(end) for end in bounds)})"


def rows_outside(values: Array, bounds: Array) -> Booleans:
    """Which rows of values (n, C) lie outside bounds (2, C) or (2, 1) by more than rounding: (n,)."""
    slack = ROUNDING * np.max(np.abs(values), axis=0, where=np.isfinite(values), initial=0.0)
    return np.asarray(np.any((values < bounds[0] - slack) | (values > bounds[1] + slack), axis=1))


def signs(bounds: Array) -> Array:
    """The bounds (2, C) of f p / q for these bounds of f: a ratio of densities preserves only the sign."""
    return np.stack([np.where(bounds[0] >= 0, 0.0, -np.inf), np.where(bounds[1] <= 0, 0.0, np.inf)])


def known_bounds(samples: Samples) -> Array | None:
    """The known bounds (2, C) of I: the given ones, and for an output with only two values, these values.

    Each value must occur twice: a value that occurs once may be one of several values of a rare event. Ends that draws
    of a random f contradict are infinite; see `bounds_contradictions`.
    """
    f = samples.table
    low, high = np.min(f, axis=0), np.max(f, axis=0)
    fewer, more = (np.count_nonzero(f == end, axis=0) for end in (low, high))
    two = (fewer + more == len(f)) & (np.minimum(fewer, more) > 1) & (low < high) & (len(f) >= MIN_TWO_VALUED)
    if samples.bounds is None and not np.any(two):
        return None
    given = np.array([[-np.inf], [np.inf]]) if samples.bounds is None else samples.bounds.copy()
    for contradiction in samples.bounds_contradictions:
        given[contradiction.end, contradiction.output] = np.inf if contradiction.end else -np.inf
    return np.where(two, np.clip(np.stack([low, high]), *given), given)


@dataclass(frozen=True, eq=False)
class BoundsContradiction:
    """The average of some draws, rows (n,), of an output lies beyond one end of its bounds: 0, the lower, or 1."""

    output: int
    end: int
    rows: Integers
    average: float


def bounds_contradictions(f: Array, theta: Array, bounds: Array) -> list[BoundsContradiction]:
    """The ends of bounds (2, C) that draws f (n, C) at theta (n, p) contradict, each with its most significant part."""
    beyond = np.stack([np.min(f, axis=0) < bounds[0], np.max(f, axis=0) > bounds[1]])  # (2, C)
    if not np.any(beyond):
        return []
    contradictions, parts = [], list(_parts(theta))
    delta = BOUNDS_LEVEL / (2 * np.count_nonzero(np.isfinite(bounds)) * len(parts))
    for end, c in np.argwhere(beyond):
        significance = _significance(f[:, c], bounds[:, c], end, parts, delta)
        if np.max(significance) > 1:
            rows = parts[int(np.argmax(significance))]
            contradictions.append(BoundsContradiction(int(c), int(end), rows, float(np.mean(f[rows, c]))))
    return contradictions


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
    """Excesses of averages of parts of f (n,) over an end of bounds (2,), over their limits with probability delta."""
    seen, std = np.concatenate([f, bounds]), float(np.std(f)) * np.sqrt(len(f) / max(len(f) - 1, 1))
    width = float(np.max(seen) - np.min(seen))  # inf if a bound is
    ratios = []
    for rows in parts:
        df, n = len(np.unique(f[rows])) - 1, len(rows)
        student = stdtrit(df, 1 - delta) * std / np.sqrt(n) if df else np.inf
        limit = min(student, width * np.sqrt(np.log(1 / delta) / (2 * n)))
        excess = float(np.mean(f[rows]) - bounds[end]) * (1 if end else -1)
        ratios.append(excess / limit)
    return ratios
