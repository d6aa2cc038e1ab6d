"""The result of a comparison: a table with a row for each estimator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common import between_0_and_1, finite, short, shown
from cbq.report import NO_COLUMN, Column, RowTable, in_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ComparisonRow:
    """The scores of one estimator on one set of samples, for one output. Unknown numbers are NaN.

    T, N, evaluations : the number of thetas, of points at each theta (their mean if it varies), and of all points.
    output : the name of the output, or its index if it has none; None if f has no axis of outputs.
    rmse : the root mean squared error against the truth.
    loo : without a truth, the root mean squared difference from estimates at left-out thetas.
    coverage, width : the share of intervals that contain the truth (or those estimates), and their mean width.
    seconds : the time of the fit, without predictions.
    coverages : the shares at the further `levels` of the comparison; empty if none are known.
    note : the reason for missing or unusual numbers.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> row = cbq.compare(samples, cbq.LSMC()).rows[0]
    >>> row.method, row.T, row.N, row.evaluations
    ('LSMC', 12, 20, 240)
    """

    method: str = field(metadata=in_text())
    T: int = field(metadata=in_text())
    N: int | float = field(metadata=in_text(lambda N: f"{N:.4g}" if isinstance(N, float) else f"{N}"))
    output: int | str | None = field(metadata=in_text())
    evaluations: int
    rmse: float = field(metadata=in_text(3))
    loo: float = field(metadata=in_text(3))
    coverage: float = field(metadata=in_text("{:.1%}".format))
    width: float = field(metadata=in_text(3))
    seconds: float = field(metadata=in_text(3))
    note: str
    coverages: tuple[float, ...] = field(default=(), metadata=NO_COLUMN)

    @property
    def error(self) -> float:
        """The error against the truth if it is known, and at left-out thetas otherwise."""
        return self.loo if isnan(self.rmse) else self.rmse


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(RowTable):
    """Estimators side by side. Immutable; it prints as a table, and `a + b` contains the rows of both.

    rows : one for each set of samples, output and estimator, in this order.
    level : the level of the intervals. levels : the further levels of the rows' `coverages`.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> found = cbq.compare(samples, [cbq.LSMC(), cbq.KLSMC()])  # by leaving out one theta at a time
    >>> [row.method for row in found.rows]
    ['LSMC', 'KLSMC']
    """

    rows: tuple[ComparisonRow, ...]
    level: float = 0.95
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.rows, list | tuple) or not all(isinstance(row, ComparisonRow) for row in self.rows):
            raise TypeError(f"rows must be a list of ComparisonRow, but it is {shown(self.rows)}.")
        if not self.rows:
            raise ValueError("a comparison needs at least one row, but rows is empty.")
        object.__setattr__(self, "rows", tuple(self.rows))
        between_0_and_1(self.level, "level")
        object.__setattr__(self, "levels", checked_levels(self.levels))

    def plot(self, ax: Any = None, *, title: str | None = None) -> Figure:
        """A figure of errors and seconds; see `cbq.comparison.figures.plot_comparison`."""
        from cbq.comparison.figures import plot_comparison

        return plot_comparison(self, ax, title=title)

    def plot_coverage(self, ax: Any = None, *, title: str | None = None) -> Figure:
        """A figure of the coverage of intervals over their level; on the diagonal they hold as often as their level.

        Above it intervals are too wide, and below it too narrow. Lines are means over samples of the same estimator.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> samples = problem.collect(T=12, N=20, rng=0)
        >>> found = cbq.compare(samples, cbq.CBQ(), truth=problem, levels=[0.25, 0.5, 0.75])
        >>> len(found.rows[0].coverages), len(found.plot_coverage().axes)
        (3, 1)
        """
        from cbq.comparison.figures import plot_coverage

        return plot_coverage(self, ax, title=title)

    def __add__(self, other: Comparison) -> Comparison:
        if not isinstance(other, Comparison):
            return NotImplemented
        if other.levels != self.levels:
            raise ValueError(
                f"comparisons with levels {self.levels} and {other.levels} cannot be added: compare with the same "
                f"levels."
            )
        if other.level != self.level:
            raise ValueError(
                f"comparisons with intervals of level {self.level:.4g} and {other.level:.4g} cannot be added: compare "
                f"with the same level."
            )
        return Comparison(self.rows + other.rows, self.level, self.levels)

    def _in_text(self) -> Iterator[Column]:
        best = _best(self.rows)
        marked = [short(row.rmse) + ("*" if i in best else " ") for i, row in enumerate(self.rows)]
        for each in self._columns():
            yield each if each.name != "rmse" or not best else replace(each, values=marked, text=str)

    def _legend(self) -> str:
        legend = [f"Intervals: {100 * self.level:.4g}%"]
        if not all(isnan(row.loo) for row in self.rows):
            includes = "which includes the error of the estimates it is measured against"
            legend.append(f"loo: the error at left-out thetas, {includes}")
        if _best(self.rows):
            legend.append("*: the smallest error")
        return f"{'; '.join(legend)}."


def checked_levels(levels: Any) -> tuple[float, ...]:
    """Levels as distinct increasing numbers."""
    given = finite(levels, "levels")
    if given.ndim != 1 or np.any(given <= 0) or np.any(given >= 1):
        raise ValueError(f"levels must be numbers between 0 and 1, such as (0.5, 0.8), but it is {shown(levels)}.")
    return tuple(sorted(set(given.tolist())))


def _best(rows: Sequence[ComparisonRow]) -> set[int]:
    """The rows with the smallest RMSE among several of the same sizes and output.

    Errors at left-out thetas are not ranked: they include the error of the estimates they are measured against.
    """
    groups: dict[tuple[object, ...], dict[int, float]] = {}
    for i, row in enumerate(rows):
        if not isnan(row.rmse):
            groups.setdefault((row.T, row.N, row.evaluations, row.output), {})[i] = row.rmse
    several = [group for group in groups.values() if len(group) > 1]
    return {i for group in several for i, rmse in group.items() if rmse == min(group.values())}
