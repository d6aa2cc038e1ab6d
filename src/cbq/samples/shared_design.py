"""Points that several thetas share: common random numbers, or one design transported to the measure of each theta.

Errors at different thetas are then correlated and do not average out over thetas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from cbq.common import Array, Integers
from cbq.measures import Gaussian, Measure
from cbq.samples.arrays import equal_rows
from cbq.samples.probabilities import continuous, some_of

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

CLOSE, CLOSEST = 1e-5, 0.02  # largest difference of equal points, absolute and in units of 1 / n
FARTHEST = 8.0  # normal scores: beyond, probabilities have lost their digits
FEW = 100  # points without a coincidence: more of them rule out chance
STANDARD_ERRORS = 3.0  # margin for coincidences by chance
SINGLE = 0.1  # share of coincidences by chance if thetas have one point each


def thetas_per_point(samples: Samples) -> float:
    """The number of thetas that use a point, averaged over points: 1 where none is shared, T where all are.

    Two points are the same if x is the same, or their normal scores under the measures that they were drawn from. The
    order and the number of points may differ between thetas. Rounded points coincide by chance, as often as within a
    single theta; coordinates with atoms are ignored.
    """
    if samples.T < 2 or not samples.has_measure:
        return 1.0
    if samples.stochastic:
        samples = samples.merged()[0]  # replicates are no coincidence
    tested, which = some_of(samples, first=True), continuous(samples)
    theta, u = equal_rows(tested.theta)[1][tested.owners], tested._probabilities
    x, v = tested.all_points[:, which], ndtri(u[:, which & np.all(np.isfinite(u), axis=0)])
    near = np.all(np.abs(v) < FARTHEST, axis=1)
    return max(1.0, uses(x, theta, exactly=True), uses(v[near], theta[near]))


def uses(v: Array, theta: Integers, *, exactly: bool = False) -> float:
    """The number of thetas that use a point, averaged over points v (n, k) of the thetas with these numbers (n,)."""
    if not v.size:
        return 1.0
    n, T = len(v), int(np.max(theta)) + 1
    # Equal points are neighbours along any direction; along this one, distinct points of a grid stay apart.
    with np.errstate(all="ignore"):  # heavy tails may overflow
        order = np.argsort(v @ np.sqrt(np.arange(2.0, v.shape[1] + 2)), kind="stable")
        apart = np.any(np.abs(np.diff(v[order], axis=0)) > (0.0 if exactly else min(CLOSE, CLOSEST / n)), axis=1)
    place = np.concatenate([[0], np.cumsum(apart)])
    pairs, again = np.unique(place * T + theta[order], return_counts=True)  # one for each theta with a point at a place
    thetas = np.bincount(pairs // T)[place]  # (n,): their number
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

    If thetas share their measure and their points, v is x; otherwise v are the normal scores of x.
    """
    x = samples.x
    one_theta_twice = len(equal_rows(samples.theta)[0]) < samples.T
    if not isinstance(x, np.ndarray) or one_theta_twice or samples.T < 2 or x.shape[1] < 2:
        return None
    measure = samples.batched_measure()
    if measure is not None and not measure.batch_shape:
        shared = (x[0], measure) if np.all(x == x[0]) else None
    else:
        v = _normal_scores(samples, x)
        shared = None if v is None or not _agree(v) else (np.median(v, axis=0), standard_normal(samples.d))
    return None if shared is None or len(equal_rows(shared[0])[0]) < len(shared[0]) else shared


def _normal_scores(samples: Samples, x: Array) -> Array | None:
    """Standard normal coordinates (T, N, d) of the points; None if a measure has none or is discrete."""
    measure = samples.batched_measure()
    if any(points.has_atoms for points in samples.measures):
        return None  # scores of atoms are not normal
    try:
        if measure is not None:
            return measure.inverse_transport(x, base="normal")
        return np.stack(
            [m.inverse_transport(points, base="normal") for m, points in zip(samples.measures, x, strict=True)]
        )
    except (NotImplementedError, TypeError, ValueError):  # no transport, or points outside of the support
        return None


def _agree(v: Array, *, tolerance: float = 1e-9, lost: float = 256.0) -> bool:
    """Whether normal scores (T, N, d) are the same for all thetas, up to rounding errors.

    tolerance: allowed difference of scores of one point, besides rounding. lost: rounding errors of the probabilities
    behind the scores, in units of eps.
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
