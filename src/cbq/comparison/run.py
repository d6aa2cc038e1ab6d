"""`cbq.compare`: fit several estimators to the same samples and score them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import partial
from importlib import import_module
from math import nan
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common import Executor, between_0_and_1, call_each, is_whole, opened, shown
from cbq.comparison.scores import (
    HasFit,
    KnownTruth,
    Scores,
    Truth,
    evaluated,
    fit_checked,
    no_scores,
    score_against_truth,
    score_left_out,
)
from cbq.comparison.table import Comparison, ComparisonRow, checked_levels
from cbq.estimators import REFUSALS, StageOneOptions, default_estimators, fit_stage_one, reason
from cbq.fit import Finding, Fit, few_points_each, warn_of
from cbq.linalg import engine
from cbq.samples import Samples

Score = Callable[[Fit], Scores]


def compare(
    samples: Samples | Sequence[Samples],
    methods: Mapping[str, HasFit] | Sequence[HasFit] | HasFit | None = None,
    truth: Truth | None = None,
    *,
    theta: npt.ArrayLike | None = None,
    level: float = 0.95,
    levels: Sequence[float] = (),
    folds: int = 10,
    executor: Executor | int | None = None,
) -> Comparison:
    """Compare estimators on the same samples: errors, coverage and width of intervals, seconds of the fits.

    An estimator that refuses the samples does not stop the others: its row contains NaN and a note with the reason. A
    finding that makes intervals doubtful is raised once for all methods, as a `cbq.FitWarning`, and is in their notes.

    Parameters
    ----------
    samples : cbq.Samples, or several of one problem in different sizes.
    methods : a mapping from names to estimators, a sequence of estimators (named by their classes), or one estimator:
        any object whose `fit(samples)` returns a cbq.Fit. None compares the estimators of the library.
    truth : I, if it is known: a cbq.Problem with an exact I, a function from theta (M, p) to (M,) or (M, C), or an
        array of its values. With None, thetas are left out in turn: the estimator is fitted to the others and compared
        with Bayesian quadrature on the points of each left-out theta alone. The error `loo` then includes the errors
        of both. Coverage is the share of these quadrature estimates inside normal intervals with the variance of the
        prediction plus the variance of the estimate; width is the mean width of the estimator's own intervals.
    theta : where predictions are compared with the truth, (M, p), or (M,) for p = 1. The default is a fixed set of 1000
        draws from the prior if truth is a problem, and the observed thetas otherwise. An estimator that predicts at
        the observed thetas only is scored there, if truth is a function or a problem.
    level : the level of the intervals.
    levels : further levels at which the coverage is wanted, such as np.linspace(0.1, 0.9, 9): each row has it as
        `coverages`, and `plot_coverage` draws it over the level.
    folds : the number of groups into which the thetas are split, to be left out one group at a time; theta t is in
        group t modulo `folds`, so up to this number of thetas they are left out one by one.
    executor : a number of processes to start, or anything with `submit`: each estimator is fitted and scored
        on one of its workers. Seconds are measured on the worker, which may share its cores with others.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> samples = problem.collect(T=12, N=20, rng=0)
    >>> found = cbq.compare(samples, [cbq.CBQ(), cbq.LSMC()], truth=problem)
    >>> found.rows[0].rmse < found.rows[1].rmse
    True
    """
    sets, level = _checked_samples(samples), between_0_and_1(level, "level")
    further = checked_levels(levels)
    if not is_whole(folds, 2):
        raise ValueError(f"folds must be an integer, 2 or more, but it is {shown(folds)}.")
    largest = max(sets, key=lambda own: own.n_evaluations)
    estimators = default_estimators(largest) if methods is None else _named(methods)
    if truth is None and theta is not None:
        raise ValueError("theta is for comparisons with the truth: pass truth as well, or omit theta.")
    known = None if truth is None else KnownTruth(truth, theta, sets)
    with opened(executor) as pool:
        tasks = [
            task
            for own in sets
            for task in _tasks(own, estimators, known, int(folds), (level, *further), pool is not None)
        ]
        instead = "Pass estimators, samples and a truth without lambdas"
        rows_of = _rows if pool is None else _rows_by_worker
        results = call_each(rows_of, tasks, pool, "an estimator, its samples or the truth", instead)
    rows: list[ComparisonRow] = []
    for start in range(0, len(results), len(estimators)):  # the tables of one set of samples
        tables = [table for table, _ in results[start : start + len(estimators)]]
        rows += [row for output in zip(*tables, strict=True) for row in output]
    pairs = [(task.name, finding) for task, (_, several) in zip(tasks, results, strict=True) for finding in several]
    warn_of(_first_of_each_kind(pairs))
    return Comparison(tuple(rows), level, further)


@dataclass(frozen=True, eq=False)
class _Task:
    """An estimator to fit and score. error: the name of the field of the error."""

    name: str
    estimator: HasFit
    samples: Samples
    score: Score
    error: str


def _tasks(
    samples: Samples,
    estimators: Mapping[str, HasFit],
    known: KnownTruth | None,
    folds: int,
    levels: tuple[float, ...],
    to_send: bool,
) -> list[_Task]:
    """The tasks of all estimators on these samples. to_send: whether they go to other processes."""
    if known is None:
        left_out = _left_out(samples, folds, levels)
        return [_Task(name, estimator, samples, left_out(estimator), "loo") for name, estimator in estimators.items()]
    references = known.references(samples)
    score = partial(score_against_truth, evaluated(references) if to_send else references, samples.C or 1, levels)
    return [_Task(name, estimator, samples, score, "rmse") for name, estimator in estimators.items()]


def _first_of_each_kind(pairs: Sequence[tuple[str, Finding]]) -> list[Finding]:
    """The first finding of each kind, with the names of all methods that share it."""
    kinds = {finding.kind: finding for _, finding in reversed(pairs)}
    names = {kind: ", ".join(dict.fromkeys(name for name, finding in pairs if finding.kind == kind)) for kind in kinds}
    return [Finding(kind, f"{names[kind]}: {text}") for kind, text in kinds.items()]


def _rows_by_worker(task: _Task) -> tuple[list[ComparisonRow], tuple[Finding, ...]]:
    """`_rows` in a worker, on NumPy: a forked process cannot use the GPU that it inherits."""
    with engine("numpy"):
        return _rows(task)


def _rows(task: _Task) -> tuple[list[ComparisonRow], tuple[Finding, ...]]:
    """The rows of an estimator on its samples, one for each output, and its serious findings."""
    samples, findings, doubts = task.samples, tuple[Finding, ...](), tuple[Finding, ...]()
    for name in ("scipy.optimize", "scipy.spatial.distance"):  # imported on first use: not in the time of the first fit
        import_module(name)
    start = perf_counter()
    try:
        fit = fit_checked(task.estimator, samples)
    except REFUSALS as refusal:
        scores, seconds = Scores.unknown(samples.C or 1, reason(refusal)), nan
    else:
        seconds = perf_counter() - start
        scores, findings, doubts = task.score(fit), fit.serious_findings, fit._doubts
    counts = samples.counts
    failed = "" if samples.failures is None else f"{samples.failures}, which biases estimates"
    kinds = ", ".join(dict.fromkeys(finding.kind for finding in doubts))
    warned = kinds and f"warned of {kinds}"
    rows = [
        ComparisonRow(
            method=task.name,
            T=samples.T,
            N=float(np.mean(counts)) if samples.is_ragged else int(counts[0]),
            output=_output(samples, c),
            evaluations=samples.n_evaluations,
            **{"rmse": nan, "loo": nan, task.error: float(scores.error[c])},
            coverage=float(scores.coverage[0, c]),
            coverages=tuple(scores.coverage[1:, c].tolist()),
            width=float(scores.width[c]),
            seconds=seconds,
            note="; ".join(filter(None, [scores.note, failed, warned])),
        )
        for c in range(samples.C or 1)
    ]
    return rows, findings


def _output(samples: Samples, c: int) -> int | str | None:
    """The field `output` of the row of output c."""
    if samples.C is None:
        return None
    return samples.names.f[c] if samples.names.are_given("f") else c


def _left_out(samples: Samples, folds: int, levels: tuple[float, ...]) -> Callable[[HasFit], Score]:
    """The score of an estimator at left-out thetas, against the Bayesian quadrature of stage 1 there."""
    if samples.design == "adaptive" and few_points_each(samples, samples.counts):
        note = "no leave-one-out error: points were chosen by a rule, and are too few to compare with at each theta"
        return lambda estimator: partial(no_scores, note, samples.C or 1)
    try:
        columns = fit_stage_one(samples, StageOneOptions()).columns
    except REFUSALS as error:
        note = f"no leave-one-out error, because stage 1 has no estimates to compare with: {reason(error)}"
        return lambda estimator: partial(no_scores, note, samples.C or 1)
    stage1 = columns["mean"], columns["variance"]
    return lambda estimator: partial(score_left_out, samples, *stage1, folds, levels, estimator)


def _checked_samples(samples: Any) -> list[Samples]:
    """Samples of one problem, as a list."""
    sets = list(samples) if isinstance(samples, Sequence) else [samples]
    if not sets:
        raise ValueError("samples is empty: pass cbq.Samples, or several of one problem.")
    for item in sets:
        if not isinstance(item, Samples):
            raise TypeError(f"samples must be cbq.Samples, or a list of them, but a {type(item).__name__} arrived.")
    for name in ("p", "d", "C"):
        sizes = list(dict.fromkeys(getattr(item, name) for item in sets))
        if len(sizes) > 1:
            raise ValueError(
                f"all samples must come from one problem, but they have {name} = {' and '.join(map(str, sizes))}: "
                f"compare the samples of each problem separately."
            )
    return sets


def _named(methods: Mapping[str, HasFit] | Sequence[HasFit] | HasFit) -> dict[str, HasFit]:
    """Estimators by name, from a mapping, a sequence or a single estimator."""
    if isinstance(methods, Mapping):
        estimators: list[Any] = list(methods.values())
    else:
        several = isinstance(methods, Sequence) and not isinstance(methods, str)
        estimators = list(methods) if several else [methods]  # type: ignore[arg-type]
    if not estimators:
        raise ValueError("methods is empty: pass at least one estimator, as in {'CBQ': cbq.CBQ()}, or None for all.")
    for estimator in estimators:
        if isinstance(estimator, type):
            kind = estimator.__name__
            raise TypeError(f"methods must be objects, but the class {kind} arrived: pass {kind}().")
        if not callable(getattr(estimator, "fit", None)):
            raise TypeError(
                f"methods must have fit(samples), as cbq.CBQ() has, but a {type(estimator).__name__} arrived: pass one "
                f"estimator, a sequence of estimators, or a mapping from names to estimators."
            )
    names = list(methods) if isinstance(methods, Mapping) else _names(estimators)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"the names of methods must be non-empty strings, but one name is {name!r}.")
    return dict(zip(names, estimators, strict=True))


def _names(estimators: Sequence[HasFit]) -> list[str]:
    """The classes of estimators, with the options that differ from their defaults where a class occurs twice."""
    classes = [type(estimator).__name__ for estimator in estimators]
    twice = {name for name in classes if classes.count(name) > 1}
    names = [_with_options(each) if type(each).__name__ in twice else type(each).__name__ for each in estimators]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"two methods have the name {repeated!r}: pass a mapping from names to estimators.")
    return names


def _with_options(estimator: HasFit) -> str:
    """The class of an estimator and its options that differ from their defaults."""
    kind = type(estimator)
    if not is_dataclass(kind):
        return kind.__name__ if kind.__repr__ is object.__repr__ else repr(estimator)  # not a memory address
    values = {field: repr(getattr(estimator, field.name)) for field in fields(kind) if field.repr}
    changed = ", ".join(f"{field.name}={value}" for field, value in values.items() if value != _default(field))
    return f"{kind.__name__}({changed})" if changed else kind.__name__


def _default(field: Field[Any]) -> str | None:
    if field.default_factory is not MISSING:
        return repr(field.default_factory())
    return None if field.default is MISSING else repr(field.default)
