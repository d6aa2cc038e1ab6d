"""What is known of f at points of a measure, as distributions: of all that is known, and of each draw of f.

Given the runs and the scale of errors, a value of f is Gaussian around its mean m(x). Averaged over points with the
weights w, its distribution function is

    F(c) = sum_i w_i Phi((c - m_i) / s_i),

and every estimate is a functional of this F: its quantiles, its moments, E[f | f > ppf(q)].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from cbq.common import Array, Integers

TINY, HUGE = np.finfo(float).tiny, 1e300


@dataclass(frozen=True, eq=False)
class Marginals:
    """What is known of f at n points: means (n,) and standard deviations (n,).

    weights: (n,), which sum to one. low, high: the bounds of f.
    """

    weights: Array
    mean: Array
    std: Array
    low: float
    high: float

    def take(self, rows: slice | Integers, weights: Array | None = None) -> Marginals:
        """Some of the points, with weights of their own."""
        weights = self.weights[rows] if weights is None else weights
        return Marginals(weights / np.sum(weights), self.mean[rows], self.std[rows], self.low, self.high)

    def cdf(self, c: Array) -> Array:
        """F (K,) at values c (K,)."""
        found = np.array([_below(at, self.mean, self.std) @ self.weights for at in c])
        return _within_bounds(c, found, self.low, self.high)

    @cached_property
    def _reach(self) -> Array:
        """How far (n,) values are from their means at most, but for a probability of 1e-18."""
        return np.asarray(9.0 * self.std)

    def _between(self, q: Array) -> tuple[Array, Array]:
        """Ends (K,) between which the quantiles of F are: the quantiles if all values were at their ends."""
        return _quantiles(self.mean - self._reach, self.weights, q), _quantiles(
            self.mean + self._reach, self.weights, q
        )

    def ppf(self, q: Array, steps: int = 52) -> Array:
        """Quantiles (K,) of F, by bisection, to 2^-steps of the reach of a value."""
        low, high = self._between(q)
        for _ in range(steps):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(np.clip(high, self.low, self.high))

    def standardised(self, c: float) -> Array:
        """(c - mean) / std (n,)."""
        return _standardised(c, self.mean, self.std, most=HUGE)

    def variance(self, _: Array) -> Array:
        """The variance (1,) of F."""
        centre = float(self.mean @ self.weights)  # squares of values far from zero would cancel
        first, second = _moments(self.mean - centre, self.std, self.low - centre, self.high - centre)
        return np.atleast_1d(np.maximum(second @ self.weights - (first @ self.weights) ** 2, 0.0))

    def squares(self) -> Array:
        """What each point adds to the variance, (n,)."""
        mean = np.clip(self.mean, self.low, self.high)
        return np.asarray(self.weights * ((mean - mean @ self.weights) ** 2 + self.std**2))

    def beyond_all(self, k: int = 64) -> float:
        """The share of the variance that seems to lie beyond all points; 1 if it has no limit.

        The outermost k distances from the mean give the power -a with which they fall in their rank (Hill's estimate):
        squares beyond the last of n points then add its square / (n (1 - 2 a)).
        """
        centre, n = float(self.mean @ self.weights), len(self.mean)
        y = -np.sort(-np.abs(np.clip(self.mean, self.low, self.high) - centre))[: k + 1]
        if len(y) <= k or not y[k] > 0:
            return 0.0
        a = float(np.mean(np.log(y[:k] / y[k])))
        last2 = float(y[k] * k**a) ** 2
        return min(1.0, last2 / (n * (1 - 2 * a) * float(self.variance(y)[0]))) if a < 0.5 else 1.0

    def beyond(self, q: float) -> Array:
        """What each point adds to the probability beyond a quantile, (n,): above it, or below it for q < 1/2."""
        below = _below(float(self.ppf(np.array([q]))[0]), self.mean, self.std)
        return np.asarray(self.weights * (below if q < 0.5 else 1 - below))

    def shortfall(self, q: Array) -> Array:
        """E[f | the upper 1 - q of F] (K,)."""
        v = self.ppf(q)
        above = np.array([_excess(at, self.mean, self.std, self.high) @ self.weights for at in v])
        return np.asarray(v + above / (1 - q))


@dataclass(frozen=True, eq=False)
class OutcomeDraws:
    """Draws of f at n points: means (size, n), standard deviations (size, n) around them, and values (size, n)."""

    weights: Array
    mean: Array
    std: Array
    values: Array
    low: float
    high: float

    def cdf(self, c: Array) -> Array:
        """F (size, K) of each draw at values c (K,)."""
        found = np.stack([_below(at, self.mean, self.std) @ self.weights for at in c], axis=-1)
        return _within_bounds(c, found, self.low, self.high)

    def ppf(self, q: Array) -> Array:
        """Quantiles (size, K) of each draw."""
        return np.stack([_quantiles(values, self.weights, q) for values in self.values])

    def variance(self, _: Array) -> Array:
        """The variance (size, 1) of each draw."""
        centre = self.values @ self.weights
        return np.asarray((self.values - centre[:, None]) ** 2 @ self.weights)[:, None]

    def shortfall(self, q: Array) -> Array:
        """E[f | the upper 1 - q] (size, K) of each draw."""
        v = self.ppf(q)
        above = [np.maximum(self.values - at[:, None], 0.0) @ self.weights for at in v.T]
        return np.asarray(v + np.stack(above, axis=-1) / (1 - q))


def snapped(mean: Array, std: Array, atoms: Array, reach: Array) -> tuple[Array, Array]:
    """Means (..., n) and standard deviations (..., n), with values that are one of the atoms (A,) moved there.

    reach: (..., n), how far a mean may be from an atom.
    """
    for value in atoms:
        near = np.abs(mean - value) <= reach
        mean, std = np.where(near, value, mean), np.where(near, 0.0, std)
    return mean, std


def _quantiles(values: Array, weights: Array, q: Array) -> Array:
    """The quantiles (K,) of values (n,) with weights (n,): the smallest value up to which there is a weight of q."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return np.asarray(values[order[np.minimum(np.searchsorted(total, q * total[-1]), len(order) - 1)]])


def _within_bounds(c: Array, F: Array, low: float, high: float) -> Array:
    return np.where(c >= high, 1.0, np.where(c < low, 0.0, F))


def _below(c: float, mean: Array, std: Array) -> Array:
    """The probability that a Gaussian value is at most c; a value with std zero counts as it is."""
    apart = c - mean
    near = np.abs(apart) < 9.0 * std  # elsewhere Phi is 0 or 1, but for 1e-19
    found = np.where(np.broadcast_to(apart >= 0, std.shape), 1.0, 0.0)
    found[near] = ndtr(np.broadcast_to(apart, std.shape)[near] / std[near])
    return found


def _standardised(c: float, mean: Array, std: Array, *, most: float = 40.0) -> Array:
    """(c - mean) / std, between -40 and 40: beyond, Phi is 0 or 1."""
    apart = np.clip(c, -HUGE, HUGE) - mean
    return np.asarray(apart / np.maximum(np.maximum(std, np.abs(apart) / most), TINY))


def _moments(mean: Array, std: Array, low: float, high: float) -> tuple[Array, Array]:
    """The first and second moments of Gaussian values that are moved into [low, high]."""
    a, b = _standardised(low, mean, std), _standardised(high, mean, std)
    below, above = ndtr(a), ndtr(-b)
    inside, fa, fb = 1 - below - above, _density(a), _density(b)
    bottom, top = (end if np.isfinite(end) else 0.0 for end in (low, high))  # an infinite end has no mass
    first = bottom * below + top * above + mean * inside + std * (fa - fb)
    second = bottom**2 * below + top**2 * above + (mean**2 + std**2) * inside
    return first, second + 2 * mean * std * (fa - fb) + std**2 * (a * fa - b * fb)


def _excess(v: float, mean: Array, std: Array, high: float) -> Array:
    """E max(min(f, high) - v, 0) of Gaussian values, for v at most high."""

    def beyond(end: float) -> Array:  # E max(f - end, 0)
        z = -_standardised(end, mean, std)
        return np.where(std > 0, (mean - end) * ndtr(z) + std * _density(z), np.maximum(mean - end, 0.0))

    return beyond(v) - (beyond(high) if np.isfinite(high) else 0.0)


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
