"""The expected value of partial perfect information (EVPPI) of sets of inputs, from the table of a PSA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common import Array, Progress, RNGLike, between_0_and_1, generator, whole
from cbq.linalg.threads import run_in_pool, workers
from cbq.nested import evppi as evppi_of_fit
from cbq.nested.decisions import Name
from cbq.nested.outer import Design
from cbq.plotting import draw
from cbq.report import NO_COLUMN, Page, in_text
from cbq.voi.analysis import Contrasts, SetValue, analyse
from cbq.voi.money import MoneyTable, in_digits, money
from cbq.voi.outputs import PRICE, Scaled, count_duplicates, read_draws, repeated_rows
from cbq.voi.perfect import perfect_information
from cbq.voi.sets import ROUNDING, ColumnSet, monotone_estimates, row_order, valued_sets

if TYPE_CHECKING:
    import matplotlib.figure

ROUNDING_OF_UNIT = 1e-13  # of the unit of net benefits, about what rounding leaves of them
NEGLIGIBLE = 1e-9  # of EVPI: a plug-in below is what rounding leaves of 0
NEXT_TO_NOTHING = 1e-3  # of EVPI
BETWEEN_INPUTS = ", "  # in the name of a set
# A note is written beyond these.
NOTE_MOVED = 0.1  # standard errors by which an estimate was moved to be monotone over the sets
NOTE_UNSEEN = 0.1  # standard errors of an estimate that the landmarks do not represent
NOTE_MISFIT, NOTE_UNEXPLAINED = 6.0, 1e-3  # the structure left in residuals, and their share of the variance
NOTE_NOISE_RATIO = 1.5
NOTE_EFFECTIVE = 0.9  # of the rows
NOTE_UNINFORMATIVE = 0.05  # the probability of each set to be independent of the net benefits
NOTE_SMALL, NOTE_EVPI = 0.1, 3.0  # of EVPI that each set is worth at most; standard errors within which this is certain


@dataclass(frozen=True)
class EvppiRow:
    """The EVPPI of one set of inputs at one willingness to pay.

    pars : the names of the inputs.
    willingness_to_pay : None if the outputs are net benefits.
    evppi, se, lower, upper : the estimate, its standard error and the ends of its interval, between 0 and the upper end
        of the interval of EVPI.
    plug_in : the estimate from the means of the regression alone, before estimates were made monotone over the sets.
    evpi : the expected value of perfect information.
    n, landmarks : the numbers of rows (draws), and of landmarks of the regression.
    approximation : the part of evppi that is due to variance not represented by the landmarks.
    note : remarks on the estimate, or an empty string. doubtful : whether they make the estimate or se doubtful.
    evpi_se : the standard error of evpi.
    raw : the estimate before estimates were made monotone over the sets.
    r2 : R^2, the share of the variance of differences between decisions that the regression explains.
    misfit : the structure left in residuals along the inputs, in standard deviations of what chance leaves.
    noise_ratio : the standard error by the residuals, relative to the one with equal noise in all rows.
    effective_n : the number of independent rows that the rows are worth: fewer than n if they are autocorrelated.
    share, share_se : evppi / evpi, and its standard error.
    remaining, remaining_se : evpi - evppi, and its standard error. Both standard errors are smaller than se and evpi_se
        suggest, since the same rows make both values, so that most of their errors cancel.
    inputs : the names of the inputs one by one; not in tables.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> row = cbq.evppi({"old": 0 * risk, "new": risk}, {"risk": risk}, ["risk"]).rows[0]
    >>> bool(row.lower <= row.evppi <= row.upper)
    True
    """

    pars: str = field(metadata=in_text())
    willingness_to_pay: float | None = field(metadata=in_text("{:g}".format))
    evppi: float = field(metadata=in_text(money))
    se: float = field(metadata=in_text(in_digits(2)))
    lower: float = field(metadata=in_text(money))
    upper: float = field(metadata=in_text(money))
    plug_in: float
    evpi: float = field(metadata=in_text(money))
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
    share: float = field(default=float("nan"), metadata=in_text("{:.1%}".format, "of EVPI"))
    share_se: float = field(default=float("nan"), metadata=in_text("{:.1%}".format, "its se"))
    remaining: float = field(default=float("nan"), metadata=in_text(money, "EVPI - EVPPI"))
    remaining_se: float = field(default=float("nan"), metadata=in_text(in_digits(2), "its se"))
    doubtful: bool = False
    inputs: tuple[str, ...] = field(default=(), metadata=NO_COLUMN)


def inputs_of(row: EvppiRow) -> list[str]:
    """The names of the inputs of a set, which may contain commas."""
    return list(row.inputs) or row.pars.split(BETWEEN_INPUTS)


@dataclass(frozen=True, repr=False, eq=False)
class EvppiTable(MoneyTable):
    """The EVPPI of several sets of inputs. Immutable; it prints as a table.

    rows : one for each set and willingness to pay, in this order.
    level : of the intervals.
    notes : remarks on the tables of outputs and inputs, without full stops.
    population : the number of decisions that values are for; None for one. currency : of the values, if it is stated.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> found = cbq.evppi({"old": 0 * risk, "new": risk}, {"risk": risk}, ["risk"])
    >>> len(found.rows), len(found.to_frame())
    (1, 1)
    """

    rows: tuple[EvppiRow, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()
    population: float | None = None
    currency: str = ""

    _money = (
        *("evppi", "se", "lower", "upper", "plug_in", "evpi", "approximation", "evpi_se", "raw"),
        *("remaining", "remaining_se"),
    )

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
    ) -> matplotlib.figure.Figure:
        """A figure of EVPPI: bars by set, lines over the willingness to pay, or a map of pairs of inputs.

        kind : "bars", "lines" or "map"; by default what suits the table.
        most : the number of sets that are drawn, the largest ones (default: 20, or 8 lines); the others are counted.
        title, xlabel, ylabel : texts in place of those of the figure.
        """
        from cbq.voi.figures import values_figure

        return draw(values_figure(self, kind, most), ax, title=title, xlabel=xlabel, ylabel=ylabel)

    def _page(self, title: str | None, repeat: str | None) -> Page:
        from cbq.voi.pages import table_page

        return table_page(self, title, repeat)

    def _legend(self) -> str:
        first = self.rows[0]
        if len(self.prices) > 1 or not first.evpi_se > 0:
            return super()._legend()
        return f"{super()._legend()} EVPI has a standard error of {money(first.evpi_se, 2)}."


def evppi(
    outputs: Any,
    inputs: Any = None,
    pars: Any = "all",
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    level: float = 0.95,
    rng: RNGLike = 0,
    n: int | None = None,
    design: Design | None = None,
    progress: Progress = False,
) -> Any:
    """The expected value of partial perfect information (EVPPI): of learning some inputs before deciding.

    From tables of draws, the net benefits are regressed for each set on its columns by a Gaussian process, and EVPPI
    is the posterior expectation of E max_d E[NB_d | set] - max_d E NB_d. Estimates are then moved, as little as
    possible in units of their standard errors, so that none is below 0, above EVPI, or above a superset.

    Parameters
    ----------
    outputs : the net benefit of each decision, one row per draw: a table with named columns (of pandas, polars or
        pyarrow, a structured array, or a mapping), or an array (n, D), whose columns are called "0", "1", ... A single
        column is the difference from a decision with net benefit 0. Columns that are inputs, or that number the rows,
        are refused. Or the fit of an estimator: then theta is learned, `inputs` is its prior, and the result is a
        `cbq.nested.Evppi`.
    inputs : the uncertain inputs in the same rows, numbers or categories. If both are pandas objects, their row labels
        must agree.
    pars : the sets, each a list of columns of `inputs` or a single one, by name; or by position (0, 1, ...), unless the
        name of some column of `inputs` is an integer. A mapping such as {"costs": ["c1", "c2"]} names the sets. "all",
        the default, stands for each input alone, and "pairs" for all pairs, without columns that number the rows or are
        outputs. Columns that are constant, or that others of their set determine, are left out with a note.
    effects, costs, willingness_to_pay : if outputs holds effects and costs instead, the columns of both for each
        decision, and the value of one unit of effect, a number or a vector. Net benefits are
        willingness_to_pay * effect - cost. The outputs may then also be a pair of tables, (effects, costs), with a
        column for each decision.
    level : of the intervals.
    rng : a generator or a seed, for the choice of landmarks and for posterior draws, or for thetas of a fit.
    n, design, progress : for a fit, as in `cbq.nested_expectation`. pars and level are for tables.

    Returns
    -------
    A table with a row for each set and willingness to pay; see `cbq.voi.EvppiRow`. It prints and plots, and
    `to_frame()` is a pandas DataFrame.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk, price = rng.normal(size=300), rng.normal(size=300)
    >>> found = cbq.evppi({"old": 0 * risk, "new": risk}, {"risk": risk, "price": price}, ["risk", "price"])
    >>> [bool(row.evppi > 0.2) for row in found.rows]
    [True, False]
    """
    pay = {"effects": effects, "costs": costs, PRICE: willingness_to_pay}
    if callable(getattr(outputs, "predict", None)):
        if not (isinstance(pars, str) and pars == "all") or level != 0.95:
            raise TypeError("pars and level are for tables of draws, but outputs is a fit: leave them out.")
        nodes = {name: given for name, given in {"n": n, "design": design}.items() if given is not None}
        return evppi_of_fit(outputs, inputs, **pay, rng=rng, progress=progress, **nodes)  # type: ignore[arg-type]
    if n is not None or design is not None or progress is not False:
        raise TypeError("n, design and progress are for a fit, but outputs is a table of draws: leave them out.")
    level, seed = between_0_and_1(level, "level"), int(generator(rng).integers(2**62))
    described, table, (values, decisions, unit) = read_draws(outputs, inputs, pay)
    sets, notes = valued_sets(pars, described, table)
    order = row_order(values, sets, seed)
    values, sets = values[order], [each.take(order) for each in sets]
    contrasts = Contrasts.of(values, decisions)

    def value(columns: Array) -> SetValue:
        # All sets have the same seed, so that the value of a set does not depend on which others are listed.
        empty = SetValue.nothing(len(contrasts.maps), len(values))  # of constant columns
        return analyse(contrasts, columns, np.random.default_rng(seed)) if columns.shape[1] else empty

    found = in_pool(value, [each.columns for each in sets])
    rows = _rows(sets, found, (values, decisions, unit), level)
    return EvppiTable(rows, level, (*described.notes, *notes))


def in_pool(function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """The values of a function at all arguments, in threads."""
    found: dict[int, Any] = {}

    def one(i: int) -> None:
        found[i] = function(arguments[i])

    run_in_pool(one, len(arguments), min(workers(), len(arguments)))
    return [found[i] for i in range(len(arguments))]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of J values in money at K values of the willingness to pay, with EVPI, which they do not exceed.

    values, se, lower, upper : (J, K), in the order that the values must have. raw : before they were moved to have it.
    evpi, evpi_se : (K,). prices : the values of the willingness to pay. unit : of numbers in the regressions.
    """

    values: Array
    se: Array
    lower: Array
    upper: Array
    raw: Array
    evpi: Array
    evpi_se: Array
    prices: list[float | None]
    unit: float

    @classmethod
    def of(
        cls, found: Sequence[SetValue], draws: Scaled, level: float, ordered: Callable[[Array, Array, float], Array]
    ) -> Estimates:
        """From the values of the regressions.

        ordered : moves estimates (J,) of these standard errors (J,), with this EVPI, to where they have their order.
        """
        values, decisions, unit = draws
        ones = np.ones(len(values), dtype=np.intp)
        evpi, evpi_se = (unit * each for each in perfect_information(values, decisions, ones))
        raw, se = (unit * np.stack([getattr(each, name) for each in found]) for name in ("evppi", "se"))
        se = np.where(se > np.maximum(ROUNDING * evpi, ROUNDING_OF_UNIT * unit), se, 0.0)
        by_price = zip(raw.T, se.T, evpi.tolist(), strict=True)
        moved = np.stack([ordered(*each) for each in by_price], axis=1)
        z = float(ndtri(0.5 * (1.0 + level)))
        # Errors are skewed: EVPPI is convex in the regression, and the gains of rows are skewed. Approximate bootstrap
        # confidence intervals (DiCiccio and Efron 1992) shift by these terms, to first order. The expansion ends where
        # the errors are as skewed as an exponential distribution, at about half of the reach of an interval.
        third = np.stack([((z**2 - 1.0) * e.curvature + (2.0 * z**2 + 1.0) * e.skewness) / 6.0 for e in found])
        shift = unit * np.divide(third, (se / unit) ** 2, out=np.zeros_like(se), where=se > 0)
        shift = np.clip(shift, -0.5 * z * se, 0.5 * z * se)
        # No value is above EVPI, so it is not above the interval of EVPI either.
        lower, upper = np.maximum(moved + shift - z * se, 0.0), np.minimum(moved + shift + z * se, evpi + z * evpi_se)
        given = decisions.willingness_to_pay
        prices: list[float | None] = [None] if given is None else [*np.ravel(given).tolist()]
        return cls(moved, se, lower, upper, raw, evpi, evpi_se, prices, unit)

    def fields(self, j: int, k: int) -> dict[str, Any]:
        """The fields of a row that all tables have, for value j at price k."""
        own = {name: float(getattr(self, name)[j, k]) for name in ("se", "lower", "upper", "raw")}
        return own | {PRICE: self.prices[k], "evpi": float(self.evpi[k]), "evpi_se": float(self.evpi_se[k])}

    def of_evpi(self, found: SetValue, j: int, k: int) -> dict[str, float]:
        """Value j at price k as a share of EVPI, and EVPI less it, with standard errors of their own.

        The same rows make both values, so that most of their errors cancel. With the effects phi of rows on the value
        and psi on EVPI, the errors are of phi - share psi and of psi - phi. What moves the value beside is independent.
        """
        value, evpi = float(self.values[j, k]), float(self.evpi[k])
        share = value / evpi if evpi > 0 else 0.0
        linear, both = float(found.linear[k]), float(found.with_evpi[k])
        own = max((float(self.se[j, k]) / self.unit) ** 2 - linear, 0.0) if self.se[j, k] > 0 else 0.0
        perfect = (float(self.evpi_se[k]) / self.unit) ** 2

        def error(by_value: float, by_evpi: float) -> float:
            if evpi == 0:  # all else is rounding
                return 0.0
            paired = by_value**2 * linear - 2.0 * by_value * by_evpi * both + by_evpi**2 * perfect
            return self.unit * float(np.sqrt(by_value**2 * own + max(paired, 0.0)))

        share_se = error(1.0, share) / (evpi or 1.0)
        return {
            "share": share,
            "share_se": share_se,
            "remaining": max(evpi - value, 0.0),
            "remaining_se": error(1.0, 1.0),
        }

    def doubts(self, found: SetValue, j: int, k: int) -> list[str]:
        """Remarks on the residuals of the regressions behind value j at price k, unless nothing depends on them."""
        missed, unequal = found.misfit > NOTE_MISFIT, found.noise_ratio[k] > NOTE_NOISE_RATIO
        notes = []
        if missed and self.evpi[k] > 0 and 1.0 - found.r2[k] > NOTE_UNEXPLAINED:
            notes.append(
                "the residuals still vary along the inputs, which the regression has missed: evppi may be too small"
            )
        if unequal and self.upper[j, k] > NEXT_TO_NOTHING * self.evpi[k]:
            notes.append("the noise varies strongly along the inputs: se allows for it, but intervals may be too short")
        return notes

    def moved(self, j: int, k: int) -> bool:
        """Whether value j at price k was moved by a part of its standard error that is worth a note."""
        return bool(abs(self.values[j, k] - self.raw[j, k]) > NOTE_MOVED * self.se[j, k] > 0)


