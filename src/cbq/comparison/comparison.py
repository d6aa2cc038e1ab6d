"""The result of a comparison: a row for each method, and the ways to look at them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import isnan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ComparisonRow:
    """A method on samples, and one output; NaN is what is not known.

    T, N, evaluations : the number of thetas, of points at each (their mean where it differs), and of both together.
    output : which one, or None where f has a single one.
    rmse : the root mean squared error against the truth.
    loo : the root mean squared difference from estimates at left-out thetas, where there is no truth.
    coverage, width : the share of intervals that hold the truth (or those estimates), and their mean width.
    seconds : that the fit took, without predictions.
    note : why something is missing or different.
    """

    method: str
    T: int
    N: int | float
    output: int | None
    evaluations: int
    rmse: float
    loo: float
    coverage: float
    width: float
    seconds: float
    note: str

    @property
    def error(self) -> float:
        """That against the truth, or else against left-out estimates."""
        return self.loo if isnan(self.rmse) else self.rmse


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Methods side by side. Immutable; it prints as a table, and `a + b` holds the rows of both.

    rows : one for each samples, output and method, in this order.
    level : of the intervals.
    """

    rows: tuple[ComparisonRow, ...]
    level: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        if not self.rows:
            raise ValueError("a comparison needs rows, but there are none.")

    def to_frame(self) -> Any:
        """A tidy pandas table, whose columns are the fields of the rows."""
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("to_frame needs pandas: python -m pip install 'cbq[frame]'.") from error
        return pd.DataFrame([asdict(row) for row in self.rows], columns=[field.name for field in fields(ComparisonRow)])

    def plot(self, ax: Any = None) -> Figure:
        """A figure of errors and seconds; see `cbq.comparison.plot.plot_comparison`."""
        from cbq.comparison.plot import plot_comparison

        return plot_comparison(self, ax)

    def __add__(self, other: Comparison) -> Comparison:
        if not isinstance(other, Comparison):
            return NotImplemented
        if other.level != self.level:
            raise ValueError(f"intervals of {self.level:.4g} and of {other.level:.4g} do not belong in one table.")
        return Comparison(self.rows + other.rows, self.level)

    def __str__(self) -> str:
        from cbq.comparison.table import text

        return text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from cbq.comparison.table import html

        return html(self)
