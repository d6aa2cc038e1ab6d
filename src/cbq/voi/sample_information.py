"""The expected value of sample information (EVSI): of a study of some inputs, for several sizes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common.arrays import Array, Integers, evenly
from cbq.common.checks import between_0_and_1, generator, is_whole, listed, shown
from cbq.linalg.threads import one_blas_thread, run_in_pool, workers
from cbq.nested.decisions import Decisions, Name, is_list, positions
from cbq.voi import tables
from cbq.voi.analysis import Contrasts, SetValue, analyse, regress, value_of_learning
from cbq.voi.diagnostics import is_sorted
from cbq.voi.fitted_sizes import MAX_FITS, between_sizes, fitted_sizes
from cbq.voi.information import NOTE_MOVED, NOTE_UNINFORMATIVE, notes_on_regression, notes_on_rows, perfect_information
from cbq.voi.ordering import ROUNDING, increasing_estimates
from cbq.voi.outputs import check_not_inputs, read_outputs
from cbq.voi.preposterior import value_of_results
from cbq.voi.sample_result import EvsiRow, EvsiTable
from cbq.voi.sets import MIN_ROWS_PER_COLUMN, ColumnSet, column_sets, informative
from cbq.voi.studies import Study, as_study

MAX_SIZES, MAX_SIZE = 1000, 10**9
MAX_EFFECT_ROWS = 4096  # from which correlations between sizes are estimated
FROM_INPUT = "all sizes from one regression on the input"
FROM_SUMMARY = "a regression on the simulated summary for each size"
FROM_SOME_SUMMARIES = f"regressions on the simulated summaries of {MAX_FITS} sizes, interpolated for the others"


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
    rng: np.random.Generator | int = 0,
) -> EvsiTable:
    """The expected value of sample information (EVSI) of a study of some inputs, for each of several sizes of it.

    EVSI(n) = E max_d E[NB_d | results of n participants] - max_d E NB_d. For a normal mean with known standard
    deviation, a binomial or a Poisson count of one input, it follows for all sizes from one regression of the net
    benefits on the input. Otherwise, the results are simulated for each row, and the net benefits are regressed on
    their summary for each size. Estimates are then moved, as little as possible in units of their standard errors, so
    that 0 <= EVSI(n) <= EVSI(n + 1) <= EVPPI <= EVPI.

    Parameters
    ----------
    outputs, inputs : as in `evppi_table`.
    pars : the inputs that the study is about: a column of `inputs`, or a list of them, which is one set.
    study : what it would observe; see `cbq.voi.studies`. "binomial", "poisson", `studies.Normal(sd=2.0)`,
        `studies.Survival(follow_up=5.0)`, `studies.Trial([...])`, or a function simulate(row, n, rng) that returns a
        summary (q,). With several inputs, each has a group of participants of its own.
    sizes : the numbers of participants (of each group), such as [20, 50, 100].
    effects, costs, willingness_to_pay : as in `evppi_table`.
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
    input_table = tables.ColumnTable.of(inputs, "inputs")
    described = read_outputs(outputs, {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay})
    tables.check_same_rows(described.table, input_table)
    names = _names(pars, input_table)
    columns = _columns(kind, names, input_table)
    (learned,), _ = column_sets([[*columns]], input_table)
    check_not_inputs(described, input_table, learned.members)
    values, decisions, unit = tables.scale_net_benefits(described.values, described.decisions)
    if is_sorted(values) or is_sorted(learned.columns):  # not the order of a Markov chain
        order = np.random.default_rng(seed).permutation(len(values))
        values, learned = values[order], replace(learned, columns=learned.columns[order])
        columns = {name: each[order] for name, each in columns.items()}
    found = _Values.of(Contrasts.of(values, decisions), learned, columns, kind, numbers, seed)
    learned = replace(learned, label=", ".join(names))
    participants = [
        kind.participants(size, len([name for name in names if name not in kind.further_inputs])) for size in numbers
    ]
    rows, covariance = _rows(learned, numbers, participants, found, values, decisions, unit, level)
    return EvsiTable(rows, level, covariance, _notes(kind, found, described.notes))


@dataclass(frozen=True, eq=False)
class _Values:
    """The values of a study for each size, that of learning its inputs, and how they were found."""

    sizes: list[SetValue]
    inputs: SetValue
    method: str

    @classmethod
    def of(
        cls,
        contrasts: Contrasts,
        learned: ColumnSet,
        columns: dict[str, Array],
        study: Study,
        sizes: Sequence[int],
        seed: int,
    ) -> _Values:
        n = len(contrasts.y)
        nothing = SetValue.nothing(len(contrasts.maps), n)
        if not learned.columns.shape[1]:  # of constant columns
            return cls([nothing] * len(sizes), nothing, FROM_INPUT)
        rows = evenly(n, MAX_EFFECT_ROWS)
        (theta, *more) = columns.values()
        if not more and study.result_probabilities(theta[:1], sizes[0]) is not None:
            return cls._from_input(contrasts, learned, theta, study, sizes, seed, rows)
        fitted = fitted_sizes(sizes)
        summaries = [*study.summaries(columns, fitted, np.random.default_rng([seed, 1]))]
        found: dict[int, SetValue] = {}

        def one(j: int) -> None:
            given = learned.columns if j == len(fitted) else _informative_columns(summaries[j], fitted[j])
            random = np.random.default_rng(seed)
            found[j] = analyse(contrasts, given, random, rows) if given.shape[1] else nothing

        run_in_pool(one, len(fitted) + 1, min(workers(), len(fitted) + 1))
        several = between_sizes(fitted, [found[j] for j in range(len(fitted))], sizes)
        return cls(several, found[len(fitted)], FROM_SUMMARY if len(fitted) == len(sizes) else FROM_SOME_SUMMARIES)

    @classmethod
    def _from_input(
        cls,
        contrasts: Contrasts,
        learned: ColumnSet,
        theta: Array,
        study: Study,
        sizes: Sequence[int],
        seed: int,
        rows: Integers,
    ) -> _Values:
        """From one regression on the input theta (n,)."""
        random = np.random.default_rng(seed)
        with one_blas_thread():
            regressions = regress(contrasts, learned.columns, random)
            if regressions is None:
                nothing = SetValue.nothing(len(contrasts.maps), len(theta))
                return cls([nothing] * len(sizes), nothing, FROM_INPUT)
            inputs = value_of_learning(regressions, random, rows)
            at_sites = regressions.sites.means(theta[:, None])[:, 0]
            found = []
            for size in sizes:
                probabilities = study.result_probabilities(at_sites, size)
                assert probabilities is not None
                value = value_of_results(regressions, probabilities, np.random.default_rng(seed), rows)
                found.append(replace(value, misfit=inputs.misfit))
        return cls(found, inputs, FROM_INPUT)


