"""The EVPPI of sets of inputs as a table that prints, plots and turns into a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from cbq.common.checks import whole
from cbq.common.tables import short
from cbq.fit.labels import with_labels
from cbq.voi.populations import multiplier, population_note
from cbq.voi.shown import PricedTable, hand_on, table_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIGITS = 4  # significant digits of estimates in text
IN_MONEY = (
    "evppi",
    "se",
    "lower",
    "upper",
    "plug_in",
    "evpi",
    "approximation",
    "evpi_se",
    "raw",
)  # as net benefits are
BETWEEN_INPUTS = ", "  # in the name of a set


@dataclass(frozen=True)
class EvppiRow:
    """The EVPPI of one set of inputs at one willingness to pay.

    pars : the names of the inputs.
    willingness_to_pay : None if the outputs are net benefits.
    evppi, se, lower, upper : the estimate, its standard error and the ends of its interval, between 0 and the upper end
        of the interval of EVPI.
    plug_in : the estimate from the means of the regression alone, before estimates were made monotone over the sets.
    evpi : the expected value of perfect information.
    n, landmarks : the number of rows (draws), and that of the landmarks of the regression.
    approximation : the part of evppi that is due to variance not represented by the landmarks.
    note : remarks on the estimate, or an empty string.
    evpi_se : the standard error of evpi.
    raw : the estimate before estimates were made monotone over the sets.
    r2 : R^2, the share of the variance of differences between decisions that the regression explains.
    misfit : the structure left in residuals along the inputs, in standard deviations of what chance leaves.
    noise_ratio : the standard error that residuals tell, in units of that with equal noise in all rows.
    effective_n : the number of independent rows that the rows are worth: fewer than n if they are autocorrelated.
    inputs : the names of the inputs one by one; not in tables.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> row = cbq.voi.values_of_information({"old": 0 * risk, "new": risk}, {"risk": risk}, ["risk"]).rows[0]
    >>> bool(row.lower <= row.evppi <= row.upper)
    True
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
    note: str = ""
    evpi_se: float = float("nan")
    raw: float = float("nan")
    r2: float = float("nan")
    misfit: float = float("nan")
    noise_ratio: float = float("nan")
    effective_n: float = float("nan")
    inputs: tuple[str, ...] = ()


def inputs_of(row: EvppiRow) -> list[str]:
    """The names of the inputs of a set, which may contain commas."""
    return list(row.inputs) or row.pars.split(BETWEEN_INPUTS)


@dataclass(frozen=True, repr=False, eq=False)
class EvppiTable(PricedTable):
    """The EVPPI of several sets of inputs. Immutable; it prints as a table.

    rows : one for each set and willingness to pay, in this order.
    level : of the intervals.
    notes : remarks on the tables of outputs and inputs, without full stops.
    population : the number of decisions that values are for; None for one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> found = cbq.voi.values_of_information({"old": 0 * risk, "new": risk}, {"risk": risk}, ["risk"])
    >>> len(found.rows), len(found.to_frame())
    (1, 1)
    """

    rows: tuple[EvppiRow, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()
    population: float | None = None

    def for_population(self, population: float) -> EvppiTable:
        """The same for this many decisions instead of one, as `cbq.voi.population` counts them."""
        factor = multiplier(population, self.population)
        rows = [replace(row, **{name: factor * getattr(row, name) for name in IN_MONEY}) for row in self.rows]
        return replace(self, rows=tuple(rows), notes=(*self.notes, population_note(factor)), population=factor)

    def largest(self, most: int) -> list[EvppiRow]:
        """The rows with the largest EVPPI, at most so many, the largest first."""
        return sorted(self.rows, key=lambda row: -row.evppi)[: whole(most, "most", 1)]

    def plot(
        self,
        ax: Any = None,
        *,
        kind: str | None = None,
        most: int | None = None,
        title: str | None = None,
        xlabel: str | None = None,
        ylabel: str | None = None,
    ) -> Figure:
        """A figure of EVPPI: bars by set, lines over the willingness to pay, or a map of pairs of inputs.

        kind : "bars", "lines" or "map"; by default what suits the table.
        most : the number of sets that are drawn, the largest ones (default: 20, or 8 lines); the others are counted.
        title, xlabel, ylabel : texts in place of those of the figure.
        """
        from cbq.voi.plot import plot_values

        figure = plot_values(self, ax, kind=kind, most=most)  # type: ignore[arg-type]
        return with_labels(figure, ax, title, xlabel, ylabel)

    def report(self, path: str | PathLike[str], *, title: str | None = None, repeat: str | None = None) -> None:
        """Write a page to hand on, one HTML file that loads nothing: the question, charts, the table, how to repeat it.

        title : of the page. repeat : code or a command that makes this table.
        """
        from cbq.voi.report import table_page

        hand_on(lambda title, repeat: table_page(self, title, repeat), path, title, repeat)

    def _cells(self) -> tuple[list[list[str]], list[str]]:
        """The rows of the table, the first of which is the header, and the lines below it."""
        cells: dict[str, Callable[[EvppiRow], str]] = {
            "pars": lambda row: row.pars,
            "willingness to pay": lambda row: "" if row.willingness_to_pay is None else f"{row.willingness_to_pay:g}",
            "evppi": lambda row: short(row.evppi, DIGITS),
            "se": lambda row: short(row.se, 2),
            "lower": lambda row: short(row.lower, DIGITS),
            "upper": lambda row: short(row.upper, DIGITS),
            "plug-in": lambda row: short(row.plug_in, DIGITS),
            "evpi": lambda row: short(row.evpi, DIGITS),
        }
        legend = f"Intervals of {100 * self.level:.4g}%; {self.rows[0].n} rows."
        if len({row.willingness_to_pay for row in self.rows}) == 1 and self.rows[0].evpi_se > 0:
            legend += f" EVPI has a standard error of {short(self.rows[0].evpi_se, 2)}."
        return table_cells(self.rows, cells, legend, self.notes)
