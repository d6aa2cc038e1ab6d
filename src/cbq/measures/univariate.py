"""Measures on the line that are given by their density, distribution function and quantile function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from cbq.common.arrays import Array, broadcast_batch
from cbq.measures.base import Measure


class Univariate(Measure):
    """A family of measures on the line, given by functions of arrays y (..., n) without the axis d.

    Parameters are attributes (*batch_shape, 1): the axis d = 1 of the measure also broadcasts over the n points.
    Outside the support the density is zero and the distribution function is 0 or 1.

    Examples
    --------
    >>> isinstance(cbq.measures.Gamma(2.0, 1.0), cbq.measures.Univariate)
    True
    """

    def moments(self) -> tuple[Array, Array]:
        mean, variance = self._mean_and_variance()
        shape = (*self.batch_shape, 1)
        return np.broadcast_to(mean, shape), np.broadcast_to(variance, shape)[..., None]

    def _logpdf(self, x: Array) -> Array:
        y = x[..., 0]
        lower, upper = self.support
        inside = (y >= lower) & (y <= upper)
        if np.all(inside):
            return np.asarray(self._log_density(y))
        safe = np.where(inside, y, self._quantile(np.full(1, 0.5), upper=False))
        return np.where(inside, self._log_density(safe), -np.inf)

    def _score(self, x: Array) -> Array:
        self._require_density(np.isfinite(self._logpdf(x)))
        y = np.broadcast_to(x[..., 0], np.broadcast_shapes(x.shape[:-1], (*self.batch_shape, 1)))
        return np.asarray(self._slope(y))[..., None]

    def _from_normal(self, v: Array) -> Array:
        # Only the smaller tail probability keeps its digits, so that each half has its own quantile function.
        v = v[..., 0]
        tail = np.asarray(ndtr(-np.abs(v)))
        return np.where(v < 0, self._quantile(tail, upper=False), self._quantile(tail, upper=True))[..., None]

    def _to_normal(self, x: Array) -> Array:
        y = np.clip(x[..., 0], *self.support)
        below, above = self._tail(y, upper=False), self._tail(y, upper=True)
        return np.where(below <= above, ndtri(below), -ndtri(above))[..., None]

    def _from_uniform(self, u: Array) -> Array:
        return np.asarray(self._quantile(u[..., 0], upper=False))[..., None]

    def _to_uniform(self, x: Array) -> Array:
        return np.asarray(self._tail(np.clip(x[..., 0], *self.support), upper=False))[..., None]

    @abstractmethod
    def _mean_and_variance(self) -> tuple[Array, Array]: ...

    @abstractmethod
    def _log_density(self, y: Array) -> Array: ...

    @abstractmethod
    def _slope(self, y: Array) -> Array:
        """Derivative of the log density, where that is finite."""

    @abstractmethod
    def _tail(self, y: Array, upper: bool) -> Array:
        """P(X <= y), or P(X > y) if `upper`, for y in the support."""

    @abstractmethod
    def _quantile(self, q: Array, upper: bool) -> Array:
        """The y at which `_tail` is q."""


def columns(what: str, **parameters: Array) -> tuple[Array, ...]:
    """Broadcast the parameters of measures on the line to columns (*batch_shape, 1), in the order given.

    All axes are batch axes, with one exception: if every parameter that is not a scalar has a last axis of length 1,
    that axis is the axis d = 1. So (T,) and (T, 1) both give T measures, and (T, 1) with (1, M) gives T x M.
    """
    columnar = all(a.ndim == 0 or a.shape[-1] == 1 for a in parameters.values())
    events = {name: a if columnar and a.ndim else a[..., None] for name, a in parameters.items()}
    batch = broadcast_batch({name: a.shape[:-1] for name, a in events.items()}, what)
    return tuple(np.broadcast_to(a, (*batch, 1)) for a in events.values())


def central_difference(function: Callable[[Array], Array], x: Array, step: Array) -> Array:
    """Derivative of `function` at x to fourth order, from its values at x +- step and x +- 2 step.

    With a step of 1e-3 of the scale on which the function varies, the truncation error is about 1e-12 and the
    rounding error about 1e-13 of the function's size.
    """
    ahead, behind = x + step, x - step
    far_ahead, far_behind = x + 2 * step, x - 2 * step
    near = (function(ahead) - function(behind)) / (ahead - behind)
    far = (function(far_ahead) - function(far_behind)) / (far_ahead - far_behind)
    return np.asarray((4 * near - far) / 3)
