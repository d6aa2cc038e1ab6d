"""`cbq.compare`: fit several estimators to the same samples and score them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from math import nan
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq._arrays import between_0_and_1
from cbq.comparison.scores import (
    KnownTruth,
    Scores,
    Truth,
    fit_checked,
    score_against_truth,
    score_left_out,
)
from cbq.comparison.table import Comparison, ComparisonRow
from cbq.fit.base import Fit
from cbq.methods.conditional.stage_one import StageOneOptions, fit_stage_one
from cbq.methods.registry import REFUSALS, Estimator, default_estimators, reason
from cbq.samples import Samples

Score = Callable[[Estimator, Fit], Scores]


def compare(
    samples: Samples | Sequence[Samples],
    methods: Mapping[str, Estimator] | Sequence[Estimator] | Estimator | None = None,
    truth: Truth | None = None,
    *,
    theta: npt.ArrayLike | None = None,
    level: float = 0.95,
    folds: int = 10,
) -> Comparison:
    """Compare estimators on the same samples: errors, coverage and width of intervals, seconds of the fits.

    An estimator that refuses the samples does not stop the others: its row contains NaN, and its note says why.

    Parameters
    ----------
    samples : cbq.Samples, or several of one problem in different sizes.
    methods : a mapping from names to estimators, a sequence of estimators (named by their classes), or one estimator:
        any object whose `fit(samples)` returns a cbq.Fit. None compares the estimators of the library.
    truth : I, if it is known: a cbq.Problem with an exact I, a function from theta (M, p) to (M,) or (M, C), or an
        array of its values. With None, thetas are left out in turn: the estimator is fitted to the others and compared
        with Bayesian quadrature on the points of each left-out theta alone. The error `loo` then includes the errors
        of both. Coverage is the share of these quadrature estimates in normal intervals whose variance is that of the
        prediction plus that of the estimate; width is that of the estimator's own intervals.
    theta : where predictions are compared with the truth, (M, p), or (M,) for p = 1. The default is a fixed set of 1000
        draws from the prior if truth is a problem, and the observed thetas otherwise. An estimator that predicts at
        the observed thetas only is scored there, if truth is a function or a problem.
    level : the level of the intervals.
    folds : the number of groups into which the thetas are split, to be left out one group at a time; theta t is in
        group t modulo `folds`, so up to this number of thetas they are left out one by one.
    """
    sets, (level, folds) = _checked_samples(samples), _checked_options(level, folds)
    largest = max(sets, key=lambda each: each.n_evaluations)
    estimators = default_estimators(largest) if methods is None else _named(methods)
    if truth is None and theta is not None:
        raise ValueError("theta is where predictions are compared with the truth: pass truth as well, or omit theta.")
    known = None if truth is None else KnownTruth(truth, theta, sets)
    _import_lazy_modules()
    rows: list[ComparisonRow] = []
    for each in sets:
        score = _leave_out_score(each, folds, level) if known is None else _truth_score(each, known, level)
        tables = [
            _rows(name, estimator, each, score, against_truth=known is not None)
            for name, estimator in estimators.items()
        ]
        rows += [row for output in zip(*tables, strict=True) for row in output]
    return Comparison(tuple(rows), level)


def _rows(
    name: str, estimator: Estimator, samples: Samples, score: Score, *, against_truth: bool
) -> list[ComparisonRow]:
    """The rows of an estimator on these samples, one for each output."""
    scores, seconds = _fit_and_score(estimator, samples, score)
    counts = samples.counts
    N = float(np.mean(counts)) if samples.is_ragged else int(counts[0])
    return [
        ComparisonRow(
            method=name,
            T=samples.T,
            N=N,
            output=None if samples.C is None else c,
            evaluations=samples.n_evaluations,
            rmse=float(scores.error[c]) if against_truth else nan,
            loo=nan if against_truth else float(scores.error[c]),
            coverage=float(scores.coverage[c]),
            width=float(scores.width[c]),
            seconds=seconds,
            note=scores.note,
        )
        for c in range(samples.C or 1)
    ]


def _fit_and_score(estimator: Estimator, samples: Samples, score: Score) -> tuple[Scores, float]:
    """The scores of an estimator and the seconds of its fit; NaN if it refuses the samples."""
    start = perf_counter()
    try:
        fit = fit_checked(estimator, samples)
    except REFUSALS as error:
        return Scores.unknown(samples.C or 1, reason(error)), nan
    seconds = perf_counter() - start
    return score(estimator, fit), seconds


def _truth_score(samples: Samples, known: KnownTruth, level: float) -> Score:
    """Scores against the truth."""
    references = known.references(samples)
    return lambda estimator, fit: score_against_truth(fit, references, samples.C or 1, level)


def _leave_out_score(samples: Samples, folds: int, level: float) -> Score:
    """Scores at left-out thetas, against the Bayesian quadrature of stage 1 there."""
    try:
        columns = fit_stage_one(samples, StageOneOptions()).columns
    except REFUSALS as error:
        note = f"no leave-one-out error, because stage 1 has no estimates to compare with: {reason(error)}"
        return lambda estimator, fit: Scores.unknown(samples.C or 1, note)
    mean, variance = columns["mean"], columns["variance"]
    return lambda estimator, fit: score_left_out(estimator, samples, mean, variance, folds, level)


def _import_lazy_modules() -> None:
    """Import the modules that are imported on first use, so that their time is not charged to the first estimator."""
    for name in ("scipy.optimize", "scipy.spatial.distance"):
        import_module(name)


def _checked_samples(samples: Any) -> list[Samples]:
    """Samples of one problem, as a list."""
    sets = list(samples) if isinstance(samples, Sequence) else [samples]
    if not sets:
        raise ValueError("samples is empty: pass cbq.Samples, or several of one problem.")
    other = next((each for each in sets if not isinstance(each, Samples)), None)
    if other is not None:
        raise TypeError(f"samples must be cbq.Samples, or a list of them, but a {type(other).__name__} arrived.")
    for name in ("p", "d", "C"):
        found = list(dict.fromkeys(getattr(each, name) for each in sets))
        if len(found) > 1:
            raise ValueError(
                f"all samples must come from one problem, but they have {name} = {' and '.join(map(str, found))}: "
                f"compare the samples of each problem separately."
            )
    return sets


def _checked_options(level: Any, folds: Any) -> tuple[float, int]:
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or folds < 2:
        raise ValueError(f"folds must be an integer, 2 or more, but it is {folds!r}.")
    return between_0_and_1(level, "level"), int(folds)


def _named(methods: Mapping[str, Estimator] | Sequence[Estimator] | Estimator) -> dict[str, Estimator]:
    """Estimators by name, from a mapping, a sequence or a single estimator."""
    if isinstance(methods, Mapping):
        pairs = list(methods.items())
    else:
        several = isinstance(methods, Sequence) and not isinstance(methods, str)
        listed: list[Any] = list(methods) if several else [methods]  # type: ignore[arg-type]
        for estimator in listed:
            _check_estimator(estimator)
        pairs = list(zip(_names(listed), listed, strict=True))
    if not pairs:
        raise ValueError("methods is empty: pass at least one estimator, as in {'CBQ': cbq.CBQ()}, or None for all.")
    for name, estimator in pairs:
        _check_estimator(estimator)
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"the names of methods must be non-empty strings, but one name is {name!r}.")
    return dict(pairs)


def _check_estimator(estimator: Any) -> None:
    if isinstance(estimator, type):
        name = estimator.__name__
        raise TypeError(f"methods must be objects, but the class {name} arrived: pass {name}().")
    if not callable(getattr(estimator, "fit", None)):
        raise TypeError(
            f"methods must have fit(samples), as cbq.CBQ() has, but a {type(estimator).__name__} arrived: pass one "
            f"estimator, a sequence of estimators, or a mapping from names to estimators."
        )


def _names(estimators: Sequence[Estimator]) -> list[str]:
    """The classes of estimators, with the options that differ from their defaults where a class occurs twice."""
    classes = [type(each).__name__ for each in estimators]
    names = [
        name if classes.count(name) == 1 else _with_options(each)
        for name, each in zip(classes, estimators, strict=True)
    ]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"two methods have the name {repeated!r}: pass a mapping from names to estimators.")
    return names


def _with_options(estimator: Estimator) -> str:
    """The class of an estimator and its options that differ from their defaults."""
    kind = type(estimator)
    if not is_dataclass(kind):
        return kind.__name__ if kind.__repr__ is object.__repr__ else repr(estimator)  # not a memory address
    values = {field.name: repr(getattr(estimator, field.name)) for field in fields(kind) if field.repr}
    defaults = {field.name: _default(field) for field in fields(kind)}
    changed = ", ".join(f"{name}={value}" for name, value in values.items() if value != defaults[name])
    return f"{kind.__name__}({changed})" if changed else kind.__name__


def _default(field: Field[Any]) -> str | None:
    if field.default_factory is not MISSING:
        return repr(field.default_factory())
    return None if field.default is MISSING else repr(field.default)
