"""The method that suits the samples: chosen by cost, by what f depends on, and by the errors that methods expect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, evenly
from cbq.embeddings import NoEmbedding
from cbq.fit.base import Fit
from cbq.measures import Empirical, Unnormalised
from cbq.methods.averages import require_samples
from cbq.methods.cbq import CBQ
from cbq.methods.cbq_fit import CBQFit
from cbq.methods.mobq import MOBQ
from cbq.methods.mobq_fit import MOBQFit
from cbq.methods.registry import estimator
from cbq.pooled import UNKNOWN
from cbq.samples import Samples

MOST_POOLED = 5000  # points
BORROWED = 200  # points that each theta has where it borrows
LEARNT = 0.02  # leave-one-out error of f, in units of its spread: below, nothing is gained by borrowing
# the ratio of the error that one process expects to that of two stages, up to which it is taken
IF_LEARNT = 30.0  # two stages do not foresee their errors between and beyond the thetas, and it needs no interpolation
OTHERWISE = 1.0
WITH_THETA = 0.25  # one kernel for x and theta fits an f that turns with theta badly
LOOKED_AT = 100  # thetas, at most, at which errors are compared
TWO_STAGES = "conditional Bayesian quadrature"
POOLED = "one process on all points"


@estimator("auto", title="chosen for the samples", order=10)
@dataclass(frozen=True)
class Auto:
    """The method that suits the samples. A configuration: `fit` changes nothing.

    Where there is a family, embeddings in shared coordinates and at most 5000 points, one process on all points
    (`cbq.MOBQ`) is fitted, and compared with conditional Bayesian quadrature (`cbq.CBQ`) by the errors that both
    expect at the observed thetas and between them. If f does not depend on theta, and leaving one point out shows that
    the process has learnt it, it is taken unless it expects far more than the other; if it has not, the smallest of
    three is taken, `cbq.CBQ(borrow=200)` being the third. If f depends on theta, the process has to expect a quarter
    of the error of the other or less. See docs/methods.md for how well this chooses.

    `fit` returns the fit of the method that was chosen, whose `summary()` begins with the choice and its reason.
    """

    def fit(self, samples: Samples) -> CBQFit | MOBQFit:
        """The distribution of I over theta from samples, by the method that suits them."""
        require_samples(samples)
        plain, pooled = CBQ().fit(samples), _pooled(samples)
        rivals: dict[str, CBQFit] = {TWO_STAGES: plain}
        learnt = (
            isinstance(pooled, MOBQFit)
            and not samples.depends_on_theta
            and max(part.chosen.error for part in pooled.parts) <= LEARNT
        )
        if _can_borrow(samples) and not learnt:
            rivals[f"{TWO_STAGES} with borrowed points"] = CBQ(borrow=BORROWED).fit(samples)
        theta = _looked_at(samples)
        errors = {name: _expected(fit, theta) for name, fit in rivals.items()}
        kind = min(errors, key=lambda name: _ratio(errors[name], errors[TWO_STAGES]))
        if isinstance(pooled, str):
            return rivals[kind].with_choice(f"{kind}, because {pooled}.")
        ratio = _ratio(_expected(pooled, theta), errors[kind])
        most = WITH_THETA if samples.depends_on_theta else IF_LEARNT if learnt else OTHERWISE
        why = f"expects {ratio:.2g} times the error of {kind}, and up to {most:g} times it is taken"
        why += " where it has learnt f" * learnt + " where f depends on theta" * samples.depends_on_theta
        if ratio <= most:
            return pooled.with_choice(f"{POOLED}, which {why}.")
        return rivals[kind].with_choice(f"{kind}, because {POOLED} {why}.")


def _pooled(samples: Samples) -> MOBQFit | str:
    """One process on all points, or why there is none."""
    if samples.n_evaluations > MOST_POOLED:
        return f"{samples.n_evaluations} points are many for {POOLED}: cbq.MOBQ(nystrom=1000) would take them"
    if not samples.conditional.everywhere:
        return f"the samples have no family, which {POOLED} needs between thetas"
    try:
        fit = MOBQ().fit(samples)
    except (NoEmbedding, ValueError) as error:
        return f"{POOLED} cannot be had ({str(error).partition(':')[0]})"
    return f"{POOLED} has not learnt f" if any(part.chosen.error >= UNKNOWN for part in fit.parts) else fit


def _can_borrow(samples: Samples) -> bool:
    """Whether thetas may take points of others, and lack any."""
    unknown_bulk = any(isinstance(measure, Empirical | Unnormalised) for measure in samples.measures)
    return (
        not samples.depends_on_theta and samples.T > 1 and bool(np.any(samples.counts < BORROWED)) and not unknown_bulk
    )


def _looked_at(samples: Samples) -> Array:
    """Some of the thetas, and the points halfway to their nearest neighbours where the measure of x is known there."""
    theta = samples.theta[evenly(samples.T, LOOKED_AT)]
    units = np.maximum(np.std(theta, axis=0), np.finfo(float).tiny)
    apart = np.sum(((theta[:, None] - theta) / units) ** 2, axis=-1)
    apart[apart == 0] = np.inf
    both = np.concatenate([theta, 0.5 * (theta + theta[np.argmin(apart, axis=1)])])
    try:
        samples.conditional(both)
    except ValueError:  # a family for some thetas only, or none
        return theta
    return both


def _expected(fit: Fit, theta: Array) -> Array:
    """The root-mean-square error (C,) that a fit expects at thetas (M, p)."""
    _, std = fit.predict(theta, return_std=True)
    size = np.sqrt(np.mean(std.reshape(len(std), -1) ** 2, axis=0))
    return np.asarray(np.maximum(size, np.finfo(float).tiny))


def _ratio(errors: Array, others: Array) -> float:
    """The ratio of errors (C,), averaged over outputs in logarithms."""
    return float(np.exp(np.mean(np.log(errors) - np.log(others))))
