"""Scores of an estimator: against the truth, or against estimates at thetas that were left out of its samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common import Array, Booleans, called, finite, squarable
from cbq.estimators import REFUSALS, Estimator, reason
from cbq.fit import Fit
from cbq.problems.problem import Problem
from cbq.samples import Samples, thetas_in

Truth = Problem | Callable[[Array], npt.ArrayLike] | npt.ArrayLike
References = list[Callable[[], tuple[Array, Array]]]  # of theta (M, p) and the values (M, C) to compare with

PRIOR_DRAWS, SEED = 1000, 20240616  # thetas drawn from the prior of a problem, by a seed no samples are likely to have


class HasFit(Protocol):
    """An estimator, or an object of the user's own with the method `fit`."""

    def fit(self, samples: Samples) -> Fit:
        """The fit to the samples."""
        ...


@dataclass(frozen=True, eq=False)
class Scores:
    """For each output: the root mean squared error, and the mean width of intervals of the first level, (C,) each.

    coverage: (L, C), the share inside the intervals of each level; (1, C) where it is unknown.
    observed_only: whether the fit predicts, and is scored, only at the observed thetas.
    """

    error: Array
    coverage: Array
    width: Array
    note: str = ""
    observed_only: bool = False

    @classmethod
    def unknown(cls, C: int, note: str) -> Scores:
        """NaN for every output."""
        blank = np.full(C, np.nan)
        return cls(blank, blank[None], blank, note)


class KnownTruth:
    """The true I, and the thetas at which estimators are compared with it.

    truth, theta : as `cbq.compare` takes them.
    samples : all samples of the comparison, which have the same p and C.
    """

    def __init__(self, truth: Truth, theta: npt.ArrayLike | None, samples: Sequence[Samples]) -> None:
        self._columns, self._names = samples[0].C or 1, samples[0].names
        p = samples[0].p
        self._function = _function(truth, p)
        thetas = None if theta is None else thetas_in(theta, samples[0].names, "the samples' theta")
        if thetas is None and isinstance(truth, Problem):
            thetas = truth.prior.sample(PRIOR_DRAWS, SEED)
        if self._function is None and thetas is None:
            if any(not np.array_equal(own.theta, samples[0].theta) for own in samples):
                raise ValueError(
                    "truth is an array, but the samples have different thetas: pass the thetas of its values as theta, "
                    "or a function of theta as truth."
                )
            thetas = samples[0].theta
        values = truth if self._function is None else None if thetas is None else self._function(thetas)
        self._shared = None if thetas is None else (thetas, self._checked(values, len(thetas)))

    def references(self, samples: Samples) -> References:
        """References for a fit to these samples, the preferred first: at the thetas of all samples, at its own thetas.

        The truth at its own thetas is evaluated on first use.
        """
        function, shared = self._function, self._shared
        references: References = [] if shared is None else [lambda: shared]
        if function is not None:
            theta = samples.theta
            references.append(cache(lambda: (theta, self._checked(function(theta), len(theta)))))
        return references

    def _checked(self, truth: Any, M: int) -> Array:
        """True values at M thetas as (M, C)."""
        values, C = squarable(finite(self._names.ordered("f", truth, "truth"), "truth"), "truth"), self._columns
        if values.shape != (M, C) and not (C == 1 and values.shape == (M,)):
            wanted = f"({M},)" if C == 1 else f"({M}, {C})"
            raise ValueError(f"truth has shape {values.shape}, but at {M} thetas it must have shape {wanted}.")
        return values.reshape(M, C)


def _function(truth: Truth, p: int) -> Callable[[Array], Any] | None:
    """The truth as a function of theta, or None if it is an array."""
    if isinstance(truth, Problem):
        if not truth.has_exact:
            raise ValueError(
                f"the exact I of problem {truth.name!r} is not known: pass a function of theta as truth, or omit truth "
                f"to compare by leaving thetas out."
            )
        if truth.p != p:
            raise ValueError(f"truth is a problem with p = {truth.p}, but the samples have p = {p}.")
        return truth.exact
    return partial(called, truth, "truth") if callable(truth) else None


def fit_checked(estimator: HasFit, samples: Samples) -> Fit:
    """Fit the estimator, without warnings, and raise TypeError unless it returns a cbq.Fit."""
    fit = estimator._diagnosed(samples) if isinstance(estimator, Estimator) else estimator.fit(samples)
    if not isinstance(fit, Fit):
        raise TypeError(f"fit returned a {type(fit).__name__}, but it must return a cbq.Fit.")
    return fit._quiet