def _rows(sets: Sequence[ColumnSet], found: Sequence[SetValue], draws: Scaled, level: float) -> tuple[EvppiRow, ...]:
    """A row for each set and willingness to pay."""
    (values, _, unit), members = draws, [each.members for each in sets]
    known = Estimates.of(found, draws, level, lambda raw, se, evpi: monotone_estimates(raw, se, members, evpi))
    n = len(values)
    plug_in, unseen = (unit * np.stack([getattr(each, name) for each in found]) for name in ("plug_in", "unseen"))
    noise = ROUNDING_OF_UNIT * unit
    unseen = np.where(unseen > noise, unseen, 0.0)
    plug_in = np.where(plug_in > np.maximum(NEGLIGIBLE * known.evpi, noise), plug_in, 0.0)
    nothing = _explain_nothing(found, known)
    repeating = repeated_rows(values)  # a row that repeats another one repeats its outputs
    duplicates = [count_duplicates(np.column_stack([values[repeating], each.columns[repeating]])) for each in sets]
    rows = []
    for j, (learned, value) in enumerate(zip(sets, found, strict=True)):
        for k in range(len(known.prices)):
            moved = ["moved to be monotone over the sets (raw is the estimate before)"] * known.moved(j, k)
            seen = _notes_on_landmarks(known.values[j, k], known.se[j, k], unseen[j, k], known.evpi[k])
            remarks = [*learned.notes, *moved, *seen, *notes_on_dependence(value, n)]
            doubts = known.doubts(value, j, k)
            doubts += notes_on_rows(n, duplicates[j], nothing and bool(learned.columns.size))
            row = EvppiRow(
                pars=learned.label,
                evppi=float(known.values[j, k]),
                plug_in=float(plug_in[j, k]),
                n=n,
                landmarks=value.landmarks,
                approximation=float(unseen[j, k]),
                note="; ".join([*remarks, *doubts]),
                doubtful=bool(doubts),
                r2=float(value.r2[k]),
                misfit=value.misfit,
                noise_ratio=float(value.noise_ratio[k]),
                effective_n=float(value.effective_n[k]),
                inputs=learned.names,
                **known.of_evpi(value, j, k),
                **known.fields(j, k),
            )
            rows.append(row)
    return tuple(rows)


