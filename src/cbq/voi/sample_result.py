"""The EVSI of a study for several sizes, as a table that prints, plots and turns into a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common.arrays import Array
from cbq.common.tables import short
from cbq.fit.labels import with_labels
from cbq.voi.populations import multiplier, population_note
from cbq.voi.result import DIGITS
from cbq.voi.shown import PricedTable, hand_on, table_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class EvsiRow:
    """The EVSI of a study of one size at one willingness to pay.

    pars : the names of the inputs that the study is about.
    size : of the study, or of each of its groups. participants : of all groups together.
    willingness_to_pay : None if the outputs are net benefits.
    evsi, se, lower, upper : the estimate, its standard error and the ends of its interval, between 0 and the upper end
        of the interval of EVPI.
    evppi, evppi_se, evpi, evpi_se : of learning the inputs exactly, and of learning all inputs.
    n : the number of rows (draws).
    raw : the estimate before estimates were made to grow with the size.
    r2 : R^2, the share of the variance of differences between decisions that the regression explains.
    misfit : the structure left in residuals, in standard deviations of what chance leaves.
    note : remarks on the estimate, or an empty string.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> study = cbq.voi.studies.Normal(sd=2.0)
    >>> row = cbq.evsi({"old": 0 * risk, "new": risk}, {"risk": risk}, "risk", study, sizes=[10]).rows[0]
    >>> row.lower <= row.evsi <= row.upper
    True
    """

    pars: str
    size: int
    willingness_to_pay: float | None
    evsi: float
    se: float
    lower: float
    upper: float
    evppi: float
    evppi_se: float
    evpi: float
    evpi_se: float
    participants: float
    n: int
    raw: float
    r2: float = float("nan")
    misfit: float = float("nan")
    note: str = ""


IN_MONEY = ("evsi", "se", "lower", "upper", "evppi", "evppi_se", "evpi", "evpi_se", "raw")


@dataclass(frozen=True, repr=False, eq=False)
class EvsiTable(PricedTable):
    """The EVSI of a study for several sizes. Immutable; it prints as a table.

    rows : one for each size and willingness to pay, in this order.
    level : of the intervals.
    covariance : (K, J, J), of the estimates of J sizes, for each of K values of the willingness to pay.
    notes : remarks on the study and the tables, without full stops.
    population : the number of decisions that values are for; None for one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> study = cbq.voi.studies.Normal(sd=2.0)
    >>> found = cbq.evsi({"old": 0 * risk, "new": risk}, {"risk": risk}, "risk", study, sizes=[10, 40])
    >>> len(found.rows), found.covariance.shape
    (2, (1, 2, 2))
    """

    rows: tuple[EvsiRow, ...]
    level: float = 0.95
    covariance: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    notes: tuple[str, ...] = ()
    population: float | None = None

    @property
    def sizes(self) -> list[int]:
        """The sizes of the study, in increasing order."""
        return sorted({row.size for row in self.rows})

    def for_population(self, population: float) -> EvsiTable:
        """The same for this many decisions instead of one, as `cbq.voi.population` counts them."""
        factor = multiplier(population, self.population)
        rows = [replace(row, **{name: factor * getattr(row, name) for name in IN_MONEY}) for row in self.rows]
        covariance = factor * (factor * self.covariance)
        covariance.setflags(write=False)
        notes = (*self.notes, population_note(factor))
        return replace(self, rows=tuple(rows), covariance=covariance, notes=notes, population=factor)

    def plot(
        self, ax: Any = None, *, title: str | None = None, xlabel: str | None = None, ylabel: str | None = None
    ) -> Figure:
        """A figure of EVSI over the size of the study, with bands, and EVPPI, which it does not exceed, as a line.

        title, xlabel, ylabel : texts in place of those of the figure.
        """
        from cbq.voi.sample_plot import plot_evsi

        return with_labels(plot_evsi(self, ax), ax, title, xlabel, ylabel)

    def report(self, path: str | PathLike[str], *, title: str | None = None, repeat: str | None = None) -> None:
        """Write a page to hand on, one HTML file that loads nothing: question, chart, table and how to repeat it.

        title : of the page. repeat : code or a command that makes this table.
        """
        from cbq.voi.sample_report import study_page

        hand_on(lambda title, repeat: study_page(self, None, title, repeat), path, title, repeat)

    def _cells(self) -> tuple[list[list[str]], list[str]]:
        cells: dict[str, Callable[[EvsiRow], str]] = {
            "pars": lambda row: row.pars,
            "size": lambda row: str(row.size),
            "willingness to pay": lambda row: "" if row.willingness_to_pay is None else f"{row.willingness_to_pay:g}",
            "evsi": lambda row: short(row.evsi, DIGITS),
            "se": lambda row: short(row.se, 2),
            "lower": lambda row: short(row.lower, DIGITS),
            "upper": lambda row: short(row.upper, DIGITS),
            "evppi": lambda row: short(row.evppi, DIGITS),
            "evpi": lambda row: short(row.evpi, DIGITS),
        }
        legend = f"Intervals of {100 * self.level:.4g}%; {self.rows[0].n} rows."
        return table_cells(self.rows, cells, legend, self.notes)
