"""The expected value of sample information (EVSI): of a study of some inputs, for several sizes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Integers, RNGLike, between_0_and_1, evenly, generator, is_whole, listed, shown
from cbq.linalg.threads import one_blas_thread
from cbq.nested.decisions import Name, is_list, positions
from cbq.plotting import Drawn, Figure
from cbq.report import Page, in_text
from cbq.samples import ColumnTable
from cbq.voi.analysis import Contrasts, SetValue, analyse, regress, value_of_learning, value_of_results
from cbq.voi.information import NOTE_UNINFORMATIVE, Estimates, in_pool, notes_on_dependence, notes_on_rows
from cbq.voi.money import MoneyTable, in_digits, money
from cbq.voi.outputs import PRICE, Scaled, count_duplicates, read_draws, scale_columns
from cbq.voi.sets import MIN_ROWS_PER_COLUMN, ColumnSet, increasing_estimates, informative, row_order, valued_sets
from cbq.voi.studies import Columns, Study, as_study

MAX_SIZES, MAX_SIZE = 1000, 10**9
MAX_FITS = 10  # sizes whose summaries are regressed on
MAX_EFFECT_ROWS = 4096  # from which correlations between sizes are estimated
FROM_INPUT = "all sizes from one regression on the input"
FROM_SUMMARY = "a regression on the simulated summary for each size"
FROM_SOME_SUMMARIES = f"regressions on the simulated summaries of {MAX_FITS} sizes, interpolated for the others"
INTERPOLATED = (
    "evppi",
    "plug_in",
    "regression",
    "sampling",
    "curvature",
    "skewness",
    "unseen",
    "r2",
    "noise_ratio",
    "effective_n",
)


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
    note : remarks on the estimate, or an empty string. doubtful : whether they make the estimate or se doubtful.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> study = cbq.voi.studies.Normal(sd=2.0)
    >>> row = cbq.evsi({"old": 0 * risk, "new": risk}, {"risk": risk}, "risk", study, sizes=[10]).rows[0]
    >>> row.lower <= row.evsi <= row.upper
    True
    """

    pars: str = field(metadata=in_text())
    size: int = field(metadata=in_text())
    willingness_to_pay: float | None = field(metadata=in_text("{:g}".format))
    evsi: float = field(metadata=in_text(money))
    se: float = field(metadata=in_text(in_digits(2)))
    lower: float = field(metadata=in_text(money))
    upper: float = field(metadata=in_text(money))
    evppi: float = field(metadata=in_text(money))
    evppi_se: float
    evpi: float = field(metadata=in_text(money))
    evpi_se: float
    participants: float
    n: int
    raw: float
    r2: float = float("nan")
    misfit: float = float("nan")
    note: str = ""
    doubtful: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class EvsiTable(MoneyTable, Drawn):
    """The EVSI of a study for several sizes. Immutable; it prints as a table.

    rows : one for each size and willingness to pay, in this order.
    level : of the intervals.
    covariance : (K, J, J), of the estimates of J sizes, for each of K values of the willingness to pay.
    notes : remarks on the study and the tables, without full stops.
    population : the number of decisions that values are for; None for one. currency : of the values, if it is stated.

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
    currency: str = ""

    _money = ("evsi", "se", "lower", "upper", "evppi", "evppi_se", "evpi", "evpi_se", "raw")

    @property
    def sizes(self) -> list[int]:
        """The sizes of the study, in increasing order."""
        return sorted({row.size for row in self.rows})

    def for_population(self, population: float) -> EvsiTable:
        """The same for this many decisions instead of one, as `cbq.voi.population` counts them."""
        found = super().for_population(population)
        covariance = population * (population * self.covariance)
        covariance.setflags(write=False)
        return replace(found, covariance=covariance)

    def _figure(self) -> Figure:
        """EVSI over the size of the study, with bands, and EVPPI, which it does not exceed, as a line."""
        from cbq.voi.figures import evsi_figure

        return evsi_figure(self)

    def _page(self, title: str | None, repeat: str | None) -> Page:
        from cbq.voi.pages import study_page

        return study_page(self, None, title, repeat)


def evsi(
    outputs: Any,
    inputs: Any,
    pars: Any,
    study: Any,
    sizes: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    level: float = 0.95,
    rng: RNGLike = 0,
) -> EvsiTable:
    """The expected value of sample information (EVSI) of a study of some inputs, for each of several sizes of it.

    EVSI(n) = E max_d E[NB_d | results of n participants] - max_d E NB_d. For a normal mean with known standard
    deviation, a binomial or a Poisson count of one input, it follows for all sizes from one regression of the net
    benefits on the input. Otherwise, the results are simulated for each row, and the net benefits are regressed on
    their summary for each size. Estimates are then moved, as little as possible in units of their standard errors, so
    that 0 <= EVSI(n) <= EVSI(n + 1) <= EVPPI <= EVPI.

    Parameters
    ----------
    outputs, inputs : as in `cbq.evppi`.
    pars : the inputs that the study is about: a column of `inputs`, or a list of them, which is one set.
    study : its observations; see `cbq.voi.studies`. "binomial", "poisson", `studies.Normal(sd=2.0)`,
        `studies.Survival(follow_up=5.0)`, `studies.Trial([...])`, or a function simulate(row, n, rng) that returns a
        summary (q,). With several inputs, each has a group of participants of its own.
    sizes : the numbers of participants (of each group), such as [20, 50, 100].
    effects, costs, willingness_to_pay : as in `cbq.evppi`.
    level : of the intervals.
    rng : a generator or a seed, for the results of the study, landmarks and posterior draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> response = rng.beta(8, 4, 500)
    >>> net_benefits = {"old": 0 * response, "new": 1000 * (response - 0.65) + rng.normal(0, 50, 500)}
    >>> found = cbq.evsi(net_benefits, {"response": response}, "response", study="binomial", sizes=[10, 100])
    >>> small, large = found.rows
    >>> 0 < small.evsi < large.evsi < large.evppi
    True
    """
    level, seed = between_0_and_1(level, "level"), int(generator(rng).integers(2**62))
    kind, numbers = as_study(study), _sizes(sizes)
    pay = {"effects": effects, "costs": costs, PRICE: willingness_to_pay}
    described, table, (values, decisions, unit) = read_draws(outputs, inputs, pay)
    names, columns = _names(pars, table), study_columns(pars, kind, table)
    (learned,), _ = valued_sets([[*columns]], described, table)
    order = row_order(values, [learned], seed)
    values, learned = values[order], learned.take(order)
    columns = {name: each[order] for name, each in columns.items()}
    found = _values(Contrasts.of(values, decisions), learned.columns, columns, kind, numbers, seed)
    learned = replace(learned, label=", ".join(names))
    participants = [number_of_participants(columns, kind, size) for size in numbers]
    rows, covariance = _rows(learned, numbers, participants, found, (values, decisions, unit), level)
    return EvsiTable(rows, level, covariance, _notes(kind, found, described.notes))


@dataclass(frozen=True, eq=False)
class _Values:
    """The values of a study for each size, the value of learning its inputs, and how they were found."""

    sizes: list[SetValue]
    inputs: SetValue
    method: str


def _values(
    contrasts: Contrasts, known: Array, columns: dict[str, Array], study: Study, sizes: Sequence[int], seed: int
) -> _Values:
    """The values of all sizes. known : (n, p), the informative columns of the inputs of the study."""
    nothing, rows = SetValue.nothing(len(contrasts.maps), len(known)), evenly(len(known), MAX_EFFECT_ROWS)
    if not known.shape[1]:  # constant inputs
        return _Values([nothing] * len(sizes), nothing, FROM_INPUT)
    (theta, *more) = columns.values()
    if not more and study.result_probabilities(theta[:1], sizes[0]) is not None:
        return _values_from_input(contrasts, known, theta, study, sizes, seed, rows)
    fitted = fitted_sizes(sizes)
    summaries = study.summaries(columns, fitted, np.random.default_rng([seed, 1]))
    given = [_informative_columns(each, size) for each, size in zip(summaries, fitted, strict=True)]

    inputs = analyse(contrasts, known, np.random.default_rng(seed), rows)

    def value(learned: Array) -> SetValue:
        # If the net benefits depend on the inputs, they depend on the results of every study of them, however weakly.
        random = np.random.default_rng(seed)
        return analyse(contrasts, learned, random, rows, inputs.uninformative) if learned.shape[1] else nothing

    found = in_pool(value, given)
    method = FROM_SUMMARY if len(fitted) == len(sizes) else FROM_SOME_SUMMARIES
    return _Values(between_sizes(fitted, found, sizes), inputs, method)


def _values_from_input(
    contrasts: Contrasts, known: Array, theta: Array, study: Study, sizes: Sequence[int], seed: int, rows: Integers
) -> _Values:
    """The values of all sizes from one regression on the input theta (n,)."""
    random = np.random.default_rng(seed)
    with one_blas_thread():
        found = regress(contrasts, known, random)
        if found is None:
            nothing = SetValue.nothing(len(contrasts.maps), len(theta))
            return _Values([nothing] * len(sizes), nothing, FROM_INPUT)
        inputs = value_of_learning(found, random, rows)
        at_sites, values = found.sites.means(theta[:, None])[:, 0], []
        for size in sizes:
            probabilities = study.result_probabilities(at_sites, size)
            assert probabilities is not None
            value = value_of_results(found, probabilities, np.random.default_rng(seed), rows)
            values.append(replace(value, misfit=inputs.misfit))
    return _Values(values, inputs, FROM_INPUT)


def _rows(
    learned: ColumnSet, sizes: Sequence[int], participants: Sequence[float], found: _Values, draws: Scaled, level: float
) -> tuple[tuple[EvsiRow, ...], Array]:
    """A row for each of J sizes and K values of the willingness to pay, and covariances (K, J, J)."""
    n, J = len(draws[0]), len(sizes)
    known = Estimates.of([*found.sizes, found.inputs], draws, level, increasing_estimates)
    duplicates = count_duplicates(np.column_stack([draws[0], learned.columns]))
    rows = []
    for j, value in enumerate(found.sizes):
        for k in range(len(known.prices)):
            moved = ["moved to grow with the size (raw is the estimate before)"] * known.moved(j, k)
            doubts = [*known.doubts(value, j, k), *notes_on_rows(n, duplicates, False)]
            row = EvsiRow(
                pars=learned.label,
                size=sizes[j],
                evsi=float(known.values[j, k]),
                evppi=float(known.values[J, k]),
                evppi_se=float(known.se[J, k]),
                participants=participants[j],
                n=n,
                r2=float(value.r2[k]),
                misfit=value.misfit,
                note="; ".join([*learned.notes, *moved, *notes_on_dependence(value, n), *doubts]),
                doubtful=bool(doubts),
                **known.fields(j, k),
            )
            rows.append(row)
    return tuple(rows), _covariances(found.sizes, known.se[:J])


def _covariances(found: Sequence[SetValue], se: Array) -> Array:
    """The covariances (K, J, J) of the estimates of J sizes, from standard errors (J, K) and the effects of rows."""
    J, K = se.shape
    covariance = np.zeros((K, J, J))
    rows = max((0 if each.effects is None else len(each.effects)) for each in found)
    for k in range(K):
        effects = np.zeros((rows, J))
        for j, each in enumerate(found):
            if each.effects is not None:
                effects[:, j] = each.effects[:, k]
        products = effects.T @ effects
        sizes = np.sqrt(np.diag(products))
        correlation = np.divide(products, np.outer(sizes, sizes), out=np.eye(J), where=np.outer(sizes, sizes) > 0)
        np.fill_diagonal(correlation, 1.0)
        covariance[k] = se[:, k, None] * correlation * se[:, k]
    covariance.setflags(write=False)
    return covariance


def _notes(study: Study, found: _Values, notes: Sequence[str]) -> tuple[str, ...]:
    """Remarks for a reader on how all sizes were found."""
    unrelated = found.inputs.uninformative > NOTE_UNINFORMATIVE
    nothing = ("The inputs of the study may tell nothing about the net benefits",) if unrelated else ()
    return (*notes, f"Study: {shown(study)}, {found.method}", *nothing)


def _sizes(sizes: Any) -> list[int]:
    """Numbers of participants, in increasing order and each once."""
    given = [sizes] if is_whole(sizes) else sizes
    if not is_list(given) or not len(given) or len(given) > MAX_SIZES:
        raise ValueError(
            f"sizes must be a list of 1 to {MAX_SIZES} numbers of participants, such as [20, 50, 100], but it "
            f"is {shown(sizes)}."
        )
    for each in given:
        if not is_whole(each, 1, MAX_SIZE):
            raise ValueError(f"sizes must be whole numbers from 1 to {MAX_SIZE}, but one is {shown(each)}.")
    return sorted({int(each) for each in given})


def _names(pars: Any, inputs: ColumnTable, what: str = "pars") -> list[str]:
    """The names of the inputs that the study is about, which are one set."""
    several = [pars] if isinstance(pars, str | int | np.integer) and not isinstance(pars, bool) else pars
    if is_list(several) and len(several) == 1 and is_list(several[0]):
        several = several[0]
    if not is_list(several) or not len(several):
        raise TypeError(f"{what} must be the name of a column of inputs, or a list of names, but it is {shown(pars)}.")
    return [inputs.names[i] for i in positions(several, inputs.names, what)]


def number_of_participants(columns: Columns, study: Study, size: int) -> float:
    """The number of participants of a study of this size, of these columns."""
    return study.participants(size, len([name for name in columns if name not in study.further_inputs]))


def study_columns(pars: Any, study: Study, inputs: ColumnTable, what: str = "pars") -> dict[str, Array]:
    """The inputs (n,) that the study is about, and the further inputs that it depends on."""
    names = _names(pars, inputs, what)
    unknown = [name for name in study.further_inputs if name not in inputs.names]
    if unknown:
        raise ValueError(f"study needs {listed(unknown)}, which is no column of inputs: {listed(inputs.names)}.")
    every = dict.fromkeys([*names, *study.further_inputs])
    columns = {name: inputs.matrix([inputs.names.index(name)])[:, 0] for name in every}
    study.check(columns)
    return columns


def _informative_columns(summary: Array, size: int) -> Array:
    """The columns of a summary (n, q) that vary and that others do not determine, in units near 1."""
    columns = scale_columns(summary)[0]
    kept, _ = informative(columns, [""] * columns.shape[1])
    if len(columns) < MIN_ROWS_PER_COLUMN * (len(kept) + 1):
        raise ValueError(
            f"a regression on the {len(kept)} numbers that study= returns for {size} participants needs at "
            f"least {MIN_ROWS_PER_COLUMN * (len(kept) + 1)} rows, but there are {len(columns)}: return fewer."
        )
    return columns[:, kept]


def fitted_sizes(sizes: Sequence[int]) -> list[int]:
    """All of the sizes, in increasing order, if they are few; otherwise some, with about equal ratios."""
    if len(sizes) <= MAX_FITS:
        return list(sizes)
    logs, found = np.log(sizes), [0, len(sizes) - 1]
    while len(found) < MAX_FITS:  # the one that is farthest from those chosen
        gaps = np.min(np.abs(logs[:, None] - logs[found]), axis=1)
        found.append(int(np.argmax(gaps)))
    return [sizes[i] for i in sorted(found)]


def between_sizes(fitted: Sequence[int], values: Sequence[SetValue], sizes: Sequence[int]) -> list[SetValue]:
    """The values of all sizes, from the values of fitted sizes: monotone cubic interpolation over log size.

    A size that was fitted keeps its value.
    """
    if len(fitted) == len(sizes):
        return list(values)
    from scipy.interpolate import PchipInterpolator  # slow to import

    x, at = np.log(fitted), np.log(sizes)
    fields = {
        name: PchipInterpolator(x, np.stack([getattr(each, name) for each in values]))(at) for name in INTERPOLATED
    }
    found = []
    for i, size in enumerate(sizes):
        j = int(np.clip(np.searchsorted(fitted, size) - 1, 0, len(fitted) - 2))
        share = float((at[i] - x[j]) / (x[j + 1] - x[j]))
        nearer = values[j + round(share)]
        here: dict[str, Any] = {name: np.asarray(column[i]) for name, column in fields.items()}
        found.append(replace(nearer, **here, effects=_mixed(values[j], values[j + 1], share)))
    return found


def _mixed(left: SetValue, right: SetValue, share: float) -> Array | None:
    """The effects of rows (R, K) at this share of the way from one size to the next."""
    if left.effects is None or right.effects is None:
        return left.effects if right.effects is None else right.effects
    return np.asarray((1.0 - share) * left.effects + share * right.effects)
