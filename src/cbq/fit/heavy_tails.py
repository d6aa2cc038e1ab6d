"""Heavy tails of measures, which may hide an infinite variance of f, or a large share of it in the outermost points.

Where the distribution of a coordinate falls as P(|x - m| > r) ~ r^-a and f grows as |x - m|^b, E f^2 is infinite if
2 b >= a. Points hardly show it: the rare points that decide it were not drawn. The measure is known, and its
quantiles give a; the points give b. The same holds for the square of f, which decides the variance of an outcome:
errors of its average are finite if 4 b < a.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, Booleans, Integers, evenly
from cbq.fit.findings import EQUAL, Finding
from cbq.measures import Empirical, Measure
from cbq.samples import Samples

TAIL_PROBABILITIES = np.array([1e-6, 1e-9, 1e-12])
CONVERGED = 1.05  # the ratio of the exponents between these, up to which the tail counts as a power
FEW_THETAS, MOST_THETAS = 4, 100  # whose tails, and whose points are looked at
MIN_OUTER = 30  # points beyond the deciles, to estimate a growth from
DECILES = np.array([0.1, 0.5, 0.9])
MAX_GROWTH = 20.0
HEAVY_SHARE = 1.45  # of the outermost points in the variance of f, see `outer_share`
GROWTH, USUAL_N = 0.3, 30  # the share of a square grows with (N / 30)^0.3, relative to a linear function
TAILS_SHARE, MIN_FOR_TAILS = 1.3, 25  # a share that is worth a warning by itself, with so many points at a theta
LONG = 4.0  # the power below which squares have no finite variance
UNKNOWN = (NotImplementedError, TypeError, ValueError, ArithmeticError)  # of measures without far quantiles


@dataclass(frozen=True)
class PowerTail:
    """A coordinate in which a power of f has no finite variance. growth: b. exponent: a."""

    coordinate: int
    growth: float
    exponent: float


def infinite_variance(samples: Samples) -> tuple[Finding, ...]:
    """A finding where f has no finite variance along some coordinate of x, or too few points show whether it has."""
    return _infinite(samples, 1, "f") or _unseen_growth(samples)


def infinite_variance_of_squares(samples: Samples) -> tuple[Finding, ...]:
    """A finding where the square of f, which decides its variance, has no finite variance itself."""
    return _infinite(samples, 2, "the square of f")


def _infinite(samples: Samples, power: int, what: str) -> tuple[Finding, ...]:
    found = power_tail(samples, power)
    if found is None:
        return ()
    name = samples.names.x[found.coordinate]
    text = (
        f"f grows about as |{name}|^{found.growth:.2g}, and probabilities of large |{name}| fall as its power "
        f"-{found.exponent:.2g}: {what} has no finite variance, rare points decide the answer, and intervals need not "
        f"hold."
    )
    return (Finding("tails", text),)


def _unseen_growth(samples: Samples) -> tuple[Finding, ...]:
    """A finding where a coordinate has tails in which a square has no finite variance, and few points lie there."""
    heavy = {j: a for j, a in heavy_coordinates(samples).items() if a < LONG and not len(_growths(samples, j))}
    if not heavy:
        return ()
    j = min(heavy, key=lambda each: heavy[each])
    name, a = samples.names.x[j], heavy[j]
    text = (
        f"probabilities of large |{name}| fall as its power -{a:.2g}, and too few points lie there to show how f "
        f"grows: if as |{name}|^{a / 2:.2g} or faster, it has no finite variance, and intervals need not hold."
    )
    return (Finding("tails", text),)


def power_tail(samples: Samples, power: int = 1) -> PowerTail | None:
    """The coordinate in which the variance of this power of f diverges fastest; None if it diverges in none."""
    found = []
    for j, exponent in heavy_coordinates(samples).items():
        found += [PowerTail(j, b, exponent) for b in _growths(samples, j) if 2 * power * b >= exponent]
    return max(found, key=lambda each: 2 * power * each.growth - each.exponent, default=None)


def heavy_coordinates(samples: Samples) -> dict[int, float]:
    """The coordinates of x whose tails fall as a power, with the exponents; none unless points are draws of them."""
    return exponents(samples) if samples.drawn else {}  # points of a proposal may reach the tails


def exponents(samples: Samples) -> dict[int, float]:
    """The exponents of the coordinates of x whose tails fall as a power."""
    if not samples.has_measure:
        return {}
    some = evenly(samples.T, FEW_THETAS).tolist()
    found = {j: min(_exponent(samples, t, j) for t in some) for j in range(samples.d)}
    return {j: exponent for j, exponent in found.items() if np.isfinite(exponent)}


def has_long_tails(samples: Samples) -> bool:
    """Whether some coordinate falls, between probabilities of 1e-2 and 1e-4, more slowly than its fourth power.

    A linear function of such a coordinate has a variance that points hardly show. Wide lognormal distributions count,
    which fall faster than any power further out.
    """
    some = evenly(samples.T, FEW_THETAS).tolist()
    return any(_exponent(samples, t, j, _near_exponent) < LONG for t in some for j in range(samples.d))


def _near_exponent(marginal: Measure) -> float:
    """The power with which the heavier tail of a measure on the line falls between the two probabilities."""
    middle, *apart = marginal.transport(np.array([[0.5], [1e-2], [1e-4], [1 - 1e-2], [1 - 1e-4]]))[:, 0]
    near, far = np.log(np.abs(np.reshape(apart, (2, 2)) - middle)).T
    return float(np.min(np.log(100.0) / np.maximum(far - near, np.finfo(float).tiny)))


def _exponent(samples: Samples, t: int, j: int, exponent: Callable[[Measure], float] | None = None) -> float:
    """The exponent of the tails of coordinate j at theta t; inf where its distribution is not known."""
    measure = samples.measure(t)
    if measure.has_atoms or isinstance(measure, Empirical):
        return np.inf
    try:
        with np.errstate(all="ignore"):
            return (exponent or tail_exponent)(measure.marginal(j))
    except UNKNOWN:
        return np.inf


def tail_exponent(marginal: Measure) -> float:
    """The exponent a of the heavier tail of a measure on the line; inf if it falls faster than any power."""
    middle = marginal.transport(np.array([[0.5]]))[0, 0]
    ends = [marginal.transport(u[:, None])[:, 0] - middle for u in (TAIL_PROBABILITIES, 1 - TAIL_PROBABILITIES)]
    exponents = [np.inf]
    for apart in np.abs(ends):
        first, second = -np.diff(np.log(TAIL_PROBABILITIES)) / np.diff(np.log(apart))
        if np.isfinite(second) and 0 < second <= CONVERGED * first:
            exponents.append(float(second))
    return min(exponents)


def _growths(samples: Samples, j: int) -> Array:
    """The exponent b of the growth of each output along coordinate j beyond its deciles, (C,), less a standard error.

    Empty where too few points tell it.
    """
    distances, sizes = [], []
    for t in evenly(samples.T, MOST_THETAS).tolist():
        low, middle, high = samples.measure(t).marginal(j).transport(DECILES[:, None])[:, 0]
        x, f = samples.points(t)[:, j], samples.table[samples.starts[t] : samples.starts[t] + samples.counts[t]]
        size, outer = np.abs(f - np.median(f, axis=0)), (x < low) | (x > high)
        distances.append(np.log(np.abs(x[outer] - middle) / (high - low)))
        sizes.append(size[outer] / np.maximum(np.median(size, axis=0), np.finfo(float).tiny))
    r, y = np.concatenate(distances), np.concatenate(sizes)
    return np.array([_power(r, column) for column in y.T]) if len(r) >= MIN_OUTER else np.empty(0)


def _power(r: Array, y: Array) -> float:
    """The exponent b, less a standard error, for which sizes y (n,) have means proportional to exp(b r), r (n,).

    By the likelihood of exponential distributions, which zeros do not spoil: b maximises -log mean(y exp(-b r)) - b
    mean(r), up to a factor.
    """
    if not np.any(y > 0) or np.std(r) == 0:
        return 0.0

    from scipy.optimize import minimize_scalar  # slow to import, and rarely needed

    def loss(b: float) -> float:
        return float(np.log(np.mean(y * np.exp(-b * (r - np.mean(r))))))

    b = float(minimize_scalar(loss, bounds=(0.0, MAX_GROWTH), method="bounded").x)
    ratio = y * np.exp(-b * (r - np.mean(r)))
    return b - float(np.std(ratio) / np.mean(ratio) / (np.sqrt(len(r)) * np.std(r)))


def tails(samples: Samples) -> tuple[Finding, ...]:
    """A finding where the outermost points of the thetas have a large share in the variance of some output."""
    if np.mean(samples.counts) < MIN_FOR_TAILS or not samples.drawn:
        return ()
    f = samples.table
    unit = np.maximum(np.max(np.abs(f), axis=0), np.finfo(float).tiny)
    varies = samples.averages(np.abs(f - samples.averages(f)[samples.owners]) / unit) > EQUAL
    scaled = samples.rescaled(0.0, unit)
    if not any(np.any(outer_share(scaled, outer, varies) > TAILS_SHARE) for outer in outermost_sets(samples)):
        return ()
    text = (
        "f varies most at the outermost points: what lies beyond them, in the tails of the measures, is unknown. "
        "Intervals are not widened because of it."
    )
    return (Finding("tails", text),)


def outer_share(samples: Samples, outer: Booleans, varies: Array | Booleans) -> Array:
    """The share (C,) of the outermost points in the variance of f at the thetas at which it varies (T, C).

    In units of the share of a linear function of normal inputs, times the ratio of the shares of a square with N points
    and with a usual number.
    """
    apart2 = (samples.table - samples.averages(samples.table)[samples.owners]) ** 2
    there, everywhere = samples.averages(apart2 * outer[:, None]), samples.averages(apart2)  # (T, C)
    shares = np.divide(there, everywhere, out=np.zeros_like(there), where=everywhere > 0)
    shares /= linear_shares(samples.counts, samples.averages(outer.astype(np.float64)))[:, None]
    share = np.sum(varies * shares, axis=0) / np.maximum(np.sum(varies, axis=0), np.finfo(float).tiny)
    return np.asarray(share / (float(np.mean(samples.counts)) / USUAL_N) ** GROWTH)


def linear_shares(counts: Integers, parts: Array) -> Array:
    """The share (T,) of the variance of a linear function of one normal input that its outermost points have.

    counts: (T,), the numbers N of points. parts: (T,), which part of them are outermost in some coordinate.
    """
    found = np.ones(len(counts))
    for N in np.unique(counts[counts > 2]):
        scores2 = ndtri((np.arange(1, N + 1) - 0.375) / (N + 0.25)) ** 2  # near the expected order statistics
        own = 2 * scores2[0] / np.sum(scores2)
        others = np.maximum(parts[counts == N] * N - 2, 0.0) / (N - 2)  # of other coordinates: any points
        found[counts == N] = own + (1 - own) * others
    return found


def outermost_sets(samples: Samples) -> list[Booleans]:
    """Sets of points (n,) that are outermost in any coordinate, and in each coordinate with heavy tails by itself.

    Among several coordinates, the points that are outermost in the others would hide the ones of a heavy coordinate.
    """
    heavy = heavy_coordinates(samples) if samples.d > 1 else []
    return [outermost(samples), *(outermost(samples, j) for j in heavy)]


def outermost(samples: Samples, j: int | None = None) -> Booleans:
    """Which of the points (n,) are the largest or the smallest of their theta in any coordinate, or in coordinate j."""
    found = np.zeros(samples.n_evaluations, dtype=bool)
    for t in range(samples.T):
        x = samples.points(t) if j is None else samples.points(t)[:, j : j + 1]
        found[samples.starts[t] + np.argmax(x, axis=0)] = True
        found[samples.starts[t] + np.argmin(x, axis=0)] = True
    return found
