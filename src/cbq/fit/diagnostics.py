"""Checks of a fit by its data, each with a sentence on its meaning and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtr

from cbq.common import Array, Integers
from cbq.fit.answer_grid import OBSERVED_ONLY, as_columns
from cbq.fit.answers import TruthFunction, true_values
from cbq.fit.base import Fit
from cbq.samples import Samples

LEVEL = 0.95  # of the intervals that residuals are compared with
TOLERATED = 2.0  # standard deviations of a binomial share, below which a coverage looks wrong
SMALLEST = 1e-300  # a probability
TRUTH_DRAWS, TRUTH_SEED = 200, 20240618  # thetas drawn from the prior for the error against the truth


@dataclass(frozen=True, eq=False)
class Diagnostic:
    """A check: its meaning, its result, and a verdict.

    theta, residual : (m, p) and (m, C), the residual at each theta in units of its prediction; None if the check
        is one number.
    """

    title: str
    meaning: str
    verdict: str
    good: bool
    theta: Array | None = None
    residual: Array | None = None


def diagnose(fit: Fit, samples: Samples | None, truth: TruthFunction | None, theta: Array) -> list[Diagnostic]:
    """All checks that can be made; theta (M, p) is where the truth is compared with."""
    quiet = fit._quiet
    found = [*quiet._diagnostics(), averages_of(quiet, samples), against_truth(quiet, truth, theta)]
    return [each for each in found if each is not None]


def left_out(residual: Array, theta: Array, *, calibrated: bool) -> Diagnostic:
    """The check of leaving each theta out, by standardised residuals (T, C)."""
    share, enough = coverage(residual)
    size = float(np.sqrt(np.mean(residual**2)))
    found = (
        f"Residuals are {size:.2g} times as large as predicted, and {share:.0%} of {residual.size} are inside "
        f"their {LEVEL:.0%} intervals."
    )
    widened = "The intervals of the fit are widened for it." if calibrated else "The intervals are too narrow."
    return Diagnostic(
        "Leave-one-theta-out residuals",
        "Each theta is left out, and the estimate there is predicted from all others. In units of the predicted "
        "standard deviation, residuals should be of size 1, with 95% of them between the dashed lines.",
        f"{found} {'This looks right.' if enough else f'More lie outside than predicted. {widened}'}",
        enough,
        theta,
        residual,
    )


def averages_of(fit: Fit, samples: Samples | None) -> Diagnostic | None:
    """The check by plain averages of f at each theta, where points are draws of their measures."""
    found = _averages(fit, samples)
    if found is None:
        return None
    theta, mean, variance, counts = found
    try:
        estimate, std = (as_columns(each) for each in fit.predict(theta, return_std=True))
    except OBSERVED_ONLY:
        return None
    scale = np.sqrt(variance + std**2)
    ratio = np.divide(mean - estimate, scale, out=np.zeros_like(scale), where=scale > 0)
    # With few points, standard errors are uncertain themselves: as many normal deviations as are as probable.
    residual = -np.sign(ratio) * ndtri(np.maximum(stdtr(counts[:, None] - 1.0, -np.abs(ratio)), SMALLEST))
    if not np.any(residual):  # the estimates are these averages
        return None
    share, enough = coverage(residual)
    verdict = f"{share:.0%} of {residual.size} averages are as close to the estimate as their errors allow."
    return Diagnostic(
        "Averages of f against the estimate",
        "The plain average of the values of f at a theta estimates I there, too, if less accurately. Its distance from "
        "the estimate, in units of both standard errors, should be between the dashed lines at 95% of the thetas.",
        f"{verdict} {'This looks right.' if enough else 'Fewer than expected: the estimate may be biased there.'}",
        enough,
        theta,
        residual,
    )


def against_truth(fit: Fit, truth: TruthFunction | None, theta: Array) -> Diagnostic | None:
    """The check by the truth at theta (M, p), where it is known."""
    if truth is None:
        return None
    try:
        mean, (low, high) = as_columns(fit.predict(theta)), (as_columns(end) for end in fit.interval(theta, LEVEL))
    except OBSERVED_ONLY:
        return None
    true = true_values(truth, theta, list(range(mean.shape[1])), fit.names, given=False)
    inside = float(np.mean((low <= true) & (true <= high)))
    errors = ", ".join(f"{error:.3g}" for error in np.sqrt(np.mean((mean - true) ** 2, axis=0)))
    good = inside >= LEVEL - TOLERATED * np.sqrt(LEVEL * (1 - LEVEL) / len(theta))
    return Diagnostic(
        "Coverage of the truth",
        f"The true I is known here. Of {len(theta)} thetas, about {LEVEL:.0%} should have it inside their intervals.",
        f"{inside:.0%} of the truths are inside {LEVEL:.0%} intervals; the root mean squared error is {errors}. "
        f"{'This looks right.' if good else 'Intervals are too narrow.'}",
        good,
    )


def coverage(residual: Array) -> tuple[float, bool]:
    """The share of standardised residuals inside their intervals, and whether it is as large as chance allows."""
    share = float(np.mean(np.abs(residual) <= ndtri(0.5 * (1 + LEVEL))))
    return share, share >= LEVEL - TOLERATED * np.sqrt(LEVEL * (1 - LEVEL) / residual.size)


def _averages(fit: Fit, samples: Samples | None) -> tuple[Array, Array, Array, Integers] | None:
    """Thetas (m, p), averages and the variances of their errors (m, C), and numbers of points (m,); None if unknown."""
    if samples is None:
        kept: Any = getattr(fit, "averages", None)
        if kept is None or getattr(fit, "design", "iid") not in ("iid", "sobol") or kept.sizes is not None:
            return None
        several, parts = kept.counts > 1, (kept.theta, kept.mean, kept.variance, kept.counts)
    else:
        if not samples.drawn or samples.design == "mcmc":
            return None
        mean = samples.averages(samples.table)
        spread2 = samples.averages((samples.table - mean[samples.owners]) ** 2)
        variance = spread2 / np.maximum(samples.counts[:, None] - 1, 1)
        several, parts = samples.counts > 1, (samples.theta, mean, variance, samples.counts)
    theta, mean, variance, counts = (part[several] for part in parts)
    return (theta, mean, variance, counts) if len(theta) else None