def evaluated(references: References) -> References:
    """The references as arrays, which unlike functions can be sent to another process.

    An error of a function is raised when its reference is used.
    """
    return [partial(_kept, _attempted(reference)) for reference in references]


def _attempted(reference: Callable[[], tuple[Array, Array]]) -> tuple[Array, Array] | ValueError:
    try:
        return reference()
    except ValueError as error:
        return error


def _kept(outcome: tuple[Array, Array] | ValueError) -> tuple[Array, Array]:
    if isinstance(outcome, ValueError):
        raise outcome
    return outcome


def no_scores(note: str, C: int, fit: Fit) -> Scores:
    """NaN for every output, with the reason."""
    return Scores.unknown(C, note)


def score_against_truth(references: References, C: int, levels: Sequence[float], fit: Fit) -> Scores:
    """Scores of a fit against the first reference at whose thetas it predicts."""
    refusal: str | None = None
    for theta, truth in (reference() for reference in references):
        try:
            mean = _columns(fit.predict(theta), C)
        except REFUSALS as error:
            refusal = refusal or reason(error)
            continue
        ends = [_interval(fit, theta, C, level) for level in levels]
        inside = np.stack([_share((a <= truth) & (truth <= b), b - a) for a, b, _ in ends])
        low, high, no_intervals = ends[0]
        elsewhere = None if refusal is None else "scored at the observed thetas, because it does not predict elsewhere"
        note = "; ".join(filter(None, [elsewhere, no_intervals]))
        return Scores(_rms(mean - truth), inside, np.mean(high - low, axis=0), note, refusal is not None)
    return Scores.unknown(C, f"no predictions: {refusal}")


def score_left_out(
    samples: Samples,
    estimates: Array,
    variance: Array,
    folds: int,
    levels: Sequence[float],
    estimator: HasFit,
    fit: Fit,
) -> Scores:
    """Scores of an estimator, fitted again, at left-out thetas, against estimates from their own points.

    Theta t is left out together with all t' = t modulo `folds`. An estimate counts as covered if it lies in the central
    interval of the normal distribution with the mean of the prediction and the sum of both variances: its own error
    does not count against the estimator.

    estimates, variance : the estimates at the thetas of the samples and the variances of their errors, (T, C) each.
    """
    T, C = samples.T, samples.C or 1
    if T == 1:
        return Scores.unknown(C, "no leave-one-out error: it needs two thetas or more, but there is one theta")
    mean, std, width = (np.full((T, C), np.nan) for _ in range(3))
    note: str | None = None
    for fold in range(min(folds, T)):
        left_out = np.arange(T) % folds == fold
        theta = samples.theta[left_out]
        try:
            fit = fit_checked(estimator, samples.select(~left_out))
            mean[left_out] = _columns(fit.predict(theta), C)
            low, high, no_intervals = _interval(fit, theta, C, levels[0])
            if no_intervals is None:
                std[left_out] = _columns(fit.predict(theta, return_std=True)[1], C)
                width[left_out] = high - low
        except REFUSALS as error:
            return Scores.unknown(C, f"no leave-one-out error: {reason(error)}")
        note = note or no_intervals
    difference = mean - estimates
    reaches = ndtri(0.5 * (1 + np.asarray(levels)))[:, None, None] * np.sqrt(std**2 + variance)
    inside = np.stack([_share(np.abs(difference) <= reach, width) for reach in reaches])
    return Scores(_rms(difference), inside, np.mean(width, axis=0), note or "")


def _interval(fit: Fit, theta: Array, C: int, level: float) -> tuple[Array, Array, str | None]:
    """The ends of intervals, (M, C) each, and None; if the fit has no intervals, NaN and a note with the reason."""
    try:
        low, high = (_columns(end, C) for end in fit.interval(theta, level))
    except REFUSALS as error:
        blank = np.full((len(theta), C), np.nan)
        return blank, blank, f"no intervals: {reason(error)}"
    return low, high, None


def _columns(values: Any, C: int) -> Array:
    """Predictions (M,) or (M, C) as (M, C), refused if some are NaN."""
    columns = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    if columns.shape[1] != C:
        raise ValueError(f"it predicts {columns.shape[1]} outputs, but f has {C}")
    unknown = np.count_nonzero(np.any(np.isnan(columns), axis=1))
    if unknown:
        raise ValueError(f"its predictions are NaN at {unknown} of {len(columns)} thetas")
    return columns


def _rms(errors: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(errors**2, axis=0)))


def _share(inside: Booleans, width: Array) -> Array:
    """The share of rows that are inside, for each column; NaN where some width is NaN."""
    return np.asarray(np.mean(np.where(np.isnan(width), np.nan, inside), axis=0))
