from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, betainccinv, betaincinv, xlog1py, xlogy

from cbq._arrays import Array, positive
from cbq.io import Numbers, saved
from cbq.measures.gamma import stirling
from cbq.measures.univariate import Univariate, columns


@saved("Beta", a=Numbers(), b=Numbers())
class Beta(Univariate):
    """The beta measure on (0, 1), with density proportional to x^(a - 1) (1 - x)^(b - 1).

    Parameters
    ----------
    a, b : (...) or (..., 1), or scalars.
    """

    _ends = (0.0, 1.0)
    a: Array  # (*batch_shape, 1)
    b: Array  # (*batch_shape, 1)

    def __init__(self, a: npt.ArrayLike, b: npt.ArrayLike) -> None:
        self.a, self.b = columns("Beta", a=positive(a, "a"), b=positive(b, "b"))

    def _mean_and_variance(self) -> tuple[Array, Array]:
        total = self.a + self.b
        mean = self.a / total
        return mean, mean * (self.b / total) / (total + 1)

    def _log_density(self, y: Array) -> Array:
        # In terms of x / mean and (1 - x) / (1 - mean). Near 1 both logarithms use the same `excess`, whose rounding
        # error cancels between them.
        a, b, n = self.a, self.b, self.a + self.b
        excess = y * b - (1 - y) * a
        left, right = np.clip(excess / a, -0.5, 0.5), np.clip(-excess / b, -0.5, 0.5)
        far_left = xlogy(a - 1, y) - (a - 1) * np.log(a / n)
        far_right = xlog1py(b - 1, -y) - (b - 1) * np.log(b / n)
        head = np.where(np.abs(left) < 0.5, (a - 1) * np.log1p(left), far_left)
        tail = np.where(np.abs(right) < 0.5, (b - 1) * np.log1p(right), far_right)
        log_norm = stirling(a) + stirling(b) - stirling(n) - np.log(a / n) - np.log(b / n)
        return np.asarray(head + tail + log_norm)

    def _slope(self, y: Array) -> Array:
        # At an end of the support the log density is finite only if the exponent there is zero.
        with np.errstate(over="ignore"):
            left = (self.a - 1) / np.where(y == 0, 1, y)
            return np.asarray(left - (self.b - 1) / np.where(y == 1, 1, 1 - y))

    def _cdf(self, y: Array) -> Array:
        return np.asarray(betainc(self.a, self.b, y))

    def _sf(self, y: Array) -> Array:
        return np.asarray(betaincc(self.a, self.b, y))

    def _ppf(self, q: Array) -> Array:
        return np.asarray(betaincinv(self.a, self.b, q))

    def _isf(self, q: Array) -> Array:
        return np.asarray(betainccinv(self.a, self.b, q))
