"""Tables with one row per draw: columns by name, as `cbq.samples.names` recognises them, or by position.

A spreadsheet often ends in rows that summarise the rows above, such as their means. They are no draws, and counted as
draws they shift every average. A row is taken for one if every column has the mean, the standard deviation or the sum
of the rows above it, to the digits that are written, and if a draw would hardly do so by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq.common import Array, as_array, real
from cbq.linalg.lapack import append_rows
from cbq.samples.names import NamedColumns, named_columns

MAX_SUMMARIES = 12  # at the end of a table that may be summaries
MIN_DRAWS = 10  # rows above them
CHANCE = 1e-8  # that a draw looks like a summary, at the most
MAX_DECIMALS = 9  # of a number that was rounded
SUMMARY_ROUNDING = 1e-11  # of numbers with more decimals, relative to the largest of their column


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Columns by name. Only columns that are used must hold numbers.

    what : how errors refer to the table. n : the number of rows. index : their labels, if it is a pandas object.
    """

    what: str
    names: tuple[str, ...]
    take: Callable[[int], Any]
    n: int
    index: Any = None

    @classmethod
    def of(cls, table: Any, what: str) -> ColumnTable:
        """From a table with named columns, a pandas Series, or an array (n, k) or (n,)."""
        columns = named_columns(table) or _unnamed_columns(table, what)
        labels, take = columns.labels, columns.take
        if repeated := columns.repeated():
            raise ValueError(f"{what} has several columns called {', '.join(map(repr, repeated))}: rename them.")
        if not labels:
            raise ValueError(f"{what} has no columns: pass at least one.")
        lengths = [np.shape(take(i))[:1] for i in range(len(labels))]
        if len(set(lengths)) > 1:
            counts = {name: each[0] if each else "no" for name, each in zip(labels, lengths, strict=True)}
            raise ValueError(f"the columns of {what} must be of equal length, but their numbers of rows are {counts}.")
        return cls(what, labels, take, lengths[0][0] if lengths[0] else 0, _common_index(labels, take, what))

    def matrix(self, columns: Sequence[int]) -> Array:
        """The columns at these positions as finite numbers (n, k)."""
        return np.stack([self._column(i) for i in columns], axis=1)

    def words(self, i: int) -> list[str] | None:
        """The column at this position as words, without spaces around them; None if it holds anything else.

        Words between numbers, and gaps between words, are not words: they are likely to be mistakes.
        """
        raw = np.asarray(self.take(i))
        if raw.ndim != 1 or raw.dtype.kind not in "OU" or not len(raw):
            return None
        found = [each.strip() for each in raw if isinstance(each, str)]
        return found if len(found) == len(raw) and all(map(_is_word, found)) else None

    def _column(self, i: int) -> Array:
        name = f"column {self.names[i]!r} of {self.what}"
        _check_numeric(self.take(i), name)
        values = real(self.take(i), name)
        if values.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, but its shape is {values.shape}.")
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"{name} is NaN or inf in {bad.size} of {self.n} rows (first in row {bad[0]}): remove these rows "
                f"from both tables, or correct them."
            )
        return values


def check_same_rows(outputs: ColumnTable, inputs: ColumnTable) -> None:
    """Raise if the rows of both tables cannot be the same draws."""
    if outputs.n != inputs.n:
        raise ValueError(
            f"{outputs.what} has {outputs.n} rows and {inputs.what} has {inputs.n}, but the same row of both must be "
            f"the same draw."
        )
    _check_same_labels((outputs.what, outputs.index), (inputs.what, inputs.index))


