"""The predictive distribution of I at some thetas: mean, standard deviation, quantiles, and draws of all outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri, stdtr

from cbq._arrays import Array, Integers
from cbq.fit.quantiles import mixture_quantile
from cbq.linalg.dense import symmetric_root


@dataclass(frozen=True, eq=False)
class PredictiveDistribution:
    """The equal mixture of J Student-t distributions of the values at M thetas.

    locations: (J, M). scales2: (J, M), squared scales, or (J, M, M), scale matrices of the joint distribution.
    df: the degrees of freedom of all values; infinite means Gaussian. Or (M,), finite ones of each value: then values
        are independent unless they are the same number, and off its diagonal a scale matrix holds the squared scale
        where two values are the same, and zero elsewhere.
    without_scales: why only the locations are known, if so: the error that everything but `mean` raises.

    With two degrees of freedom or fewer the variance is infinite, while quantiles and draws are finite.

    Examples
    --------
    >>> from cbq.fit import PredictiveDistribution
    >>> normal = PredictiveDistribution(np.zeros((1, 2)), np.ones((1, 2)), np.inf)
    >>> normal.quantile(0.975).round(2)
    array([1.96, 1.96])
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
        cov = apart.T @ apart
        cov /= len(apart)
        cov += self._inflated(np.mean(self.scales2, axis=0))
        return np.asarray(cov)

    def stretched(self, factor: float) -> PredictiveDistribution:
        """The distribution with all deviations from the mean multiplied by a factor."""
        locations = self.mean + factor * (self.locations - self.mean)
        return replace(self, locations=locations, scales2=factor**2 * self.scales2)

    def widened(self, variance: float) -> PredictiveDistribution:
        """The distribution with a variance more of an error that all thetas have in common; an infinite one is flat."""
        if self.without_scales is not None:
            return self
        inflation = np.broadcast_to(_inflation(np.asarray(self.df)), self.locations.shape[1:])
        scale = np.sqrt(variance / np.where(np.isfinite(inflation), inflation, 1.0))  # (M,)
        return replace(self, scales2=self.scales2 + (scale**2 if self.scales2.ndim == 2 else np.outer(scale, scale)))

    def quantile(self, probability: float) -> Array:
        """The value (M,) that is exceeded with probability 1 - `probability`, at each theta."""
        scales = np.sqrt(self._squared)
        if np.all(np.isinf(scales)):
            return self.mean if probability == 0.5 else np.full(scales.shape[1], np.copysign(np.inf, probability - 0.5))
        return mixture_quantile(self.locations, scales, self.df, probability)

    def cdf(self, value: Array) -> Array:
        """The probability (M,) of at most `value` (M,), at each theta."""
        scale = np.maximum(np.sqrt(self._squared), np.finfo(float).tiny)
        return np.asarray(np.mean(stdtr(self.df, (value - self.locations) / scale), axis=0))

    def placed(self, which: Integers, standard: Array) -> Array:
        """The draws (size, M) from components `which` (size,) that standard draws (size, M) become.

        Standard draws have location zero, unit scale matrices and these degrees of freedom.
        """
        self.require_scales()
        if np.any(np.isinf(self.scales2)):
            raise ValueError(
                "I cannot be drawn: all values of f are equal, so that nothing is known of other values. If f has "
                "bounds, pass bounds=... to cbq.Problem or cbq.Samples, or take points where f differs."
            )
        out = np.empty(standard.shape)
        for j, (location, scales2) in enumerate(zip(self.locations, self.scales2, strict=True)):
            mine = which == j
            if isinstance(self.df, np.ndarray):
                first = np.argmax(scales2 != 0, axis=1)  # of the values that are the same as this one
                out[mine] = location + standard[mine][:, first] * np.sqrt(np.diagonal(scales2))
            else:
                out[mine] = location + standard[mine] @ symmetric_root(scales2)
        return out

    def _inflated(self, scales2: Array) -> Array:
        """The variances or covariances that squared scales or scale matrices, (M,) or (M, M), are turned into."""
        inflation = _inflation(np.asarray(self.df))
        inflation = inflation[:, None] if inflation.ndim == 1 and scales2.ndim == 2 else inflation
        return np.multiply(inflation, scales2, out=scales2, where=scales2 != 0)  # 0 inf is 0 here

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


def sample_jointly(
    predictives: Sequence[PredictiveDistribution],
    correlated: Array,
    size: int,
    rng: np.random.Generator,
    *,
    antithetic: bool = False,
) -> Array:
    """Draws (size, M, C) of C outputs at M thetas, whose errors have the given correlation (C, C).

    All outputs are drawn from the same component of their mixtures, and share the chi-square variable that makes them
    Student-t. With `antithetic` the draws come in mirrored pairs, from all components equally often: their mean is
    that of the distribution.
    """
    for predictive in predictives:
        predictive.require_scales()
    pairs = -(-size // 2) if antithetic else size
    components, M = len(predictives[0].locations), predictives[0].locations.shape[1]
    which = np.arange(pairs) % components if antithetic else rng.integers(components, size=pairs)
    normal = rng.standard_normal((pairs, M, len(predictives))) @ symmetric_root(correlated)
    uniform = rng.random((pairs, M if np.ndim(predictives[0].df) else 1))
    out = np.empty((size, M, len(predictives)))
    for c, predictive in enumerate(predictives):
        standard = normal[..., c] * _student_factor(predictive.df, uniform)
        out[:pairs, :, c] = predictive.placed(which, standard)
        if antithetic:
            out[pairs:, :, c] = predictive.placed(which, -standard)[: size - pairs]
    return out


def _student_factor(df: float | Array, uniform: Array) -> Array:
    """The factor (size, 1) or (size, M) that makes normal draws Student-t, from uniform numbers."""
    degrees = np.broadcast_to(np.asarray(df, dtype=np.float64), uniform.shape)
    factor = np.ones(uniform.shape)
    finite = np.isfinite(degrees)
    factor[finite] = np.sqrt(degrees[finite] / chdtri(degrees[finite], uniform[finite]))
    return factor