def _rows(
    learned: ColumnSet,
    sizes: Sequence[int],
    participants: Sequence[float],
    found: _Values,
    values: Array,
    decisions: Decisions,
    unit: float,
    level: float,
) -> tuple[tuple[EvsiRow, ...], Array]:
    """A row for each of J sizes and K values of the willingness to pay, and covariances (K, J, J)."""
    n, J = len(values), len(sizes)
    perfect, perfect_se = (unit * x for x in perfect_information(values, decisions, np.ones(n, dtype=np.intp)))  # (K,)
    every = [*found.sizes, found.inputs]
    raw, se = (unit * np.stack([getattr(each, name) for each in every]) for name in ("evppi", "se"))  # (J + 1, K)
    se = np.where(se > np.maximum(ROUNDING * perfect, 1e-13 * unit), se, 0.0)
    by_threshold = zip(raw.T, se.T, perfect.tolist(), strict=True)
    moved = np.stack([increasing_estimates(each, errors, evpi) for each, errors, evpi in by_threshold], axis=1)
    z = float(ndtri(0.5 * (1.0 + level)))
    most = perfect + z * perfect_se
    thresholds = [None] if decisions.willingness_to_pay is None else np.ravel(decisions.willingness_to_pay).tolist()
    duplicates = tables.count_duplicates(np.column_stack([values, learned.columns]))
    rows = tuple(
        EvsiRow(
            pars=learned.label,
            size=sizes[j],
            willingness_to_pay=threshold,
            evsi=float(moved[j, k]),
            se=float(se[j, k]),
            lower=max(float(moved[j, k] - z * se[j, k]), 0.0),
            upper=float(min(moved[j, k] + z * se[j, k], most[k])),
            evppi=float(moved[J, k]),
            evppi_se=float(se[J, k]),
            evpi=float(perfect[k]),
            evpi_se=float(perfect_se[k]),
            participants=participants[j],
            n=n,
            raw=float(raw[j, k]),
            r2=float(every[j].r2[k]),
            misfit=every[j].misfit,
            note="; ".join(
                [
                    *learned.notes,
                    *["moved to grow with the size (raw is the estimate before)"]
                    * bool(abs(moved[j, k] - raw[j, k]) > NOTE_MOVED * se[j, k] > 0),
                    *notes_on_regression(every[j], k),
                    *notes_on_rows(every[j], n, duplicates, False),
                ]
            ),
        )
        for j in range(J)
        for k, threshold in enumerate(thresholds)
    )
    return rows, _covariances(found.sizes, se[:J])


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


def _names(pars: Any, inputs: tables.ColumnTable) -> list[str]:
    """The names of the inputs that the study is about, which are one set."""
    several = [pars] if isinstance(pars, str | int | np.integer) and not isinstance(pars, bool) else pars
    if is_list(several) and len(several) == 1 and is_list(several[0]):
        several = several[0]
    if not is_list(several) or not len(several):
        raise TypeError(f"pars must be the name of a column of inputs, or a list of names, but it is {shown(pars)}.")
    return [inputs.names[i] for i in positions(several, inputs.names, "pars")]


def _columns(study: Study, names: Sequence[str], inputs: tables.ColumnTable) -> dict[str, Array]:
    """The inputs (n,) that the study is about, and those that it depends on beside them."""
    unknown = [name for name in study.further_inputs if name not in inputs.names]
    if unknown:
        raise ValueError(f"study needs {listed(unknown)}, which is no column of inputs: {listed(inputs.names)}.")
    every = dict.fromkeys([*names, *study.further_inputs])
    columns = {name: inputs.matrix([inputs.names.index(name)])[:, 0] for name in every}
    study.check(columns)
    return columns


def _informative_columns(summary: Array, size: int) -> Array:
    """The columns of a summary (n, q) that vary and that others do not determine, in units near 1."""
    columns = tables.scale_columns(summary)[0]
    kept, _ = informative(columns, [""] * columns.shape[1])
    if len(columns) < MIN_ROWS_PER_COLUMN * (len(kept) + 1):
        raise ValueError(
            f"a regression on the {len(kept)} numbers that study= returns for {size} participants needs at "
            f"least {MIN_ROWS_PER_COLUMN * (len(kept) + 1)} rows, but there are {len(columns)}: return fewer."
        )
    return columns[:, kept]