def _is_word(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return bool(text)
    return False


def _common_index(names: Sequence[str], take: Callable[[int], Any], what: str) -> Any:
    """The row labels of columns that are pandas Series, which must agree; None if there are none."""
    columns = [(f"column {name!r} of {what}", take(i)) for i, name in enumerate(names)]
    labelled = [(name, column.index) for name, column in columns if hasattr(column, "iloc")]
    for each in labelled[1:]:
        _check_same_labels(labelled[0], each)
    return labelled[0][1] if labelled else None


def _check_same_labels(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    """Raise if two named sequences of row labels, of equal length, differ."""
    (first, left), (second, right) = one, other
    if left is None or right is None or left is right or left.equals(right):
        return
    pairs = enumerate(zip(left, right, strict=True))
    row, labels = next(((i, (a, b)) for i, (a, b) in pairs if a != b), (0, None))
    if labels is None:  # equal labels of different types
        return
    raise ValueError(
        f"the rows of {first} and {second} have different labels (row {row} is {labels[0]!r} in the first and "
        f"{labels[1]!r} in the second), but the same row of both must be the same draw: sort both, as with "
        f"sort_index(), or, if their rows match by position, call reset_index(drop=True) on both."
    )


def _check_numeric(column: Any, name: str) -> None:
    """Raise if a column holds anything but numbers, with its type and the first other value."""
    try:
        raw = np.asarray(column)
    except ValueError:  # a ragged column has an error of its own
        return
    if raw.dtype.kind in "buif" or raw.ndim != 1:
        return
    odd = next((i for i, each in enumerate(raw) if not isinstance(each, int | float | np.number)), 0)
    held = f" (row {odd} holds {str(raw[odd])!r})" if len(raw) else ""
    raise TypeError(
        f"{name} must hold real numbers, but its type is {getattr(column, 'dtype', raw.dtype)}{held}: convert "
        f"it, as with astype(float), or omit it."
    )


def _unnamed_columns(table: Any, what: str) -> NamedColumns:
    """The columns of a pandas Series or of an array (n, k) or (n,), which are called by their positions."""
    if hasattr(table, "iloc"):  # a Series
        return NamedColumns([0 if table.name is None else table.name], lambda i: table)
    array = as_array(table, what)
    if array.ndim == 1 and array.dtype.kind in "buif":
        array = array[:, None]
    if array.ndim != 2:
        raise TypeError(
            f"{what} must be a table with named columns, such as a pandas or polars DataFrame or a mapping, or an "
            f"array (rows, columns), but a {type(table).__name__} of shape {array.shape} arrived."
        )
    return NamedColumns(list(range(array.shape[1])), lambda i: array[:, i])


@dataclass(frozen=True)
class SummaryRow:
    """The number of draws, which is the position of the first row after them, and what a row there holds."""

    draws: int
    row: int
    holds: str


def find_summary(values: Array) -> SummaryRow | None:
    """The rows at the end of columns (n, k) that summarise the rows above; None if there are none."""
    varying = values[:, np.any(values != values[:1], axis=0)]
    n, last = len(varying), min(MAX_SUMMARIES, len(varying) - MIN_DRAWS)
    if last < 1 or not varying.shape[1]:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # of squares, which then equal nothing
        scale = np.max(np.abs(varying[: n - last]), axis=0)
        for b in range(n - last, n):  # if the first b rows are draws, and no others
            draws, below = varying[:b], varying[b:]
            mean, std = np.mean(draws, axis=0), np.std(draws, axis=0)
            summaries = {"the means": mean, "the sums": b * mean, "the standard deviations": std * np.sqrt(b / (b - 1))}
            summaries["the standard deviations with divisor n"] = std
            for holds, summary in summaries.items():
                within = SUMMARY_ROUNDING * np.maximum(scale, np.abs(summary)) + _half_digit(below)
                for row in np.flatnonzero(np.all(np.abs(below - summary) <= within, axis=1)):
                    if _chance(draws, below[row], within[row]) < CHANCE:
                        return SummaryRow(b, b + int(row), holds)
    return None


def _chance(draws: Array, point: Array, within: Array) -> float:
    """The probability that another draw (k,) of the same distribution is within these distances (k,) of a point.

    A bound for normal draws: the product over columns of the largest density given the columns before, which for a
    column that others determine comes from rounding; and by Chebyshev's inequality, of a point as far as this.
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
