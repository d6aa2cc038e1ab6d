"""The EVPPI of sets of inputs as a table that prints, plots and turns into a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from cbq._tables import aligned, data_frame, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIGITS = 4  # significant digits of estimates in text


@dataclass(frozen=True)
class EvppiRow:
    """The EVPPI of one set of inputs at one willingness to pay.

    pars : the names of the inputs.
    willingness_to_pay : None if the outputs are net benefits.
    evppi, se, lower, upper : the estimate, its standard error and the ends of its interval, at least 0.
    plug_in : the estimate from the means of the regression alone, before estimates were made monotone over the sets.
    evpi : the expected value of perfect information.
    n, landmarks : the number of rows (draws), and that of the landmarks of the regression.
    approximation : the part of evppi that is due to variance not represented by the landmarks.
    note : remarks on the estimate, or an empty string.
    raw : the estimate before estimates were made monotone over the sets.
    r2 : R^2, the share of the variance of differences between decisions that the regression explains.
    misfit : the structure left in residuals along the inputs, in standard deviations of what chance leaves.
    noise_ratio : the standard error that residuals tell, in units of that with equal noise in all rows.
    effective_n : the number of independent rows that the rows are worth: fewer than n if they are autocorrelated.
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
    raw: float = float("nan")
    r2: float = float("nan")
    misfit: float = float("nan")
    noise_ratio: float = float("nan")
    effective_n: float = float("nan")


@dataclass(frozen=True, repr=False, eq=False)
class EvppiTable:
    """The EVPPI of several sets of inputs. Immutable; it prints as a table.

    rows : one for each set and willingness to pay, in this order.
    level : of the intervals.
    """

    rows: tuple[EvppiRow, ...]
    level: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        if not self.rows:
            raise ValueError("an EvppiTable needs at least one row, but rows is empty.")

    @property
    def columns(self) -> list[str]:
        """The fields of the rows, note last, without willingness_to_pay if the outputs are net benefits."""
        names = [*(field.name for field in fields(EvppiRow) if field.name != "note"), "note"]
        return names if self.rows[0].willingness_to_pay is not None else [n for n in names if n != "willingness_to_pay"]

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each of `rows` and the columns `columns`."""
        return data_frame([asdict(row) for row in self.rows], self.columns)

    def plot(self, ax: Any = None) -> Figure:
        """A figure of EVPPI by set, or over the willingness to pay; see `cbq.psa.plot.plot_values`."""
        from cbq.psa.plot import plot_values

        return plot_values(self, ax)

    def __str__(self) -> str:
        """Aligned columns, the first to the left and numbers to the right, with notes below."""
        notes = list(dict.fromkeys(row.note for row in self.rows if row.note))
        cells: dict[str, Callable[[EvppiRow], str]] = {
            "pars": lambda row: row.pars,
            "willingness to pay": lambda row: "" if row.willingness_to_pay is None else f"{row.willingness_to_pay:g}",
            "evppi": lambda row: short(row.evppi, DIGITS),
            "se": lambda row: short(row.se, 2),
            "lower": lambda row: short(row.lower, DIGITS),
            "upper": lambda row: short(row.upper, DIGITS),
            "plug-in": lambda row: short(row.plug_in, DIGITS),
            "evpi": lambda row: short(row.evpi, DIGITS),
            "note": lambda row: f"[{notes.index(row.note) + 1}]" if row.note else "",
        }
        filled = {name: [cell(row) for row in self.rows] for name, cell in cells.items()}
        used = {name: column for name, column in filled.items() if any(column)}
        lines = [list(used), *map(list, zip(*used.values(), strict=True))]
        legend = f"Intervals of {100 * self.level:.4g}%; {self.rows[0].n} rows."
        below = [legend, *(f"[{i}] {note}." for i, note in enumerate(notes, start=1))]
        return aligned(lines, left=1, notes=below)

    __repr__ = __str__
