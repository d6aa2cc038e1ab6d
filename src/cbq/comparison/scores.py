"""How far a method is from the truth, or from estimates that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from cbq._arrays import Array
from cbq.comparison.methods import REFUSALS, Method, fitted, reason
from cbq.comparison.truth import Target
from cbq.fit.base import Fit
from cbq.samples import Samples


@dataclass(frozen=True, eq=False)
class Scores:
    """For each output: the root mean squared error, the coverage and the mean width of intervals, (C,) each."""

    error: Array
    coverage: Array
    width: Array
    note: str = ""

    @classmethod
    def none(cls, C: int, note: str) -> Scores:
        """Of a method that has no answer."""
        blank = np.full(C, np.nan)
        return cls(blank, blank, blank, note)


def against_truth(fit: Fit, targets: Sequence[Callable[[], Target]], C: int, level: float) -> Scores:
    """Scores at the first of the targets that a fit answers at."""
    refused = ""
    for place in targets:
        target = place()
        try:
            mean = _columns(fit.predict(target.theta), C)
        except REFUSALS as error:
            refused = refused or reason(error)
            continue
        elsewhere = "judged at the observed thetas, as it does not answer elsewhere" if refused else ""
        low, high, note = _ends(fit, target.theta, C, level)
        inside = _share((low <= target.values) & (target.values <= high), high - low)
        return Scores(_rms(mean - target.values), inside, np.mean(high - low, axis=0), _both(elsewhere, note))
    return Scores.none(C, f"no answer: {refused}")


def left_out(method: Method, samples: Samples, reference: Target, variance: Array, folds: int, level: float) -> Scores:
    """Scores at thetas that were left out, against estimates from their own points.

    reference: the estimates (T, C) at the thetas of the samples. variance: of their errors, (T, C). Theta t is left
    out with all t' = t modulo `folds`. An estimate counts as covered where it lies in the central interval of the
    normal distribution with the mean of the prediction and the sum of both variances: its own error is no fault of the method.
    """
    C, seen = samples.C or 1, _Seen(samples)
    if samples.T == 1:
        return Scores.none(C, "no leave-one-out error: there is one theta, and two are needed")
    group = np.arange(samples.T) % folds
    for g in range(min(folds, samples.T)):
        left = group == g
        try:
            seen.add(left, fitted(method, samples.select(~left)), samples.theta[left], level)
        except REFUSALS as error:
            return Scores.none(C, f"no leave-one-out error: {reason(error)}")
    apart = seen.mean - reference.values
    reach = ndtri(0.5 * (1 + level)) * np.sqrt(seen.std**2 + variance)
    inside = _share(np.abs(apart) <= reach, seen.width)
    return Scores(_rms(apart), inside, np.mean(seen.width, axis=0), seen.note)


class _Seen:
    """Predictions at all thetas, each from fits without it: arrays (T, C)."""

    def __init__(self, samples: Samples) -> None:
        shape = (samples.T, samples.C or 1)
        self.mean, self.std, self.width = (np.full(shape, np.nan) for _ in range(3))
        self.note = ""

    def add(self, left: Any, fit: Fit, theta: Array, level: float) -> None:
        """Ask a fit about the thetas that it was made without."""
        C = self.mean.shape[1]
        self.mean[left] = _columns(fit.predict(theta), C)
        low, high, note = _ends(fit, theta, C, level)
        self.note = self.note or note
        if not note:
            self.std[left] = _columns(fit.predict(theta, return_std=True)[1], C)
            self.width[left] = high - low


def _ends(fit: Fit, theta: Array, C: int, level: float) -> tuple[Array, Array, str]:
    """The ends of intervals, (M, C) each; NaN and the reason where there are none."""
    try:
        low, high = (_columns(end, C) for end in fit.interval(theta, level))
    except REFUSALS as error:
        blank = np.full((len(theta), C), np.nan)
        return blank, blank, f"no intervals: {reason(error)}"
    return low, high, ""


def _columns(values: Any, C: int) -> Array:
    """Answers (M,) or (M, C) as (M, C), without NaN."""
    columns = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    if columns.shape[1] != C:
        raise ValueError(f"it answers for {columns.shape[1]} outputs, but f has {C}")
    unknown = np.count_nonzero(np.any(np.isnan(columns), axis=1))
    if unknown:
        raise ValueError(f"its answers are NaN at {unknown} of {len(columns)} thetas")
    return columns


def _rms(errors: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(errors**2, axis=0)))


def _share(inside: Any, width: Array) -> Array:
    """The share of rows that are inside, for each column; NaN where some width is."""
    return np.asarray(np.mean(np.where(np.isnan(width), np.nan, inside), axis=0))


def _both(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
