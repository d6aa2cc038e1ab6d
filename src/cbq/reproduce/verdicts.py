"""What is said of results: who is better on the same samples, by how much, and how errors fall."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan, nan
from typing import Any

import numpy as np
from scipy.special import stdtrit

from cbq.reproduce.table import Point, Table, slope

EARLY = "too little is finished to say anything"


def pairs(table: Table, ours: str, other: str, **settings: Any) -> list[float]:
    """The RMSE of the other method in units of that of ours on the same samples, for seeds that both have."""
    mine, theirs = (
        {row["seed"]: row["rmse"] for row in table.where(method=name, **settings) if 0 < row.get("rmse", nan) < inf}
        for name in (ours, other)
    )
    return [theirs[seed] / mine[seed] for seed in mine if seed in theirs]


def ratios(table: Table, ours: str, others: Sequence[str], **settings: Any) -> dict[str, float]:
    """The median over samples of the RMSE of others in units of that of one method; those that are known."""
    found = {name: Point.of(pairs(table, ours, name, **settings)) for name in others}
    return {name: point.middle for name, point in found.items() if point is not None}


def typical(table: Table, ours: str, others: Sequence[str], **settings: Any) -> str:
    """The errors of others in units of that of one method, in words."""
    found = ratios(table, ours, others, **settings)
    return ", ".join(f"{name} {ratio:.3g}" for name, ratio in found.items()) or "nothing to compare with"


def duels(table: Table, ours: str, other: str, keys: Sequence[str]) -> tuple[int, int, int]:
    """In how many settings the error of one method is smaller than that of another, neither, and larger.

    Errors of the same seed are of the same samples: the interval of 95% for the mean of the differences of their
    logarithms, by Student's t, has to leave out zero, or it is neither.
    """
    counts = [0, 0, 0]
    for settings in _settings(table, keys):
        logs = np.log(pairs(table, ours, other, **settings))
        if len(logs) > 1:
            reach = stdtrit(len(logs) - 1, 0.975) * np.std(logs, ddof=1) / np.sqrt(len(logs))
            counts[0 if np.mean(logs) > reach else 2 if np.mean(logs) < -reach else 1] += 1
    return counts[0], counts[1], counts[2]


def score(table: Table, ours: str, others: Sequence[str], keys: Sequence[str]) -> str:
    """How one method fares against others, in words."""
    counts = {name: duels(table, ours, name, keys) for name in others}
    found = [f"{name} {won}-{even}-{lost}" for name, (won, even, lost) in counts.items() if won + even + lost]
    words = f"settings in which {ours} is better, even and worse (paired, at 95%): "
    return words + (", ".join(found) or "none yet")


def fitted_slope(table: Table, x: str, y: str = "rmse", **settings: Any) -> float:
    """The slope of the median of y over x, both in logarithms."""
    rows = table.where(**settings)
    at = rows.distinct(x)
    return slope(at, [rows.middle(y, **{x: value}) for value in at])


def signed(value: float) -> str:
    """A slope in words."""
    return "unknown" if isnan(value) else f"{value:.2f}"


def dotted(top: Table, **settings: Any) -> str:
    """The errors of the dotted lines, in words; nothing where there are none."""
    found = top.where(**settings)
    if not len(found):
        return ""
    errors = ", ".join(f"{name} {found.middle('rmse', method=name):.3g}" for name in found.distinct("method"))
    return f"; baselines at {found.rows[0]['T']} x {found.rows[0]['N']}: {errors}"


def _settings(table: Table, keys: Sequence[str]) -> list[dict[str, Any]]:
    found = dict.fromkeys(tuple(row.get(key) for key in keys) for row in table)
    return [dict(zip(keys, values, strict=True)) for values in found]
