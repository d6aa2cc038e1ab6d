"""Where I is smallest and largest, as far as its intervals tell.

I may be smallest at every theta whose interval begins below the lowest upper end of all intervals. One estimate is the
smallest in any case, also on a plateau, where bounds cut the estimates off, and where I does not depend on theta: its
place is named only if no other theta may have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from cbq._arrays import Array, Integers
from cbq.fit.answer_grid import AnswerGrid
from cbq.fit.naming import capital
from cbq.page.charts import resolved

ROUNDING = 1e-14  # of I: a smaller difference is no difference


@dataclass(frozen=True, eq=False)
class Extreme:
    """The rows (k,) of a grid at which I may be smallest, or largest, and between which numbers it is there."""

    rows: Integers
    low: float
    high: float


def smallest_and_largest(low: Array, high: Array) -> tuple[Extreme, Extreme]:
    """The extremes of an I with intervals from low (M,) to high (M,), which may be infinite."""
    ends = np.abs([low, high])
    rounding = ROUNDING * np.max(ends, initial=0.0, where=np.isfinite(ends))
    bottom, top = float(np.min(high)), float(np.max(low))
    least, most = np.flatnonzero(low <= bottom + rounding), np.flatnonzero(high >= top - rounding)
    return Extreme(least, float(np.min(low)), bottom), Extreme(most, top, float(np.max(high)))


def extremes_in_words(grid: AnswerGrid, c: int, name: str, names: Sequence[str]) -> str:
    """A sentence on where output c, which has this name, is smallest and largest; names: those of theta."""
    mean, half = grid.mean[:, c], grid.half_width[:, c]
    if len(mean) == 1:
        return f"{capital(name)} is {resolved(float(mean[0]), float(half[0]))} {grid.place(names, np.array([0]))}."
    if np.any(np.isnan(grid.low)):
        rows = (np.array([np.argmin(mean)]), np.array([np.argmax(mean)]))
        ends = [f"{mean[i][0]:.6g} {grid.place(names, i)}" for i in rows]
        return f"The estimate of {name} is smallest, {ends[0]}, and largest, {ends[1]}; it has no intervals."
    found = smallest_and_largest(grid.low[:, c], grid.high[:, c])
    if len(found[0].rows) == len(mean):
        reach = f"reach from {_from_to(found[0].low, found[1].high)}"
        return f"Where {name} is smallest or largest cannot be told: its intervals at all thetas overlap, and {reach}."
    ends = [
        f"{resolved(float(mean[each.rows[0]]), float(half[each.rows[0]]))} {grid.place(names, each.rows)}"
        if len(each.rows) == 1
        else f"{_from_to(each.low, each.high)}, somewhere {grid.place(names, each.rows)}"
        for each in found
    ]
    return f"{capital(name)} is smallest, {ends[0]}, and largest, {ends[1]}."


def _from_to(low: float, high: float) -> str:
    """Two numbers with the digits that tell them apart; one if they are equal."""
    half, ends = 0.5 * (high - low), (low, high) if high > low else (low,)
    return " to ".join(resolved(end, half) if isfinite(half) else f"{end:.6g}" for end in ends)
