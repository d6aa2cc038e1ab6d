"""The result of a comparison: a row for each estimator, as a table in plain text, in HTML and in pandas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from cbq.common.checks import between_0_and_1, shown
from cbq.common.tables import BLANK, aligned, data_frame, short
from cbq.report import html

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
    note : the reason for missing or unusual numbers.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> row = cbq.compare(samples, cbq.LSMC()).rows[0]
    >>> row.method, row.T, row.N, row.evaluations
    ('LSMC', 12, 20, 240)
    """

    method: str
    T: int
    N: int | float
    output: int | str | None
    evaluations: int
    rmse: float
    loo: float
    coverage: float
    width: float
    seconds: float
    note: str

    @property
    def error(self) -> float:
        """The error against the truth if it is known, and at left-out thetas otherwise."""
        return self.loo if isnan(self.rmse) else self.rmse


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Estimators side by side. Immutable; it prints as a table, and `a + b` contains the rows of both.

    rows : one for each set of samples, output and estimator, in this order.
    level : the level of the intervals.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> found = cbq.compare(samples, [cbq.LSMC(), cbq.KLSMC()])  # by leaving out one theta at a time
    >>> [row.method for row in found.rows]
    ['LSMC', 'KLSMC']
    """

    rows: tuple[ComparisonRow, ...]
    level: float = 0.95

    def __post_init__(self) -> None:
        if not isinstance(self.rows, list | tuple) or not all(isinstance(row, ComparisonRow) for row in self.rows):
            raise TypeError(f"rows must be a list of ComparisonRow, but it is {shown(self.rows)}.")
        if not self.rows:
            raise ValueError("a comparison needs at least one row, but rows is empty.")
        object.__setattr__(self, "rows", tuple(self.rows))
        between_0_and_1(self.level, "level")

    def to_frame(self) -> Any:
        """A tidy pandas data frame, whose columns are the fields of the rows."""
        return data_frame([asdict(row) for row in self.rows])

    def plot(self, ax: Any = None, *, title: str | None = None) -> Figure:
        """A figure of errors and seconds; see `cbq.comparison.figures.plot_comparison`."""
        from cbq.comparison.figures import plot_comparison

        return plot_comparison(self, ax, title=title)

    def __add__(self, other: Comparison) -> Comparison:
        if not isinstance(other, Comparison):
            return NotImplemented
        if other.level != self.level:
            raise ValueError(
                f"comparisons with intervals of level {self.level:.4g} and {other.level:.4g} cannot be added: compare "
                f"with the same level."
            )
        return Comparison(self.rows + other.rows, self.level)

    def __str__(self) -> str:
        """Aligned columns with notes below."""
        cells, notes = _cells(self)
        return aligned(cells, left=1, notes=notes)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html.table(*_cells(self))


def _cells(comparison: Comparison) -> tuple[list[list[str]], list[str]]:
    """The rows of the table, the first of which is the header, and the lines below it.

    A column appears only if some row has a value for it.
    """
    rows, best = comparison.rows, _best(comparison.rows)
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    columns: dict[str, Callable[[int, ComparisonRow], str]] = {
        "method": lambda i, row: row.method,
        "T": lambda i, row: f"{row.T}",
        "N": lambda i, row: f"{row.N:.4g}" if isinstance(row.N, float) else f"{row.N}",
        "output": lambda i, row: BLANK if row.output is None else f"{row.output}",
        "rmse": lambda i, row: short(row.rmse) + ("*" if i in best else " "),
        "loo": lambda i, row: short(row.loo),
        "coverage": lambda i, row: BLANK if isnan(row.coverage) else f"{row.coverage:.1%}",
        "width": lambda i, row: short(row.width),
        "seconds": lambda i, row: short(row.seconds),
        "note": lambda i, row: f"[{notes.index(row.note) + 1}]" if row.note else "",
    }
    used = [name for name in columns if any(_is_known(getattr(row, name)) for row in rows)]
    cells = [used, *([columns[name](i, row) for name in used] for i, row in enumerate(rows))]
    legend = [f"Intervals: {100 * comparison.level:.4g}%"]
    if "loo" in used:
        includes = "which includes the error of the estimates it is measured against"
        legend.append(f"loo: the error at left-out thetas, {includes}")
    if best:
        legend.append("*: the smallest error")
    return cells, [f"{'; '.join(legend)}.", *(f"[{i}] {note}." for i, note in enumerate(notes, start=1))]


def _is_known(value: object) -> bool:
    return value is not None and value != "" and not (isinstance(value, float) and isnan(value))


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
