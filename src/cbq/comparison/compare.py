"""Methods side by side on the same samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from math import nan
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq._arrays import between_0_and_1
from cbq.comparison.comparison import Comparison, ComparisonRow
from cbq.comparison.methods import REFUSALS, Method, default_methods, fitted, named, reason
from cbq.comparison.scores import Scores, against_truth, left_out
from cbq.comparison.truth import Judge, Target, Truth
from cbq.fit.base import Fit
from cbq.methods.conditional.stage_one import StageOneOptions, fit_stage_one
from cbq.samples import Samples

Score = Callable[[Method, Fit], Scores]


def compare(
    samples: Samples | Sequence[Samples],
    methods: Mapping[str, Method] | Sequence[Method] | Method | None = None,
    truth: Truth | None = None,
    *,
    theta: npt.ArrayLike | None = None,
    level: float = 0.95,
    folds: int = 10,
) -> Comparison:
    """Put methods side by side: their errors, the coverage and width of their intervals, the seconds of their fits.

    A method that cannot serve does not stop the others: its row holds NaN, and its note says why.

    Parameters
    ----------
    samples : cbq.Samples, or several of one problem in different sizes.
    methods : from names to methods, a sequence of methods (called by their classes), or a single one: anything with
        `fit(samples)` that returns a cbq.Fit. None takes those of the library.
    truth : I, if it is known: a cbq.Problem with an exact answer, a function from theta (M, p) to (M,) or (M, C), or
        an array of its values. None leaves thetas out instead: the method is fitted to the others and compared with
        the Bayesian quadrature of the points of each left-out theta alone. The error `loo` is then that of both,
        and coverage is the share of these estimates in normal intervals whose variance is that of the prediction plus
        that of the estimate; the width is that of the method's own intervals.
    theta : where the truth is compared with, (M, p), or (M,) for p = 1. None is 1000 thetas from the prior of a
        problem, always the same ones, and the observed thetas in all other cases. A method that answers at
        observed thetas only is judged there, if the truth is a function or a problem.
    level : of the intervals.
    folds : into how many groups the thetas are split, each left out at once; theta t is in group t modulo `folds`, so
        up to so many thetas are left out one by one.
    """
    sets, (level, folds) = _checked(samples), _options(level, folds)
    largest = max(sets, key=lambda each: each.n_evaluations)
    chosen = default_methods(largest) if methods is None else named(methods)
    if truth is None and theta is not None:
        raise ValueError("theta is where the truth is compared with, but there is none: pass truth, or leave it out.")
    judge = None if truth is None else Judge(truth, theta, sets)
    _preload()
    rows: list[ComparisonRow] = []
    for each in sets:
        score = _left_out(each, folds, level) if judge is None else _judged(each, judge, level)
        tables = [_rows(name, method, each, score, known=judge is not None) for name, method in chosen.items()]
        rows += [row for output in zip(*tables, strict=True) for row in output]
    return Comparison(tuple(rows), level)


def _rows(name: str, method: Method, samples: Samples, score: Score, *, known: bool) -> list[ComparisonRow]:
    """What is said of a method on samples, for each output."""
    scores, seconds = _try(method, samples, score)
    counts = samples.counts
    N = float(np.mean(counts)) if samples.is_ragged else int(counts[0])
    return [
        ComparisonRow(
            method=name,
            T=samples.T,
            N=N,
            output=None if samples.C is None else c,
            evaluations=samples.n_evaluations,
            rmse=float(scores.error[c]) if known else nan,
            loo=nan if known else float(scores.error[c]),
            coverage=float(scores.coverage[c]),
            width=float(scores.width[c]),
            seconds=seconds,
            note=scores.note,
        )
        for c in range(samples.C or 1)
    ]


def _try(method: Method, samples: Samples, score: Score) -> tuple[Scores, float]:
    """The scores of a method, and the seconds of its fit to all samples; NaN where it refuses them."""
    start = perf_counter()
    try:
        fit = fitted(method, samples)
    except REFUSALS as error:
        return Scores.none(samples.C or 1, reason(error)), nan
    seconds = perf_counter() - start
    return score(method, fit), seconds


def _judged(samples: Samples, judge: Judge, level: float) -> Score:
    """The scores against the truth."""
    targets = judge.targets(samples)
    return lambda method, fit: against_truth(fit, targets, samples.C or 1, level)


def _left_out(samples: Samples, folds: int, level: float) -> Score:
    """The scores against estimates at left-out thetas, from their own points alone."""
    try:
        columns = fit_stage_one(samples, StageOneOptions()).columns
    except REFUSALS as error:
        note = f"no leave-one-out error, for want of estimates at single thetas: {reason(error)}"
        return lambda method, fit: Scores.none(samples.C or 1, note)
    reference = Target(samples.theta, columns["mean"])
    ask = partial(left_out, reference=reference, variance=columns["variance"], folds=folds, level=level)
    return lambda method, fit: ask(method, samples)


def _checked(samples: Any) -> list[Samples]:
    """Samples of one problem, as a list."""
    sets = list(samples) if isinstance(samples, Sequence) else [samples]
    if not sets:
        raise ValueError("samples is empty: pass cbq.Samples, or several of one problem.")
    other = next((each for each in sets if not isinstance(each, Samples)), None)
    if other is not None:
        raise TypeError(f"samples must be cbq.Samples, or a list of them, but a {type(other).__name__} arrived.")
    for name in ("p", "d", "C"):
        kinds = list(dict.fromkeys(getattr(each, name) for each in sets))
        if len(kinds) > 1:
            raise ValueError(
                f"the samples must be of one problem, but they have {name} = {' and '.join(map(str, kinds))}: compare "
                f"those of each problem by themselves."
            )
    return sets


def _options(level: Any, folds: Any) -> tuple[float, int]:
    """The two numbers, checked."""
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or folds < 2:
        raise ValueError(f"folds must be a whole number of groups, at least 2, but it is {folds!r}.")
    return between_0_and_1(level, "level"), int(folds)


def _preload() -> None:
    """Modules that are loaded upon use, so that the first method to need them does not pay for it in seconds."""
    for name in ("scipy.optimize", "scipy.spatial.distance"):
        import_module(name)
