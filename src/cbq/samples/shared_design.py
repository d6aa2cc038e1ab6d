"""Points that several thetas share: common random numbers, or one design that is moved to the measure of each theta.

Errors at different thetas are then alike: no number of thetas averages them away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from cbq._arrays import Array, Integers
from cbq.measures import Gaussian, Measure
from cbq.samples.arrays import equal_rows
from cbq.samples.probabilities import continuous, some_of

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

CLOSE, CLOSEST = 1e-5, 0.02  # differences of points that are the same, at most, and in units of 1 / n
FARTHEST = 8.0  # normal scores beyond which probabilities have lost their digits
FEW = 100  # points, of which no two coincide: more of them show that this is no chance
STANDARD_ERRORS = 3.0  # by which more points coincide than those of a single theta do
SINGLE = 0.1  # the share of coincidences that may be chance where thetas have one point each


def thetas_per_point(samples: Samples) -> float:
    """The number of thetas that use a point, averaged over points: 1 where none is shared, T where all are.

    Points are the same where x is, or where their normal scores are, under the measures that they were drawn from. The
    order of the points and their numbers may differ between thetas. Rounded points coincide by chance, as often as in
    a single theta; coordinates with atoms say nothing.
    """
    if samples.T < 2 or not samples.has_measure:
        return 1.0
    if samples.stochastic:
        samples = samples.merged()[0]  # replicates are no coincidence
    some, which = some_of(samples, first=True), continuous(samples)
    theta, u = equal_rows(some.theta)[1][some.owners], some._probabilities
    x, v = some.all_points[:, which], ndtri(u[:, which & np.all(np.isfinite(u), axis=0)])
    near = np.all(np.abs(v) < FARTHEST, axis=1)
    return max(1.0, uses(x, theta, exactly=True), uses(v[near], theta[near]))


def uses(v: Array, theta: Integers, *, exactly: bool = False) -> float:
    """The number of thetas that use a point, averaged over points v (n, k) of the thetas with these numbers (n,)."""
    if not v.size:
        return 1.0
    n, T = len(v), int(np.max(theta)) + 1
    # Equal points are neighbours along any direction; along this one, grids have no others side by side.
    with np.errstate(all="ignore"):  # heavy tails may overflow
        order = np.argsort(v @ np.sqrt(np.arange(2.0, v.shape[1] + 2)), kind="stable")
        apart = np.any(np.abs(np.diff(v[order], axis=0)) > (0.0 if exactly else min(CLOSE, CLOSEST / n)), axis=1)
    place = np.concatenate([[0], np.cumsum(apart)])
    pairs, again = np.unique(place * T + theta[order], return_counts=True)  # each theta that has a point at a place
    thetas = np.bincount(pairs // T)[place]  # (n,): how many
    tied = int(np.sum(again[again > 1]))  # points that coincide with another one of their theta
    shared, by_chance = (np.mean(thetas) - 1) / max(T - 1, 1), _by_chance(tied, n, T)  # with another theta
    return float(1 + (T - 1) * max(0.0, shared - by_chance) / (1 - by_chance)) if by_chance < 1 else 1.0


def _by_chance(tied: int, n: int, T: int) -> float:
    """The largest share of n points of T thetas that may coincide with points of another theta by chance.

    tied: the number of points that coincide with one of the N - 1 others of their own theta; there are N of another.
    """
    if n <= T:
        return SINGLE
    share = min(1.0, (tied + STANDARD_ERRORS * np.sqrt(tied + n / (n + FEW))) / n)
    return float(1 - (1 - share) ** (n / (n - T)))


def common_points(samples: Samples) -> tuple[Array, Measure] | None:
    """The points v (N, d) that all thetas share, and the measure of v; None if they do not share a design.

    Where thetas share their measure and their points, v is x; otherwise its normal scores under the measures.
    """
    x = samples.x
    one_theta_twice = len(equal_rows(samples.theta)[0]) < samples.T
    if not isinstance(x, np.ndarray) or one_theta_twice or samples.T < 2 or x.shape[1] < 2:
        return None
    measure = samples.batched_measure()
    if measure is not None and not measure.batch_shape:
        found = (x[0], measure) if np.all(x == x[0]) else None
    else:
        v = _normal_scores(samples, x)
        found = None if v is None or not _agree(v) else (np.median(v, axis=0), standard_normal(samples.d))
    return None if found is None or len(equal_rows(found[0])[0]) < len(found[0]) else found


def _normal_scores(samples: Samples, x: Array) -> Array | None:
    """Standard normal coordinates (T, N, d) of the points; None if a measure has none or is discrete."""
    measure = samples.batched_measure()
    if any(each.has_atoms for each in samples.measures):
        return None  # scores of atoms are not normal
    try:
        if measure is not None:
            return measure.inverse_transport(x, base="normal")
        return np.stack([m.inverse_transport(each, base="normal") for m, each in zip(samples.measures, x, strict=True)])
    except (NotImplementedError, TypeError, ValueError):  # no transport, or points outside of the support
        return None


def _agree(v: Array, *, tolerance: float = 1e-9, lost: float = 256.0) -> bool:
    """Whether normal scores (T, N, d) are the same for all thetas, but for rounding errors.

    tolerance: by which scores of one point may differ, where rounding is smaller. lost: the rounding errors, in units
    of eps, of the probabilities that scores are made from.
    """
    if not np.all(np.isfinite(v)):
        return False
    low, high = np.min(v, axis=0), np.max(v, axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    rounding = lost * np.finfo(float).eps * ndtr(high) / (np.exp(-0.5 * size**2) / np.sqrt(2 * np.pi))
    return bool(np.all(high - low <= tolerance * (1.0 + size) + rounding))


def standard_normal(d: int) -> Gaussian:
    """The measure of normal scores in d dimensions."""
    return Gaussian(np.zeros(d), np.ones(d))
