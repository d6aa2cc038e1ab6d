"""The distribution of I at some thetas that every answer is read from: mean, standard deviation, interval, draws."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from cbq._arrays import Array, Integers
from cbq.linalg.threads import LARGE, one_blas_thread

_STEPS, _CLOSE = 100, 1e-12  # of the bisection for a quantile, at most, and how close it comes in units of the scale


@dataclass(frozen=True, eq=False)
class PredictiveDistribution:
    """The equal mixture of J Student-t distributions of the values at M thetas.

    locations: (J, M). scales2: (J, M), squared scales, or (J, M, M), scale matrices of the joint distribution.
    df: the degrees of freedom of all; infinite means Gaussian. Or (M,), finite ones of each value: then the values are
        independent, but for those that are the same number, and beside its diagonal a scale matrix holds the squared
        scale where two values are the same, and zero elsewhere.
    without_scales: why nothing but the locations is known, if so: the error that everything but `mean` raises.

    With two degrees of freedom or fewer the variance is infinite; quantiles and draws are as good as any.
    """

    locations: Array
    scales2: Array
    df: float | Array
    without_scales: str | None = None

    @property
    def mean(self) -> Array:
        """(M,)."""
        return np.asarray(np.mean(self.locations, axis=0))

    @property
    def variance(self) -> Array:
        """(M,)."""
        return np.asarray(self._inflated(np.mean(self._squared, axis=0)) + np.var(self.locations, axis=0))

    @property
    def cov(self) -> Array:
        """(M, M), of a joint distribution."""
        self.require_scales()
        apart = self.locations - self.mean
        return np.asarray(self._inflated(np.mean(self.scales2, axis=0)) + apart.T @ apart / len(apart))

    def quantile(self, probability: float) -> Array:
        """The value (M,) that is exceeded with probability 1 - `probability`, at each theta."""
        scale = np.sqrt(self._squared)
        each = self.locations + scale * stdtrit(self.df, probability)
        low, high = np.min(each, axis=0), np.max(each, axis=0)
        scale = np.where(scale > 0, scale, np.finfo(float).tiny)
        for _ in range(_STEPS):
            if np.all(high - low <= _CLOSE * scale.min(axis=0)):
                break
            middle = 0.5 * (low + high)
            below = np.mean(stdtr(self.df, (middle - self.locations) / scale), axis=0) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))

    def cdf(self, value: Array) -> Array:
        """The probability (M,) of at most `value` (M,), at each theta."""
        scale = np.maximum(np.sqrt(self._squared), np.finfo(float).tiny)
        return np.asarray(np.mean(stdtr(self.df, (value - self.locations) / scale), axis=0))

    def placed(self, which: Integers, standard: Array) -> Array:
        """The values (size, M) of a joint distribution whose components `which` (size,) fall at `standard` (size, M).

        Standard values are draws around zero with unit scale matrices, of Student-t distributions with these degrees of freedom.
        """
        self.require_scales()
        out = np.empty(standard.shape)
        for j, (location, scales2) in enumerate(zip(self.locations, self.scales2, strict=True)):
            mine = which == j
            if isinstance(self.df, np.ndarray):
                first = np.argmax(scales2 != 0, axis=1)  # of the values that are the same as this one
                out[mine] = location + standard[mine][:, first] * np.sqrt(np.diagonal(scales2))
            else:
                out[mine] = location + standard[mine] @ root(scales2)
        return out

    def _inflated(self, scales2: Array) -> Array:
        """The variances or covariances that belong to squared scales or scale matrices, (M,) or (M, M)."""
        inflation = _inflation(np.asarray(self.df))
        inflation = inflation[:, None] if inflation.ndim == 1 and scales2.ndim == 2 else inflation
        return np.multiply(inflation, scales2, out=np.zeros(scales2.shape), where=scales2 != 0)  # 0 inf is 0 here

    def require_scales(self) -> None:
        """Raise where nothing but the locations is known."""
        if self.without_scales is not None:
            raise ValueError(self.without_scales)

    @property
    def _squared(self) -> Array:
        """Squared scales (J, M)."""
        self.require_scales()
        s2 = self.scales2 if self.scales2.ndim == 2 else np.diagonal(self.scales2, axis1=1, axis2=2)
        return np.maximum(s2, 0.0)


def _inflation(df: Array) -> Array:
    """The variance of Student-t distributions over their squared scales."""
    finite = (df > 2) & (df < np.inf)
    ratio = np.where(finite, df, 1.0) / np.where(finite, df - 2.0, 1.0)
    return np.where(df > 2, ratio, np.inf)


def root(cov: Array) -> Array:
    """The symmetric root (M, M) of a covariance, which may be singular, or negative by rounding.

    Of all roots it is the one that belongs to the matrix alone, so that the draws of two measures can be made to agree.
    """
    with one_blas_thread() if len(cov) < LARGE else nullcontext():
        values, vectors = np.linalg.eigh(cov)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
