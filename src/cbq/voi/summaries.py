"""Rows at the end of a table that summarise the rows above, such as their means: they are no draws.

A spreadsheet often has them, and counted as draws they shift every average. A row is taken for one if every column has
the mean, the standard deviation or the sum of the rows above it, to the digits that are written, and if a draw would
hardly do so by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq.common.arrays import Array
from cbq.linalg.lapack import append_rows

MAX_ROWS = 12  # at the end of a table that may be summaries
MIN_DRAWS = 10  # rows above them
CHANCE = 1e-8  # that a draw looks like a summary, at the most
MAX_DECIMALS = 9  # of a number that was rounded
ROUNDING = 1e-11  # of numbers with more decimals, relative to the largest of their column


@dataclass(frozen=True)
class SummaryRow:
    """The number of draws, which is the position of the first row after them, and what a row there holds."""

    draws: int
    row: int
    holds: str


def find_summary(values: Array) -> SummaryRow | None:
    """The rows at the end of columns (n, k) that summarise those above; None if there are none."""
    varying = values[:, np.any(values != values[:1], axis=0)]
    n, last = len(varying), min(MAX_ROWS, len(varying) - MIN_DRAWS)
    if last < 1 or not varying.shape[1]:
        return None
    centre, above = varying[0], varying[: n - last]
    with np.errstate(over="ignore", invalid="ignore"):  # of squares, which then equal nothing
        total, square = np.sum(above - centre, axis=0), np.sum((above - centre) ** 2, axis=0)
        scale = np.max(np.abs(above), axis=0)
        for b in range(n - last, n):  # if the first b rows are draws, and no others
            for holds, summary in _summaries(total, square, centre, b).items():
                within = ROUNDING * np.maximum(scale, np.abs(summary)) + _half_digit(varying[b:])
                alike = np.all(np.abs(varying[b:] - summary) <= within, axis=1)
                for row in np.flatnonzero(alike):
                    if _chance(varying[:b], varying[b + row], within[row]) < CHANCE:
                        return SummaryRow(b, b + int(row), holds)
            total, square = total + varying[b] - centre, square + (varying[b] - centre) ** 2
    return None


def _summaries(total: Array, square: Array, centre: Array, b: int) -> dict[str, Array]:
    """What the last rows of a table may hold, from the sums and the sums of squares of b rows less `centre`, (k,)."""
    spread2 = np.maximum(square / b - (total / b) ** 2, 0.0)
    return {
        "the means": total / b + centre,
        "the sums": total + b * centre,
        "the standard deviations": np.sqrt(spread2 * b / (b - 1)),
        "the standard deviations with divisor n": np.sqrt(spread2),
    }


def _chance(draws: Array, point: Array, within: Array) -> float:
    """The probability that another draw (k,) of the same distribution is within these distances (k,) of a point.

    A bound for normal draws: the product over columns of the largest density given the columns before, which for a
    column that others determine is that of rounding; and by Chebyshev's inequality, of a point as far as this.
    """
    n, mean = len(draws), np.mean(draws, axis=0)
    spread = np.abs(np.diag(append_rows(np.zeros((len(within),) * 2), draws - mean))) / np.sqrt(n)
    shares = np.divide(2 * within, spread, out=np.ones_like(within), where=spread > 0)
    std = np.std(draws, axis=0)
    away = np.max(np.divide(np.abs(point - mean), std, out=np.zeros_like(std), where=std > 0))
    return float(np.prod(np.minimum(shares, 1.0)) / max(1.0, away**2))


def _half_digit(numbers: Array) -> Array:
    """Half of the last decimal of each number that has few, and 0 for others."""
    found = np.zeros_like(numbers)
    for decimals in range(MAX_DECIMALS, -1, -1):
        found[np.round(numbers, decimals) == numbers] = 0.5 * 10.0**-decimals
    return found
