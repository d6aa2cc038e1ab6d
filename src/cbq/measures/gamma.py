"""The gamma measure and its special case, the exponential one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, gammaln, xlogy

from cbq._arrays import Array, positive
from cbq.io import Numbers, saved
from cbq.measures.univariate import Univariate, columns


@saved("Gamma", shape=Numbers(), rate=Numbers())
class Gamma(Univariate):
    """The gamma measure on (0, inf), with density proportional to x^(shape - 1) exp(-rate x).

    Parameters
    ----------
    shape, rate : (...) or (..., 1), or scalars. The rate is the inverse of the scale.
    """

    _ends = (0.0, np.inf)
    shape: Array  # (*batch_shape, 1)
    rate: Array  # (*batch_shape, 1)

    def __init__(self, shape: npt.ArrayLike, rate: npt.ArrayLike) -> None:
        self.shape, self.rate = columns("Gamma", shape=positive(shape, "shape"), rate=positive(rate, "rate"))

    def _mean_and_variance(self) -> tuple[Array, Array]:
        return self.shape / self.rate, self.shape / self.rate / self.rate

    def _log_density(self, y: Array) -> Array:
        # In terms of w = x / mean, large terms cancel analytically if the shape is large.
        w = y * (self.rate / self.shape)
        log_norm = stirling(self.shape) - np.log(self.shape / self.rate)
        return np.asarray(xlogy(self.shape - 1, w) - self.shape * (w - 1) + log_norm)

    def _slope(self, y: Array) -> Array:
        # At y = 0 the log density is finite only for shape 1, where the first term is zero.
        with np.errstate(over="ignore"):
            return np.asarray((self.shape - 1) / np.where(y == 0, 1, y) - self.rate)

    def _cdf(self, y: Array) -> Array:
        return np.asarray(gammainc(self.shape, self.rate * y))

    def _sf(self, y: Array) -> Array:
        return np.asarray(gammaincc(self.shape, self.rate * y))

    def _ppf(self, q: Array) -> Array:
        return np.asarray(gammaincinv(self.shape, q) / self.rate)

    def _isf(self, q: Array) -> Array:
        return np.asarray(gammainccinv(self.shape, q) / self.rate)


@saved("Exponential", rate=Numbers())
class Exponential(Univariate):
    """The exponential measure on (0, inf), with density rate exp(-rate x).

    Parameters
    ----------
    rate : (...) or (..., 1), or a scalar. It is the inverse of the mean.
    """

    _ends = (0.0, np.inf)
    rate: Array  # (*batch_shape, 1)

    def __init__(self, rate: npt.ArrayLike) -> None:
        (self.rate,) = columns("Exponential", rate=positive(rate, "rate"))

    def _mean_and_variance(self) -> tuple[Array, Array]:
        return 1 / self.rate, 1 / self.rate / self.rate

    def _log_density(self, y: Array) -> Array:
        return np.log(self.rate) - self.rate * y

    def _slope(self, y: Array) -> Array:
        return np.broadcast_to(-self.rate, y.shape)

    def _cdf(self, y: Array) -> Array:
        return -np.expm1(-self.rate * y)

    def _sf(self, y: Array) -> Array:
        return np.exp(-self.rate * y)

    def _ppf(self, q: Array) -> Array:
        with np.errstate(divide="ignore"):  # the quantile is inf at q = 1
            return -np.log1p(-q) / self.rate

    def _isf(self, q: Array) -> Array:
        with np.errstate(divide="ignore"):
            return -np.log(q) / self.rate


def stirling(a: Array) -> Array:
    """a log a - a - log Gamma(a), by Stirling's series for a > 10, where the terms would cancel."""
    far = np.maximum(a, 10.0)
    b = 1 / (far * far)
    tail = (1 / 12 - b * (1 / 360 - b * (1 / 1260 - b * (1 / 1680 - b * (1 / 1188 - b * 691 / 360360))))) / far
    near = np.minimum(a, 10.0)
    return np.where(a > 10, 0.5 * np.log(far / (2 * np.pi)) - tail, near * np.log(near) - near - gammaln(near))
