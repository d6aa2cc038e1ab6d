"""Rows at the end of a table that summarise the rows above, such as their means: they are no draws.

A spreadsheet often has them, and counted as draws they shift every average. A row is taken for one if each column has
the mean, the standard deviation or the sum of the rows above it, to the digits that are written, and if that would
hardly happen by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array

MAX_ROWS = 12  # at the end of a table that may be summaries
MIN_DRAWS = 10  # rows above them
CHANCE = 1e-8  # that a draw looks like a summary, at the most
MAX_DECIMALS = 8  # of a number that was rounded
ROUNDING = 1e-9  # of numbers with more decimals, relative to the largest of their column


@dataclass(frozen=True)
class SummaryRow:
    """The number of draws, which is the position of the first row after them, and what a row there holds."""

    draws: int
    row: int
    holds: str


def find_summary(values: Array) -> SummaryRow | None:
    """The rows at the end of columns (n, k) that summarise those above; None if there are none."""
    varying = values[:, np.ptp(values, axis=0) > 0] if len(values) else values
    n, last = len(varying), min(MAX_ROWS, len(varying) - MIN_DRAWS)
    if last < 1 or not varying.shape[1]:
        return None
    centre, above = varying[0], varying[: n - last]
    with np.errstate(over="ignore", invalid="ignore"):  # of squares, which then equal nothing
        total, square = np.sum(above - centre, axis=0), np.sum((above - centre) ** 2, axis=0)
        scale = np.max(np.abs(above), axis=0)
        for b in range(n - last, n):  # if the first b rows are all draws
            spread2 = np.maximum(square / b - (total / b) ** 2, 0.0)
            for holds, summary in _summaries(total, spread2, centre, b).items():
                for row in range(b, n):
                    if _is_no_chance(varying[row], summary, np.sqrt(spread2), scale):
                        return SummaryRow(b, row, holds)
            total, square = total + varying[b] - centre, square + (varying[b] - centre) ** 2
    return None


def _summaries(total: Array, spread2: Array, centre: Array, b: int) -> dict[str, Array]:
    """What the last rows of a table may hold, from sums of b rows less `centre` and from their variances, (k,) each."""
    return {
        "the means": total / b + centre,
        "the sums": total + b * centre,
        "the standard deviations": np.sqrt(spread2 * b / (b - 1)),
        "the standard deviations with divisor n": np.sqrt(spread2),
    }


def _is_no_chance(row: Array, summary: Array, spread: Array, scale: Array) -> bool:
    """Whether a row (k,) equals a summary of columns, and a draw of the same columns would be unlikely to."""
    within = ROUNDING * np.maximum(scale, np.abs(summary)) + _half_digit(row)
    if not np.all(np.abs(row - summary) <= within):
        return False
    shares = np.divide(2 * within, spread, out=np.ones_like(within), where=spread > 0)
    return bool(np.sum(np.log(np.minimum(shares, 1.0))) < np.log(CHANCE))


def _half_digit(row: Array) -> Array:
    """Half of the last decimal of each number that has few, and 0 for others."""
    found = np.zeros_like(row)
    for decimals in range(MAX_DECIMALS, -1, -1):
        found[np.round(row, decimals) == row] = 0.5 * 10.0**-decimals
    return found
