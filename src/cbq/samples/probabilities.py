"""Probabilities of points under the measures that they were drawn from, and points that several thetas share.

In probability transforms, draws of every measure are uniform on the unit cube, so that points of all thetas can be
compared and pooled. Thetas share points that have equal transforms: common random numbers, or one design transported to
the measure of each theta. Errors at different thetas are then correlated and do not average out over thetas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from cbq.common import Array, Booleans, Integers, evenly
from cbq.measures import Empirical, Gaussian, Measure
from cbq.samples.arrays import equal_rows
from cbq.samples.conditional import ConditionalMeasure

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

MAX_POINTS = 2**16  # tested, of all thetas together
MAX_COSTLY_POINTS = 2**11  # if scipy may integrate a density for each point
MAX_ATOMS = 2**14  # of one measure: probabilities of points are sums over all atoms
BLOCK = 2**22  # pairs of a point and an atom in memory at a time
CLOSE, CLOSEST = 1e-5, 0.02  # largest difference of equal points, absolute and in units of 1 / n
FARTHEST = 8.0  # normal scores: beyond, probabilities have lost their digits
FEW = 100  # points without a coincidence: more of them rule out chance
STANDARD_ERRORS = 3.0  # margin for coincidences by chance
SINGLE = 0.1  # share of coincidences by chance if thetas have one point each
NEGLIGIBLE = 1e-14  # the mass of atoms at which f need not be known


def source(samples: Samples) -> ConditionalMeasure | None:
    """The measures that the points were drawn from: of x, or proposals; None if unknown, or if a rule chose points."""
    if samples.design == "adaptive" or not samples.has_measure:
        return None
    return samples.conditional if samples.log_weights is None else samples._proposal


def _of_points(samples: Samples) -> ConditionalMeasure:
    """The measures that the points were drawn from, or else the measures of x."""
    return source(samples) or samples.conditional


def some_of(samples: Samples, *, first: bool = False) -> Samples:
    """The points to test, at each theta if there are not too many thetas: evenly spaced, or the `first` ones."""
    costly = any(measure.has_slow_transport for measure in _of_points(samples).distinct)
    most = MAX_COSTLY_POINTS if costly else MAX_POINTS
    if samples.n_evaluations <= most:
        return samples
    kept = samples.select(evenly(samples.T, most)) if most < samples.T else samples
    per_theta = max(1, most // kept.T)
    chosen = [np.arange(min(n, per_theta)) if first else evenly(int(n), min(int(n), per_theta)) for n in kept.counts]
    return kept.regrouped([start + rows for start, rows in zip(kept.starts, chosen, strict=True)])


def probabilities(samples: Samples) -> Array:
    """The probability transforms (n, d) of all points under the measures of their thetas; NaN if there is none.

    They are independent and uniform for draws of continuous measures. At an atom, they are P(X < x) + P(X = x) / 2.
    """
    measures, x = _of_points(samples), samples.x
    batched = measures.stacked
    if batched is not None and isinstance(x, np.ndarray):
        return _transformed(batched, x).reshape(-1, samples.d)
    if batched is not None and not batched.batch_shape:
        return _transformed(batched, samples.all_points)
    separate = measures.all_observed if batched is None else [batched[t] for t in range(samples.T)]
    return np.concatenate([_transformed(measure, samples.points(t)) for t, measure in enumerate(separate)])


def _transformed(measure: Measure, x: Array) -> Array:
    """The probability transforms of points x (..., n, d), by independent blocks if some have none."""
    try:
        with np.errstate(all="ignore"):
            u = _in_blocks(measure, x)
        return u if u.shape == x.shape else np.full(x.shape, np.nan)
    except Exception:  # a user's measure may raise any error; a missing transform only loses a test
        parts, stops = measure.factors(), np.cumsum([part.dim for part in measure.factors()])
        if len(parts) == 1:
            return np.full(x.shape, np.nan)
        columns = np.split(x, stops[:-1], axis=-1)
        return np.concatenate([_transformed(*pair) for pair in zip(parts, columns, strict=True)], axis=-1)


def _in_blocks(measure: Measure, x: Array) -> Array:
    """`inverse_transport` of points (..., n, d), in blocks, so that sums over atoms fit into memory."""
    atoms = _atoms(measure)
    if atoms > MAX_ATOMS:
        return np.full(x.shape, np.nan)
    thetas = max(1, int(np.prod(x.shape[:-2])))
    step = x.shape[-2] if not atoms else max(1, BLOCK // (atoms * thetas))
    parts = [measure.inverse_transport(x[..., i : i + step, :]) for i in range(0, x.shape[-2], step)]
    return np.concatenate(parts, axis=-2)


def _atoms(measure: Measure) -> int:
    """The largest number of atoms of a measure or one of its parts; zero if it has none."""
    own = measure.points.shape[-2] if isinstance(measure, Empirical) else 0
    return max([own, *(_atoms(part) for part in measure._parts)])


def continuous(samples: Samples) -> Booleans:
    """Which coordinates of the points have no atoms at any theta: (d,)."""
    kept = np.ones(samples.d, dtype=bool)
    for measure in _of_points(samples).distinct:
        if measure.has_atoms:
            kept &= np.concatenate([np.full(part.dim, not part.has_atoms) for part in measure.factors()])
    return kept


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
    except (NotImplementedError, TypeError, ValueError):  # no transport, or points outside the support
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


@dataclass(frozen=True, eq=False)
class Enumerated:
    """Which thetas (T,) have all their atoms among their points, and the weights (n,) of points; zero elsewhere."""

    thetas: Booleans
    weights: Array

    @classmethod
    def of(cls, samples: Samples) -> Enumerated:
        """The enumerated thetas of samples, in which no points of a theta are equal."""
        weights, thetas = np.zeros(samples.n_evaluations), np.zeros(samples.T, dtype=bool)
        if samples.stochastic or samples.log_weights is not None:
            return cls(thetas, weights)
        for t, measure in enumerate(samples.measures):
            if isinstance(measure, Empirical):
                masses = _atom_weights(measure, samples.points(t))
                thetas[t] = np.sum(masses) >= 1 - NEGLIGIBLE
                if thetas[t]:
                    weights[samples.starts[t] : samples.starts[t] + samples.counts[t]] = masses / np.sum(masses)
        return cls(thetas, weights)

    def sums(self, samples: Samples) -> Array:
        """The integrals (T, C), zero for other thetas."""
        return np.asarray(np.add.reduceat(self.weights[:, None] * samples.table, samples.starts, axis=0))


def without_listed(samples: Samples) -> Samples | None:
    """The samples without thetas that list all their atoms, each equally often; None if no theta is left."""
    if not any(isinstance(measure, Empirical) for measure in samples.conditional.distinct):
        return samples
    merged, group = samples._replaced(stochastic=False).merged()
    times = np.bincount(group)
    same = np.maximum.reduceat(times, merged.starts) == np.minimum.reduceat(times, merged.starts)
    listed = Enumerated.of(merged).thetas & same
    return None if np.all(listed) else samples.select(~listed) if np.any(listed) else samples


def _atom_weights(measure: Empirical, x: Array) -> Array:
    """The probabilities (N,) of distinct points x (N, d)."""
    used = measure.weights > 0
    atoms, weights = measure.points[used], measure.weights[used]
    distinct, which = np.unique(np.concatenate([x, atoms]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    mass = np.bincount(which[len(x) :], weights, minlength=len(distinct))
    return np.asarray(mass[which[: len(x)]])
