"""The EVSI of a study for several sizes, as a table that prints, plots and turns into a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._arrays import Array
from cbq._checks import is_number, shown
from cbq._tables import data_frame, short
from cbq._wording import arg
from cbq.fit.labels import with_labels
from cbq.psa.populations import multiplier, population_note
from cbq.psa.result import DIGITS
from cbq.psa.shown import ShownAsTable, hand_on

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
    >>> study = cbq.psa.studies.Normal(sd=2.0)
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
class EvsiTable(ShownAsTable):
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
    >>> study = cbq.psa.studies.Normal(sd=2.0)
    >>> found = cbq.evsi({"old": 0 * risk, "new": risk}, {"risk": risk}, "risk", study, sizes=[10, 40])
    >>> len(found.rows), found.covariance.shape
    (2, (1, 2, 2))
    """

    rows: tuple[EvsiRow, ...]
    level: float = 0.95
    covariance: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    notes: tuple[str, ...] = ()
    population: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "notes", tuple(self.notes))
        if not self.rows:
            raise ValueError("an EvsiTable needs at least one row, but rows is empty.")

    @property
    def sizes(self) -> list[int]:
        """The sizes of the study, in increasing order."""
        return sorted({row.size for row in self.rows})

    @property
    def prices(self) -> list[float | None]:
        """The values of the willingness to pay, as they were given; [None] if the outputs are net benefits."""
        return list(dict.fromkeys(row.willingness_to_pay for row in self.rows))

    def at(self, willingness_to_pay: float | None = None) -> list[EvsiRow]:
        """The rows of all sizes at one of `prices`, which may be left out if there is one alone."""
        price = one_price(willingness_to_pay, self.prices)
        return [row for row in self.rows if row.willingness_to_pay == price]

    @property
    def columns(self) -> list[str]:
        """The fields of the rows, without willingness_to_pay if the outputs are net benefits."""
        priced = self.rows[0].willingness_to_pay is not None
        return [each.name for each in fields(EvsiRow) if priced or each.name != "willingness_to_pay"]

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each of `rows` and the columns `columns`."""
        return data_frame([asdict(row) for row in self.rows], self.columns)

    def for_population(self, population: float) -> EvsiTable:
        """The same for this many decisions instead of one, as `cbq.psa.population` counts them."""
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
        from cbq.psa.sample_plot import plot_evsi

        return with_labels(plot_evsi(self, ax), ax, title, xlabel, ylabel)

    def report(self, path: str | PathLike[str], *, title: str | None = None, repeat: str | None = None) -> None:
        """Write a page to hand on, one HTML file that loads nothing: question, chart, table and how to repeat it.

        title : of the page. repeat : code or a command that makes this table.
        """
        from cbq.psa.sample_report import study_page

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


def one_price(willingness_to_pay: Any, prices: Sequence[float | None]) -> float | None:
    """Return the willingness to pay if it is one of the prices, or the only one in place of None."""
    price = prices[0] if willingness_to_pay is None and len(prices) == 1 else willingness_to_pay
    if not (price is None or is_number(price)) or price not in prices:
        raise ValueError(
            f"{arg('willingness_to_pay')} must be one of {', '.join(map(str, prices))}, but it is "
            f"{shown(willingness_to_pay)}."
        )
    return price


def table_cells(
    rows: Sequence[Any], cells: dict[str, Callable[[Any], str]], legend: str, remarks: Sequence[str]
) -> tuple[list[list[str]], list[str]]:
    """The lines of a table, the first of which is the header, without empty columns, and the lines below it."""
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    numbered = cells | {"note": lambda row: f"[{notes.index(row.note) + 1}]" if row.note else ""}
    filled = {name: [cell(row) for row in rows] for name, cell in numbered.items()}
    used = {name: column for name, column in filled.items() if any(column)}
    lines = [list(used), *map(list, zip(*used.values(), strict=True))]
    below = [legend, *(f"[{i}] {note}." for i, note in enumerate(notes, start=1)), *(f"{each}." for each in remarks)]
    return lines, below
