"""The expected value of perfect and of partial perfect information, from the table of a PSA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common.arrays import Array
from cbq.common.checks import between_0_and_1, generator
from cbq.common.tables import aligned, data_frame, short
from cbq.fit.labels import with_labels
from cbq.linalg.threads import run_in_pool, workers
from cbq.nested.answer import number_or_array
from cbq.nested.decisions import Decisions, Name, make_decisions
from cbq.samples import Samples
from cbq.voi import tables
from cbq.voi.analysis import Contrasts, SetValue, analyse
from cbq.voi.diagnostics import autocorrelation_times, is_sorted
from cbq.voi.ordering import ROUNDING, monotone_estimates
from cbq.voi.outputs import check_not_inputs, not_inputs, read_outputs
from cbq.voi.populations import multiplier
from cbq.voi.result import EvppiRow, EvppiTable
from cbq.voi.sets import ColumnSet, column_sets
from cbq.voi.shown import ShownAsTable, some_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEGLIGIBLE = 1e-9  # of EVPI: a plug-in below is what rounding leaves of 0
# A note is written beyond these.
NOTE_MOVED = 0.1  # standard errors by which an estimate was moved to be monotone over the sets
NOTE_UNSEEN = (0.1, 1e-3)  # the part of an estimate that landmarks do not represent, of its standard error and of EVPI
NOTE_MISFIT = 6.0  # the structure left in residuals
NOTE_NOISE_RATIO = 1.5
NOTE_EFFECTIVE = 0.9  # of the rows
NOTE_UNINFORMATIVE = 0.05  # the probability of each set that it tells nothing
NOTE_SMALL, NOTE_EVPI = 0.1, 3.0  # of EVPI that each set is worth at most; standard errors within which this is certain


@dataclass(frozen=True, eq=False, repr=False)
class Evpi(ShownAsTable):
    """E max_d NB_d - max_d E NB_d with its standard error: numbers, or (K,) for a vector of willingness to pay.

    Immutable: arrays are read-only.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> low, high = cbq.evpi(rng.normal(size=(400, 2))).interval()
    >>> bool(low < high)
    True
    """

    estimate: float | Array
    std: float | Array
    willingness_to_pay: float | Array | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if (given := getattr(self, field.name)) is not None:
                object.__setattr__(self, field.name, number_or_array(given))

    def interval(self, level: float = 0.95) -> tuple[float | Array, float | Array]:
        """The ends of the normal interval of this level, at least 0."""
        z = float(ndtri(0.5 * (1.0 + between_0_and_1(level, "level"))))
        low, high = np.maximum(self.estimate - z * self.std, 0.0), self.estimate + z * self.std
        return (low, high) if np.ndim(high) else (float(low), float(high))

    def columns(self, level: float = 0.95) -> dict[str, list[float]]:
        """The columns of `to_frame`."""
        low, high = self.interval(level)
        priced = {} if self.willingness_to_pay is None else {"willingness_to_pay": self.willingness_to_pay}
        found = priced | {"evpi": self.estimate, "se": self.std, "lower": low, "upper": high}
        return {name: np.ravel(values).tolist() for name, values in found.items()}

    def to_frame(self, level: float = 0.95) -> Any:
        """A pandas DataFrame with a row for each willingness to pay, and intervals of this level."""
        return data_frame(self.columns(level))

    def plot(
        self,
        ax: Any = None,
        *,
        level: float = 0.95,
        title: str | None = None,
        xlabel: str | None = None,
        ylabel: str | None = None,
    ) -> Figure:
        """EVPI over the willingness to pay, with a band of this level.

        title, xlabel, ylabel : texts in place of those of the figure.
        """
        from cbq.voi.curves import plot_evpi

        if self.willingness_to_pay is None:
            raise ValueError(
                "EVPI of net benefits is one number, which has no figure: pass effects, costs and several values of "
                "willingness_to_pay to cbq.evpi."
            )
        figure = plot_evpi(self, ax, between_0_and_1(level, "level"))
        return with_labels(figure, ax, title, xlabel, ylabel)

    def to_text(self, level: float = 0.95) -> str:
        """A table in plain text, with intervals of this level; that of some values of a long vector."""
        lines, notes = self._cells(level)
        return aligned(lines, left=0, notes=notes)

    def _cells(self, level: float = 0.95) -> tuple[list[list[str]], list[str]]:
        columns = self.columns(level)
        shown, rest = some_rows(len(columns["evpi"]))
        rows = [[short(column[k], 5) for column in columns.values()] for k in shown]
        header = [name.replace("_", " ") for name in columns]
        return [header, *rows], [f"Intervals of {100 * level:.4g}%.", *rest]

    def for_population(self, population: float) -> Evpi:
        """The same for this many decisions instead of one, as `cbq.voi.population` counts them."""
        factor = multiplier(population)
        return replace(self, estimate=factor * self.estimate, std=factor * self.std)


def evpi(
    outputs: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
) -> Evpi:
    """The expected value of perfect information: of learning all uncertain inputs before deciding.

    Parameters
    ----------
    outputs : the net benefit of each decision, one row per draw: a table with named columns (of pandas, polars or
        pyarrow, or a mapping) or an array (n, D); or cbq.Samples with C outputs, whose thetas are the independent
        draws. A single column is the difference from a decision with net benefit 0.
    effects, costs, willingness_to_pay : if outputs holds effects and costs instead, the columns of both for each
        decision, and the value of one unit of effect, a number or a vector. The outputs may then also be a pair of
        tables, (effects, costs), with a column for each decision.

    Examples
    --------
    >>> net_benefits = np.array([[0.0, 1.0], [0.0, -2.0]] * 50)
    >>> cbq.evpi(net_benefits).estimate
    0.5
    """
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    if isinstance(outputs, Samples):
        if outputs.stochastic or outputs.log_weights is not None:
            what = "random values of f" if outputs.stochastic else "points from a proposal"
            raise ValueError(f"EVPI is an average over draws of the model itself, but these samples have {what}.")
        values, groups = outputs.table.reshape(int(np.sum(outputs.counts)), -1), np.asarray(outputs.counts)
        decisions = make_decisions(values.shape[1], **options)  # type: ignore[arg-type]
    else:
        described = read_outputs(outputs, options)
        decisions, values = described.decisions, described.values
        groups = np.ones(len(values), dtype=np.intp)
    if len(groups) < 2:
        raise ValueError(
            f"the standard error of EVPI needs at least 2 independent draws, but outputs has {len(groups)}: draw more."
        )
    values, decisions, unit = tables.scale_net_benefits(values, decisions)
    independent = isinstance(outputs, Samples) or is_sorted(values)
    estimate, std = (unit * found for found in perfect_information(values, decisions, groups, independent))
    if not decisions.several:
        estimate, std = estimate[0], std[0]
    return Evpi(estimate, std, decisions.willingness_to_pay)


def evppi_table(
    outputs: Any,
    inputs: Any,
    pars: Any = "all",
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    level: float = 0.95,
    rng: np.random.Generator | int = 0,
) -> Any:
    """The expected value of partial perfect information (EVPPI) of sets of inputs, as a pandas DataFrame.

    For each set, the net benefits are regressed on its columns by a Gaussian process, and EVPPI is the posterior
    expectation of E max_d E[NB_d | set] - max_d E NB_d. Estimates are then moved, as little as possible in units of
    their standard errors, so that none is below 0, above EVPI, or above that of a superset.

    Parameters
    ----------
    outputs : the net benefit of each decision, one row per draw: a table with named columns (of pandas, polars or
        pyarrow, a structured array, or a mapping), or an array (n, D), whose columns are called "0", "1", ... A single
        column is the difference from a decision with net benefit 0. Columns that are inputs, or that number the rows,
        are refused.
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
    rng : a generator or a seed, for the choice of landmarks and for posterior draws.

    Returns
    -------
    A row for each set and willingness to pay, with the columns pars, willingness_to_pay (if given), evppi, se, lower,
    upper, plug_in, evpi, n, landmarks, approximation, evpi_se, raw, r2, misfit, noise_ratio, effective_n and note; see
    `cbq.voi.EvppiRow`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk, price = rng.normal(size=300), rng.normal(size=300)
    >>> table = cbq.evppi_table({"old": 0 * risk, "new": risk}, {"risk": risk, "price": price}, ["risk", "price"])
    >>> [bool(value > 0.2) for value in table["evppi"]]
    [True, False]
    """
    return values_of_information(
        outputs, inputs, pars, effects=effects, costs=costs, willingness_to_pay=willingness_to_pay, level=level, rng=rng
    ).to_frame()


def values_of_information(
    outputs: Any,
    inputs: Any,
    pars: Any = "all",
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    level: float = 0.95,
    rng: np.random.Generator | int = 0,
) -> EvppiTable:
    """The same as `evppi_table`, as an immutable result that prints, plots and needs no pandas.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> found = cbq.voi.values_of_information({"old": 0 * risk, "new": risk}, {"risk": risk}, ["risk"])
    >>> found.rows[0].pars
    'risk'
    """
    level, seed = between_0_and_1(level, "level"), int(generator(rng).integers(2**62))
    input_table = tables.ColumnTable.of(inputs, "inputs")
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    described = read_outputs(outputs, options)
    tables.check_same_rows(described.table, input_table)
    values, decisions, unit = tables.scale_net_benefits(described.values, described.decisions)
    sets, notes = column_sets(pars, input_table, not_inputs(described.table, input_table, described.used))
    check_not_inputs(described, input_table, (i for each in sets for i in each.members))
    if any(map(is_sorted, [values, *(each.columns for each in sets)])):  # not the order of a Markov chain
        order = np.random.default_rng(seed).permutation(len(values))
        values, sets = values[order], [replace(each, columns=each.columns[order]) for each in sets]
    contrasts = Contrasts.of(values, decisions)
    found: dict[int, SetValue] = {}

    def one(j: int) -> None:
        # All sets have the same seed, so that the value of a set does not depend on which others are listed.
        columns = sets[j].columns
        empty = SetValue.nothing(len(contrasts.maps), len(values))  # of constant columns
        found[j] = analyse(contrasts, columns, np.random.default_rng(seed)) if columns.shape[1] else empty

    run_in_pool(one, len(sets), min(workers(), len(sets)))
    rows = _rows(sets, [found[j] for j in range(len(sets))], values, decisions, unit, level)
    return EvppiTable(rows, level, (*described.notes, *notes))


def perfect_information(
    values: Array, decisions: Decisions, groups: npt.NDArray[np.intp], independent: bool = False
) -> tuple[Array, Array]:
    """EVPI and its standard error, (K,) each, from outputs (rows, C) in groups of these sizes.

    All groups have the same weight, whatever their size. Unless they are independent, the standard error allows for
    the autocorrelation of groups in their order.
    """
    starts = np.concatenate([[0], np.cumsum(groups)[:-1]])
    found = []
    for weights in decisions.weights:
        benefits = values @ (weights - weights[:1]).T  # less that of the first decision, which leaves EVPI unchanged
        means = np.mean(np.add.reduceat(benefits, starts) / groups[:, None], axis=0)
        gain = np.max(benefits, axis=1) - benefits[:, int(np.argmax(means))]
        each = np.add.reduceat(gain, starts) / groups
        time = 1.0 if independent else float(autocorrelation_times(each[:, None])[0])
        found.append((np.mean(each), np.std(each, ddof=1) * np.sqrt(time / len(groups))))
    estimate, std = np.array(found).T
    return estimate, std


def _rows(
    sets: Sequence[ColumnSet],
    found: Sequence[SetValue],
    values: Array,
    decisions: Decisions,
    unit: float,
    level: float,
) -> tuple[EvppiRow, ...]:
    """A row for each of J sets and K values of the willingness to pay, from outputs (n, C) in this unit."""
    n = len(values)
    perfect, perfect_se = (unit * x for x in perfect_information(values, decisions, np.ones(n, dtype=np.intp)))  # (K,)
    names = ("evppi", "se", "plug_in", "unseen")
    raw, se, plug_in, unseen = (unit * np.stack([getattr(each, name) for each in found]) for name in names)  # (J, K)
    nothing = all(each.uninformative > NOTE_UNINFORMATIVE for each in found) and bool(
        np.any(perfect > NOTE_EVPI * perfect_se) and np.all(raw + NOTE_EVPI * se < NOTE_SMALL * perfect)
    )
    noise = 1e-13 * unit  # about what rounding leaves of net benefits
    unseen = np.where(unseen > noise, unseen, 0.0)
    se = np.where(se > np.maximum(ROUNDING * perfect, noise), se, 0.0)
    plug_in = np.where(plug_in > np.maximum(NEGLIGIBLE * perfect, noise), plug_in, 0.0)
    members = [each.members for each in sets]
    by_threshold = zip(raw.T, se.T, perfect.tolist(), strict=True)
    evppi = np.stack([monotone_estimates(each, errors, members, evpi) for each, errors, evpi in by_threshold], axis=1)
    z = float(ndtri(0.5 * (1.0 + level)))
    reach = z * se
    most = perfect + z * perfect_se  # EVPPI is at most EVPI, so it is not above the interval of EVPI either
    thresholds = [None] if decisions.willingness_to_pay is None else np.ravel(decisions.willingness_to_pay).tolist()
    duplicates = [tables.count_duplicates(np.column_stack([values, each.columns])) for each in sets]
    return tuple(
        EvppiRow(
            pars=sets[j].label,
            willingness_to_pay=threshold,
            evppi=float(evppi[j, k]),
            se=float(se[j, k]),
            lower=max(float(evppi[j, k] - reach[j, k]), 0.0),
            upper=float(min(evppi[j, k] + reach[j, k], most[k])),
            plug_in=float(plug_in[j, k]),
            evpi=float(perfect[k]),
            n=n,
            landmarks=found[j].landmarks,
            approximation=float(unseen[j, k]),
            note="; ".join(
                [
                    *sets[j].notes,
                    *_notes_on_estimate(evppi[j, k], raw[j, k], se[j, k], unseen[j, k], perfect[k]),
                    *notes_on_regression(found[j], k),
                    *notes_on_rows(found[j], n, duplicates[j], nothing and bool(sets[j].columns.size)),
                ]
            ),
            evpi_se=float(perfect_se[k]),
            raw=float(raw[j, k]),
            r2=float(found[j].r2[k]),
            misfit=found[j].misfit,
            noise_ratio=float(found[j].noise_ratio[k]),
            effective_n=float(found[j].effective_n[k]),
            inputs=sets[j].names,
        )
        for j in range(len(sets))
        for k, threshold in enumerate(thresholds)
    )


def _notes_on_estimate(evppi: float, raw: float, se: float, unseen: float, evpi: float) -> list[str]:
    """Remarks on an estimate: whether it was moved, and what of it the landmarks do not represent."""
    notes = []
    if abs(evppi - raw) > NOTE_MOVED * se > 0:
        notes.append("moved to be monotone over the sets (raw is the estimate before)")
    if evppi > 0 and unseen > max(NOTE_UNSEEN[0] * se, NOTE_UNSEEN[1] * evpi):
        notes.append(
            f"{unseen:.2g} of it is variance that the landmarks do not represent: the net benefits are rough in many "
            f"columns"
        )
    return notes


def notes_on_regression(found: SetValue, k: int) -> list[str]:
    """Remarks on the residuals of the regressions on a set, at the k-th willingness to pay."""
    notes = []
    if found.misfit > NOTE_MISFIT:
        notes.append(
            "the residuals still vary along the inputs, which the regression has missed: evppi may be too small"
        )
    if found.noise_ratio[k] > NOTE_NOISE_RATIO and found.evppi[k] > 0:
        notes.append("the noise varies strongly along the inputs: se allows for it, but intervals may be too short")
    return notes


def notes_on_rows(found: SetValue, n: int, duplicates: int, nothing: bool) -> list[str]:
    """Remarks on the n rows: whether they are independent, and whether those of both tables belong together."""
    notes = []
    if np.min(found.effective_n) < NOTE_EFFECTIVE * n:
        notes.append(
            f"the rows are autocorrelated in the order of the table, as of a Markov chain, and worth about "
            f"{np.min(found.effective_n):.0f} of {n} independent rows: se allows for it, but a table that was sorted "
            f"by something else should be shuffled"
        )
    if duplicates:
        repeat = "row repeats another row" if duplicates == 1 else "rows repeat other rows"
        notes.append(f"{duplicates} of {n} {repeat} but count as independent draws: if they are not, se is too small")
    if nothing:
        notes.append(
            "none of the sets explains any of the net benefits, although EVPI is not 0: if they should, check that the "
            "same row of outputs and inputs is the same draw"
        )
    return notes
