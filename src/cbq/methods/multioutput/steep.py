"""Candidates where f is steepest: between runs whose values differ much for their distance.

Candidates that are drawn from the measures hardly ever fall into the gap between two runs on either side of a jump once
the gap is small. Those between two runs that are the steepest neighbours of each other do, however small it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cbq._arrays import Array, Booleans, Integers
from cbq.measures import Measure
from cbq.samples.runs import Runs

if TYPE_CHECKING:
    from cbq.methods.multioutput.fit import MOBQFit

N_BETWEEN, N_PAIRS = 192, 64  # candidates, and pairs of runs that they lie between, at most
LEAST_VOLUME = 1e-4  # of a cube with the gap as its side, in units of the spread of the runs: less hardly matters
ROUNDING = 1e-12  # of values: less is constant
ROWS = 256  # of runs whose distances to all others are in memory at a time


def between_steepest(fit: MOBQFit, prior: Measure | None, rng: np.random.Generator) -> Runs:
    """Runs between those of a fit, at random places between two that are the steepest neighbours of each other.

    Where f does not depend on theta, they have that of one of the two. Runs outside of the support of the prior, if it
    is known, or of the measure of x are left out, such as those between atoms.
    """
    samples = fit.samples
    made = Runs(samples.theta[samples.owners], samples.all_points)
    pairs = steepest_pairs(made.inputs(of_theta=samples.depends_on_theta), samples.table[:, fit.jumping])
    if not len(pairs):
        return made.take(slice(0))
    pairs = np.repeat(pairs, -(-N_BETWEEN // len(pairs)), axis=0)
    one, other = (made.take(rows) for rows in pairs.T)
    share = rng.random((len(pairs), 1))
    theta = one.theta + share * (other.theta - one.theta) * samples.depends_on_theta
    found = Runs(theta, one.x + share * (other.x - one.x))
    if prior is not None and samples.depends_on_theta:  # the family may have no measure elsewhere
        found = found.take(_in_support(prior, theta))
    return found.take(found.inside(samples.conditional)) if len(found) else found


def _in_support(prior: Measure, theta: Array) -> Booleans:
    """Which of the thetas (n, p) the prior supports; none if it has no density."""
    try:
        return np.asarray(prior.logpdf(theta) > -np.inf)
    except TypeError:
        return np.zeros(len(theta), dtype=bool)


def steepest_pairs(u: Array, f: Array) -> Integers:
    """The pairs (m, 2) of inputs u (n, D) with values f (n, C) that are the steepest neighbours of each other.

    Those come first whose distance times the difference of their values is largest, which bounds what is not known of
    an integral across the gap. Distances and differences are in units of the standard deviations of u and f.
    """
    u, f = (_standardised(each) for each in (u, f))
    least2 = LEAST_VOLUME ** (2 / u.shape[1])
    steepest, area2 = np.arange(len(u)), np.zeros(len(u))
    for start in range(0, len(u), ROWS):
        rows = np.arange(start, min(start + ROWS, len(u)))
        apart2, change2 = (np.sum((each[rows, None] - each) ** 2, axis=-1) for each in (u, f))
        slope2 = np.where(apart2 > least2, change2 / np.maximum(apart2, least2), 0.0)
        steepest[rows] = np.argmax(slope2, axis=1)
        area2[rows] = (apart2 * change2)[rows - start, steepest[rows]]
    first = np.flatnonzero((steepest[steepest] == np.arange(len(u))) & (np.arange(len(u)) < steepest) & (area2 > 0))
    first = first[np.argsort(-area2[first], kind="stable")[:N_PAIRS]]
    return np.column_stack([first, steepest[first]])


def _standardised(values: Array) -> Array:
    """Values (n, k) less their means, in units of their standard deviations; a constant is zero."""
    std = np.std(values, axis=0)
    varies = std > ROUNDING * np.max(np.abs(values), axis=0)
    return np.where(varies, (values - np.mean(values, axis=0)) / np.where(varies, std, 1.0), 0.0)
