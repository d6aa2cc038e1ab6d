"""The two measures without a normalised density: a set of points with weights, and a density up to a constant."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from cbq.common.arrays import Array, broadcast_batch, finite, indexed, real
from cbq.common.checks import called, is_whole, shown
from cbq.io import Numbers, saved
from cbq.measures.base import Measure
from cbq.measures.univariate import central_difference

Function = Callable[[Array], Any]


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


def checked_weights(weights: Array, count: int, what: str, name: str = "weights") -> Array:
    """`weights` (..., count), called `name`, divided by their sum, which must be nearly 1; none may be negative."""
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


class Unnormalised(Measure):
    """A measure on R^d given by its score, or by its log density up to a constant, for Stein kernels.

    Stein kernels need a density that vanishes at the ends of its support: if the density of a positive x does not
    vanish at zero, pass the measure of log x. Without `score`, the score is computed by central differences of fourth
    order with step 1e-3 max(1, |x_j|). Its relative error is about 1e-9 if the log density varies on the scale
    max(1, |x_j|); for much narrower measures, rescale x or pass the score.

    Parameters
    ----------
    log_density : a function from x (..., n, d) to (..., n), up to an additive constant.
    score : a function from x (..., n, d) to the gradient of the log density, (..., n, d).
    dim : the dimension d.

    Examples
    --------
    >>> measure = cbq.measures.Unnormalised(score=lambda x: -(x**3), dim=1)  # density proportional to exp(-x^4 / 4)
    >>> measure.score([2.0])
    array([[-8.]])
    """

    def __init__(self, log_density: Function | None = None, score: Function | None = None, *, dim: int) -> None:
        if log_density is None and score is None:
            raise TypeError("Unnormalised needs a log_density, a score, or both, but neither was given.")
        for name, function in (("log_density", log_density), ("score", score)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function of x, but it is a {type(function).__name__}.")
        if not is_whole(dim, 1):
            raise ValueError(f"dim must be a positive integer, but it is {shown(dim)}.")
        self._dim, self._log_density, self._given_score = int(dim), log_density, score

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def parameters(self) -> dict[str, Array]:
        return {}  # it is defined by functions, not by arrays

    def equals(self, other: Measure) -> bool:
        return self is other  # functions cannot be compared

    def __getitem__(self, index: Any) -> Self:
        if indexed(np.empty(()), index).ndim:
            raise IndexError(f"Unnormalised is a single measure and cannot have batch axes (index {shown(index)}).")
        return self

    def moments(self) -> NoReturn:
        self._refuse("moments")

    def sample(self, n: int, rng: np.random.Generator | int) -> NoReturn:
        self._refuse("sample")

    def _logpdf(self, x: Array) -> Array:
        if self._log_density is None:
            raise TypeError("this Unnormalised measure has a score only: pass log_density to evaluate logpdf.")
        return _evaluated(self._log_density, x, x.shape[:-1], "log_density", allow_zero_density=True)

    def _score(self, x: Array) -> Array:
        if self._given_score is not None:
            return _evaluated(self._given_score, x, x.shape, "score")
        return np.stack([self._partial_derivative(x, j) for j in range(self._dim)], axis=-1)

    def _partial_derivative(self, x: Array, j: int) -> Array:
        def along_coordinate(y: Array) -> Array:
            moved = x.copy()
            moved[..., j] = y
            values = self._logpdf(moved)
            if not np.all(np.isfinite(values)):
                raise ValueError(
                    "the score by central differences needs a finite log density within 0.002 max(1, |x|) of x, but it "
                    "is -inf near some points: keep x away from the edge of the support, or pass the score."
                )
            return values

        return central_difference(along_coordinate, x[..., j], 1e-3 * np.maximum(1, np.abs(x[..., j])))

    def _from_normal(self, v: Array) -> NoReturn:
        self._refuse("transport")

    def _to_normal(self, x: Array) -> NoReturn:
        self._refuse("inverse_transport")

    def _refuse(self, what: str) -> NoReturn:
        reason = "its normalisation is unknown. Draw points by MCMC and use a Stein kernel, which needs only the score"
        raise TypeError(f"Unnormalised has no {what}: {reason}.")


def _evaluated(
    function: Function, x: Array, shape: tuple[int, ...], name: str, *, allow_zero_density: bool = False
) -> Array:
    """The values of a user's function at x, which must be finite and of this shape."""
    array = real(called(function, name, x), f"the value of {name}")
    if array.shape != shape:
        raise ValueError(f"{name} returned an array of shape {array.shape}, but {shape} was expected.")
    valid = np.isfinite(array) | (allow_zero_density & np.isneginf(array))
    if not np.all(valid):
        raise ValueError(f"{name} returned NaN or inf in {np.count_nonzero(~valid)} of its {array.size} values.")
    return array