def _explain_nothing(found: Sequence[SetValue], known: Estimates) -> bool:
    """Whether no set explains anything, although EVPI is clear of 0: the rows of both tables may not match."""
    uninformative = all(each.uninformative > NOTE_UNINFORMATIVE for each in found)
    most = known.raw + NOTE_EVPI * known.se
    return uninformative and bool(
        np.any(known.evpi > NOTE_EVPI * known.evpi_se) and np.all(most < NOTE_SMALL * known.evpi)
    )


def _notes_on_landmarks(evppi: float, se: float, unseen: float, evpi: float) -> list[str]:
    """A remark on a part of an estimate that the landmarks do not represent."""
    if not (evppi > 0 and unseen > max(NOTE_UNSEEN * se, NEXT_TO_NOTHING * evpi)):
        return []
    rough = "the net benefits are rough in many columns"
    return [f"{unseen:.2g} of it is variance that the landmarks do not represent: {rough}"]


def notes_on_dependence(found: SetValue, n: int) -> list[str]:
    """A remark on n rows that are not independent, if they are not."""
    if np.min(found.effective_n) >= NOTE_EFFECTIVE * n:
        return []
    return [
        f"the rows are autocorrelated in the order of the table, as of a Markov chain, and worth about "
        f"{np.min(found.effective_n):.0f} of {n} independent rows: se allows for it, but a table that was sorted "
        f"by something else should be shuffled"
    ]


def notes_on_rows(n: int, duplicates: int, nothing: bool) -> list[str]:
    """Doubts about the n rows: whether some are repeated, and whether the rows of both tables belong together."""
    notes = []
    if duplicates:
        repeat = "row repeats another row" if duplicates == 1 else "rows repeat other rows"
        notes.append(f"{duplicates} of {n} {repeat} but count as independent draws: if they are not, se is too small")
    if nothing:
        notes.append(
            "none of the sets explains any of the net benefits, although EVPI is not 0: if they should, check that the "
            "same row of outputs and inputs is the same draw"
        )
    return notes
