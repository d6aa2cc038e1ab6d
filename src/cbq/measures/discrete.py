"""Measures on points with probabilities: draws with weights, and discrete families on the line.

Expectations, and embeddings under any kernel, are finite sums. A measure with infinitely many atoms drops about 1e-17
of its mass, less than the rounding error of the sum.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import NoReturn, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from cbq.common import Array, broadcast_batch, finite, require_memory
from cbq.io import Numbers, saved
from cbq.measures.base import Measure, parameter, positive_parameter
from cbq.measures.univariate import columns, stirling

LOG_TAIL = 40.0  # the mass beyond the outermost atoms is at most exp(-LOG_TAIL) = 4e-18 on each side
FARTHEST = 38.0  # in normal coordinates: the probability beyond is below 1e-300
MAX_ATOMS = 10_000_000  # of all measures of a batch together


@saved("Empirical", points=Numbers(), weights=Numbers())
class Empirical(Measure):
    """A discrete measure on finitely many points with weights, such as a table of draws.

    It has no density. Its transport sorts the points by their first coordinate (ties by the next ones) and selects one
    by the first coordinate of u. In one dimension, this is the quantile function.

    Parameters
    ----------
    points : (..., n, d), or (n,) for d = 1.
    weights : (..., n), non-negative with sum one; None for equal weights.

    Examples
    --------
    >>> cbq.measures.Empirical([1.0, 2.0, 6.0]).moments()[0]
    array([3.])
    """

    points: Array  # (*batch_shape, n, d)
    weights: Array  # (*batch_shape, n)

    def __init__(self, points: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        x = finite(points, "points")
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim < 2 or 0 in x.shape[-2:]:
            raise ValueError(f"points have shape {x.shape}, but (..., n, d), or (n,) for d = 1, is needed, with n > 0.")
        n = x.shape[-2]
        w = checked_weights(np.full(n, 1 / n) if weights is None else finite(weights, "weights"), n, "point")
        batch = broadcast_batch({"points": x.shape[:-2], "weights": w.shape[:-1]}, "Empirical")
        self.points = np.broadcast_to(x, (*batch, *x.shape[-2:]))
        self.weights = np.broadcast_to(w, (*batch, n))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.points.shape[:-2]

    @property
    def has_atoms(self) -> bool:
        return True

    def moments(self) -> tuple[Array, Array]:
        mean = np.sum(self.weights[..., None] * self.points, axis=-2)
        shift = self.points - mean[..., None, :]
        return mean, np.swapaxes(shift * self.weights[..., None], -1, -2) @ shift

    @property
    def support(self) -> tuple[Array, Array]:
        used = self.weights[..., None] > 0
        lower, upper = np.where(used, self.points, np.inf), np.where(used, self.points, -np.inf)
        return np.min(lower, axis=-2), np.max(upper, axis=-2)

    def _marginal(self, j: int) -> Measure:
        return Empirical(self.points[..., j : j + 1], self.weights)

    def conditional(self, head: Array) -> Measure:
        raise TypeError("Empirical has no density, and so its coordinates have no conditional densities.")

    def _logpdf(self, x: Array) -> Array:
        raise TypeError("Empirical has no density: it is a finite set of points. Fit a Gaussian or a Mixture to them.")

    def _score(self, x: Array) -> NoReturn:
        raise TypeError("Empirical has no density and so no score: it is a finite set of points.")

    def _from_normal(self, v: Array) -> Array:
        return self._from_uniform(np.asarray(ndtr(v)))

    def _to_normal(self, x: Array) -> Array:
        return np.asarray(ndtri(self._to_uniform(x)))

    def _from_uniform(self, u: Array) -> Array:
        return np.asarray(_quantiles(self.points, self.weights, u[..., 0]))

    def _to_uniform(self, x: Array) -> Array:
        first = _probabilities(self.points, self.weights, x)
        u = np.full((*first.shape, self.dim), 0.5)
        u[..., 0] = first
        return u


class Discrete(Empirical):
    """A measure on finitely many numbers, the atoms, with known probabilities; `logpdf` is their logarithm.

    It has no score. Its transport is the quantile function. `inverse_transport` returns P(X < x) + P(X = x) / 2, the
    middle of the interval that the transport maps to the atom x.

    Examples
    --------
    >>> dice = cbq.measures.Categorical(np.full(6, 1 / 6), values=[1, 2, 3, 4, 5, 6])
    >>> isinstance(dice, cbq.measures.Discrete), dice.points[:, 0].tolist()
    (True, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    """

    @property
    def dim(self) -> int:
        return 1

    def conditional(self, head: Array) -> Measure:
        return Measure.conditional(self, head)

    @abstractmethod
    def _logpdf(self, x: Array) -> Array:
        """log P(X = x)."""

    def _score(self, x: Array) -> NoReturn:
        raise TypeError(
            f"the measure {self!r} is discrete and has no score, as Stein kernels need it: use RBF or Matern kernels."
        )

    def _to_uniform(self, x: Array) -> Array:
        return self._tails(x)[0]

    def _to_normal(self, x: Array) -> Array:
        # Only the smaller tail keeps its digits. Points outside the support are at FARTHEST, not at infinity.
        below, above = self._tails(x)
        return np.clip(np.where(below <= above, ndtri(below), -ndtri(above)), -FARTHEST, FARTHEST)

    def _tails(self, x: Array) -> tuple[Array, Array]:
        """P(X < x) and P(X > x), each with half of P(X = x), at x (..., n, 1)."""
        atoms, weights = self.points[..., None, :, 0], self.weights[..., None, :]
        at = 0.5 * np.sum(weights * (atoms == x), axis=-1, keepdims=True)
        sides = (np.sum(weights * side, axis=-1, keepdims=True) for side in (atoms < x, atoms > x))
        below, above = (np.asarray(np.minimum(side + at, 1.0)) for side in sides)
        return below, above

    def _cdf(self, y: Array) -> Array:
        """P(X <= y) at y (..., n)."""
        return np.asarray(np.sum(self.weights[..., None, :] * (self.points[..., None, :, 0] <= y[..., None]), axis=-1))

    def _keep(self, points: Array, weights: Array) -> None:
        """Set the atoms (*batch_shape, n) and their probabilities."""
        self.points = points[..., None]
        self.weights = weights


class OnIntegers(Discrete):
    """A discrete measure on the integers from 0, whose probabilities have a formula."""

    def _set_atoms(self, mean: Array, variance: Array, highest: Array) -> None:
        """Set the atoms around the mean that hold all but exp(-LOG_TAIL) of the mass, by Bernstein's inequality.

        All arguments are (*batch_shape, 1). The inequality holds for sums of independent variables in [0, 1].
        """
        reach = LOG_TAIL / 3 + np.sqrt((LOG_TAIL / 3) ** 2 + 2 * LOG_TAIL * variance)
        first, last = np.maximum(np.floor(mean - reach), 0), np.minimum(np.ceil(mean + reach), highest)
        count = int(np.max(last - first, initial=0)) + 1
        name, largest = next((name, np.max(a, initial=0.0)) for name, a in self.parameters().items())
        require_atoms(f"{type(self).__name__} with {name} up to {largest:g}", first.size * count)
        points = first + np.arange(float(count))
        weights = np.exp(self._log_probability(points))
        self._keep(points, weights / np.sum(weights, axis=-1, keepdims=True))

    def _logpdf(self, x: Array) -> Array:
        y = x[..., 0]
        whole = (y >= 0) & (y == np.floor(y))
        # A probability may be zero in float64.
        with np.errstate(over="ignore"):
            return np.where(whole, self._log_probability(np.where(whole, y, 0.0)), -np.inf)

    @abstractmethod
    def _log_probability(self, k: Array) -> Array:
        """log P(X = k) at whole numbers k >= 0, (..., n); -inf beyond the last one."""


@saved("Binomial", n=Numbers(), p=Numbers())
class Binomial(OnIntegers):
    """The binomial measure: the number of successes in n independent trials with probability p.

    Expectations are sums over all atoms; for large n, over the atoms that hold all but 1e-17 of the mass.

    Parameters
    ----------
    n : the number of trials, whole numbers (...) or (..., 1), or a scalar.
    p : the probability of a success, between 0 and 1, (...) or (..., 1), or a scalar.

    Examples
    --------
    >>> responders = cbq.measures.Binomial(n=24, p=0.4)
    >>> np.exp(responders.logpdf([[10.0]])).round(4)
    array([0.1612])
    """

    def __init__(self, n: npt.ArrayLike, p: npt.ArrayLike) -> None:
        trials, probability = parameter(n, "n"), finite(p, "p")
        if np.any((trials < 0) | (trials != np.floor(trials))):
            bad = trials[(trials < 0) | (trials != np.floor(trials))].flat[0]
            raise ValueError(f"n must be a whole number of trials, but it is {bad:g}: round it.")
        if np.any((probability < 0) | (probability > 1)):
            ends = f"[{np.min(probability):g}, {np.max(probability):g}]"
            raise ValueError(f"p must be a probability between 0 and 1, but it is in {ends}.")
        self.n, self.p = columns("Binomial", n=trials, p=probability)
        self._set_atoms(self.n * self.p, self.n * self.p * (1 - self.p), self.n)

    def moments(self) -> tuple[Array, Array]:
        return self.n * self.p, (self.n * self.p * (1 - self.p))[..., None]

    @property
    def support(self) -> tuple[Array, Array]:
        return np.where(self.p == 1, self.n, 0.0), np.where(self.p == 0, 0.0, self.n)

    def _log_probability(self, k: Array) -> Array:
        # With log n! = n log n - n + _factorial_rest(n), the powers of p and n are -n times the relative entropy
        # of k / n and p, a sum of terms k log(mean / k) without cancellation.
        k, n, p = np.broadcast_arrays(k, self.n, self.p)
        inside = k <= n
        k = np.where(inside, k, 0.0)
        rare = p <= 0.5
        rarer = n * np.minimum(p, 1 - p)
        common = n - rarer
        # The rounding error of `common`, for which `main` is corrected to first order.
        lost = (n - common) - rarer
        of_rare, of_common = np.where(rare, (k, n - k), (n - k, k))
        main = _power_term(of_rare, rarer) + _power_term(of_common, common)
        main = main + of_common * lost / np.maximum(common, 0.5)
        rest = _factorial_rest(n) - _factorial_rest(k) - _factorial_rest(n - k)
        return np.where(inside, main + rest, -np.inf)


@saved("Poisson", rate=Numbers())
class Poisson(OnIntegers):
    """The Poisson measure: the number of events whose expected number is `rate`.

    Expectations are sums over the atoms that hold all but 1e-17 of the mass.

    Parameters
    ----------
    rate : the mean, (...) or (..., 1), or a scalar; positive.

    Examples
    --------
    >>> claims = cbq.measures.Poisson(rate=2.0)
    >>> (claims.weights @ np.maximum(claims.points[:, 0] - 3, 0)).round(3)  # E max(X - 3, 0)
    np.float64(0.218)
    """

    def __init__(self, rate: npt.ArrayLike) -> None:
        (self.rate,) = columns("Poisson", rate=positive_parameter(rate, "rate"))
        self._set_atoms(self.rate, self.rate, np.full_like(self.rate, np.inf))

    def moments(self) -> tuple[Array, Array]:
        return self.rate, self.rate[..., None]

    @property
    def support(self) -> tuple[Array, Array]:
        return np.zeros_like(self.rate), np.full_like(self.rate, np.inf)

    def _log_probability(self, k: Array) -> Array:
        k, rate = np.broadcast_arrays(k, self.rate)
        return np.asarray(_power_term(k, rate) - (rate - k) - _factorial_rest(k))


@saved("Categorical", probabilities=Numbers(), values=Numbers())
class Categorical(Discrete):
    """A measure on K values with given probabilities, such as 0, 1, ..., K - 1 for K categories.

    Kernels treat the values as numbers and expect similar f at close values. For unordered categories, use one
    coordinate, or one theta, for each.

    Parameters
    ----------
    probabilities : (..., K), non-negative with sum one.
    values : (..., K), the numbers of the categories; None for 0, 1, ..., K - 1. Equal values are one atom.

    Examples
    --------
    >>> severity = cbq.measures.Categorical([0.7, 0.2, 0.1], values=[1, 5, 20])
    >>> severity.moments()[0]  # 0.7 + 5 * 0.2 + 20 * 0.1
    array([3.7])
    """

    probabilities: Array  # (*batch_shape, K)
    values: Array  # (*batch_shape, K)

    def __init__(self, probabilities: npt.ArrayLike, values: npt.ArrayLike | None = None) -> None:
        p = np.atleast_1d(finite(probabilities, "probabilities"))
        x = np.arange(float(p.shape[-1])) if values is None else np.atleast_1d(finite(values, "values"))
        if 0 in (p.shape[-1], x.shape[-1]) or p.shape[-1] != x.shape[-1]:
            shapes = f"probabilities have shape {p.shape} and values {x.shape}"
            raise ValueError(f"a Categorical has one probability for each of its values, but {shapes}: pass K of each.")
        p = checked_weights(p, p.shape[-1], "value", "probabilities")
        both = Empirical(x[..., None], p)
        self.probabilities, self.values = both.weights, both.points[..., 0]
        self._keep(self.values, self.probabilities)

    @classmethod
    def _stack(cls, measures: Sequence[Self]) -> Measure | None:
        if len({measure.batch_shape for measure in measures}) > 1:
            return None
        most = max(measure.values.shape[-1] for measure in measures)
        rows = [_padded(measure, most) for measure in measures]
        return cls(np.stack([p for p, _ in rows]), np.stack([x for _, x in rows]))

    def _logpdf(self, x: Array) -> Array:
        at = self.values[..., None, :] == x
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.sum(self.probabilities[..., None, :] * at, axis=-1)))


def _padded(measure: Categorical, most: int) -> tuple[Array, Array]:
    """Probabilities and values, extended to length `most` by probabilities of zero."""
    width = [(0, 0)] * len(measure.batch_shape) + [(0, most - measure.values.shape[-1])]
    return np.pad(measure.probabilities, width), np.pad(measure.values, width, mode="edge")


def require_atoms(what: str, number: int) -> None:
    """Raise if there are too many atoms for a sum."""
    if number > MAX_ATOMS:
        raise ValueError(
            f"{what} needs {number:.3g} atoms to hold all but 1e-17 of its mass, but at most {MAX_ATOMS:.0e} are "
            f"summed over: use a similar continuous measure, such as Gaussian, or rescale x."
        )
    require_memory(4 * number, f"{number:.3g} atoms of {what}", "pass fewer measures at a time")


def _power_term(k: Array, mean: Array) -> Array:
    """k log(mean / k), and 0 for k = 0, without cancellation where both are near."""
    at = np.where(k > 0, k, 1.0)
    with np.errstate(divide="ignore"):
        near, far = np.log1p(np.clip((mean - at) / at, -0.5, 0.5)), np.log(mean / at)
    ratio = np.where(np.abs(mean - at) < 0.5 * at, near, far)
    return np.where(k > 0, at * ratio, 0.0)


def _factorial_rest(k: Array) -> Array:
    """log k! - (k log k - k), and 0 for k = 0."""
    at = np.where(k > 0, k, 1.0)
    return np.where(k > 0, np.log(at) - stirling(at), 0.0)


def checked_weights(weights: Array, count: int, what: str, name: str = "weights") -> Array:
    """The argument `name`, weights (..., count) that sum to nearly 1, divided by their sum; none may be negative."""
    if weights.ndim == 0 or weights.shape[-1] != count:
        items = f"{count} {what}{'s' * (count > 1)}"
        raise ValueError(f"{name} have shape {weights.shape}, but the shape for {items} is (..., {count}).")
    if np.any(weights < 0):
        raise ValueError(f"{name} must not be negative, but the smallest is {np.min(weights):g}.")
    sums = np.sum(weights, axis=-1, keepdims=True)
    if np.any(np.abs(sums - 1) > 1e-6):
        worst = sums.flat[np.argmax(np.abs(sums - 1))]
        raise ValueError(f"{name} must sum to 1, but they sum to {worst:.10g}: divide them by their sum.")
    return np.asarray(weights / sums)


@partial(np.vectorize, signature="(n,d),(n),(m)->(m,d)", otypes=[float])
def _quantiles(points: Array, weights: Array, u: Array) -> Array:
    """The points (m, d) at which the cumulative weight, in sorted order, reaches u (m,)."""
    order = np.lexsort(points.T[::-1])
    order = order[weights[order] > 0]
    edges = np.cumsum(weights[order])[:-1]
    return points[order[np.searchsorted(edges, u, side="right")]]


@partial(np.vectorize, signature="(n,d),(n),(m,d)->(m)", otypes=[float])
def _probabilities(points: Array, weights: Array, x: Array) -> Array:
    """The cumulative weight (m,) at each x (m, d), with half the weight of x itself; equal points count as one."""
    n = len(points)
    distinct, which = np.unique(np.concatenate([points, x]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    mass = np.bincount(which[:n], weights, minlength=len(distinct))
    absent = mass[which[n:]] == 0
    if np.any(absent):
        raise ValueError(
            f"inverse_transport of x by an Empirical: {np.count_nonzero(absent)} of {len(x)} points are not among its "
            f"points of positive weight (the first is {x[np.argmax(absent)]}): pass only points of the measure."
        )
    return np.asarray((np.cumsum(mass) - 0.5 * mass)[which[n:]])
