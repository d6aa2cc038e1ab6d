"""Families on the line: what they share once they know their density, distribution and quantile functions."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.special import ndtr, ndtri

from cbq._arrays import Array, broadcast_batch
from cbq.measures.base import Measure


def columns(what: str, **parameters: Array) -> tuple[Array, ...]:
    """Parameters of 1-D measures as columns (*batch, 1), in the order given.

    All axes are batch axes, except that a last axis of length 1 which no parameter but a scalar lacks is the event
    axis d = 1: (T,) and (T, 1) are both a batch of T measures, while (T, 1) with (1, M) is a grid of them.
    """
    columnar = all(a.ndim == 0 or a.shape[-1] == 1 for a in parameters.values())
    events = {name: a if columnar and a.ndim else a[..., None] for name, a in parameters.items()}
    batch = broadcast_batch({name: a.shape[:-1] for name, a in events.items()}, what)
    return tuple(np.broadcast_to(a, (*batch, 1)) for a in events.values())


class Univariate(Measure):
    """A family of measures on the line, given by functions of arrays y (..., n), which have no axis d.

    Parameters are columns (*batch, 1): the event axis of the measure is also the one that broadcasts over n.
    Outside the support the density is zero and the distribution function is 0 or 1.
    """

    @property
    def dim(self) -> int:
        return 1

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return next(iter(self.parameters().values())).shape[:-1]

    def moments(self) -> tuple[Array, Array]:
        mean, variance = self._mean_and_variance()
        shape = (*self.batch_shape, 1)
        return np.broadcast_to(mean, shape), np.broadcast_to(variance, shape)[..., None]

    def conditional(self, head: Array) -> Measure:
        # nothing comes before the only coordinate: the measure itself, once for each point
        batch = np.broadcast_shapes((*self.batch_shape, 1), head.shape[:-1])
        shared = {name: a[..., None, :] for name, a in self.parameters().items()}
        return self._rebuild({name: np.broadcast_to(a, (*batch, 1)) for name, a in shared.items()})

    def _logpdf(self, x: Array) -> Array:
        y = x[..., 0]
        lower, upper = self.support
        inside = (y >= lower) & (y <= upper)
        if np.all(inside):
            return np.asarray(self._log_density(y))
        safe = np.where(inside, y, self._ppf(np.full(1, 0.5)))
        return np.where(inside, self._log_density(safe), -np.inf)

    def _score(self, x: Array) -> Array:
        refuse_score(self, np.isfinite(self._logpdf(x)))
        y = np.broadcast_to(x[..., 0], np.broadcast_shapes(x.shape[:-1], (*self.batch_shape, 1)))
        return np.asarray(self._slope(y))[..., None]

    def _from_normal(self, v: Array) -> Array:
        # the probability of the nearer tail keeps its digits, so each half uses its own quantile function
        v = v[..., 0]
        tail = np.asarray(ndtr(-np.abs(v)))
        return np.where(v < 0, self._ppf(tail), self._isf(tail))[..., None]

    def _to_normal(self, x: Array) -> Array:
        y = self._inside(x)
        below, above = self._cdf(y), self._sf(y)
        return np.where(below <= above, ndtri(below), -ndtri(above))[..., None]

    def _from_uniform(self, u: Array) -> Array:
        return np.asarray(self._ppf(u[..., 0]))[..., None]

    def _to_uniform(self, x: Array) -> Array:
        return np.asarray(self._cdf(self._inside(x)))[..., None]

    def _inside(self, x: Array) -> Array:
        """The points y (..., n), moved to the nearest end of the support where they lie beyond it."""
        lower, upper = self.support
        return np.clip(x[..., 0], lower, upper)

    @abstractmethod
    def _mean_and_variance(self) -> tuple[Array, Array]: ...

    @abstractmethod
    def _log_density(self, y: Array) -> Array: ...

    @abstractmethod
    def _slope(self, y: Array) -> Array:
        """Derivative of the log density, where that is finite."""

    @abstractmethod
    def _cdf(self, y: Array) -> Array: ...

    @abstractmethod
    def _sf(self, y: Array) -> Array: ...

    @abstractmethod
    def _ppf(self, q: Array) -> Array: ...

    @abstractmethod
    def _isf(self, q: Array) -> Array: ...


def refuse_score(measure: Measure, defined: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> None:
    """Raise where the log density is infinite: the score means nothing there."""
    if not np.all(defined):
        bad = int(np.size(defined) - np.count_nonzero(defined))
        raise ValueError(
            f"score of {type(measure).__name__}: {bad} of {np.size(defined)} points lie outside the support "
            f"or where the density is zero or infinite: keep x strictly inside `measure.support`."
        )
