"""The values of sets of columns: a row for each, and the ways to look at them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class EvppiRow:
    """The value of knowing a set of columns, at one willingness to pay.

    pars : the columns. willingness_to_pay : None where outputs are net benefits.
    evppi, se, lower, upper : the estimate, its standard error, and the ends of its interval, none of them below 0.
    plug_in : the estimate from the means of the regression alone, before estimates were brought into order.
    evpi : the value of knowing everything.
    n : rows. landmarks : of the regression. approximation : how much of evppi comes from variance that they do not see.
    note : what there is to say besides.
    """

    pars: str
    willingness_to_pay: float | None
    evppi: float
    se: float
    lower: float
    upper: float
    plug_in: float
    evpi: float
    n: int
    landmarks: int
    approximation: float
    note: str


@dataclass(frozen=True, repr=False, eq=False)
class EvppiTable:
    """Values of information side by side. Immutable; it prints as a table.

    rows : one for each set of columns and willingness to pay, in this order.
    level : of the intervals.
    """

    rows: tuple[EvppiRow, ...]
    level: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        if not self.rows:
            raise ValueError("a table of values needs rows, but there are none.")

    @property
    def columns(self) -> list[str]:
        """The fields of the rows that are in use."""
        names = [field.name for field in fields(EvppiRow)]
        return names if self.rows[0].willingness_to_pay is not None else [n for n in names if n != "willingness_to_pay"]

    def to_frame(self) -> Any:
        """A tidy pandas table, whose columns are the fields of the rows."""
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("to_frame needs pandas: python -m pip install 'cbq[frame]'.") from error
        return pd.DataFrame([asdict(row) for row in self.rows], columns=self.columns)

    def plot(self, ax: Any = None) -> Figure:
        """A figure of EVPPI by set, or over willingness to pay; see `cbq.psa.plot.plot_values`."""
        from cbq.psa.plot import plot_values

        return plot_values(self, ax)

    def __str__(self) -> str:
        from cbq.psa.text import text

        return text(self)

    __repr__ = __str__
