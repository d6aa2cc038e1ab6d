"""The predictive distribution of I at some thetas: mean, standard deviation, quantiles, and draws of all outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaln, chdtri, stdtr, stdtrit

from cbq.common import Array, Integers
from cbq.linalg.lapack import symmetric_root

TOLERANCE = 1e-12  # of a quantile, in units of the smallest scale
LAST_STEP = 1e-6  # in the same units: convergence is cubic, and what such a step leaves is less than the tolerance
ROUNDING = 4e-15  # of log F
MAX_STEPS = 100
MAX_STANDARDISED = 1e100  # its square is finite, and its density zero
MAX_DF = 1e15  # beyond, densities are Gaussian to the last digit


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

    def mapped(self, matrix: Array) -> PredictiveDistribution:
        """The joint distribution of linear functions of the values, matrix (q, M) times them: of q values."""
        self.require_scales()
        if isinstance(self.df, np.ndarray):
            raise ValueError(
                "I has no slopes for this fit, whose estimates at different thetas are independent: fit cbq.CBQ(), "
                "cbq.MOBQ() or cbq.LSMC(), which smooth over theta."
            )
        return replace(self, locations=self.locations @ matrix.T, scales2=matrix @ self.scales2 @ matrix.T)

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
    exact.
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


def mixture_quantile(locations: Array, scales: Array, df: float | Array, probability: float) -> Array:
    """The quantiles (M,) of M mixtures of J components: locations and scales (J, M), degrees of freedom () or (M,)."""
    if probability > 0.5:  # 1 - probability is exact, and a lower tail keeps its digits
        return -mixture_quantile(-locations, scales, df, 1.0 - probability)
    if len(locations) == 1:
        return np.asarray(locations[0] + scales[0] * stdtrit(df, probability))
    with np.errstate(all="ignore"):  # a step that is not a number is replaced
        return _lower_quantile(locations, scales, df, probability)


def _lower_quantile(locations: Array, scales: Array, df: float | Array, probability: float) -> Array:
    """The quantiles for a probability of at most 1/2."""
    each = locations + scales * stdtrit(df, probability)
    low, high = np.min(each, axis=0), np.max(each, axis=0)
    scales = np.maximum(scales, np.finfo(float).tiny)  # a component without spread is a jump, found by bisections
    if len(each) * probability < 1.0:  # F >= F_j / J = p where F_j is J p
        high = np.minimum(high, np.min(locations + scales * stdtrit(df, len(each) * probability), axis=0))
    unit = np.min(scales, axis=0)
    rates = unit / scales
    found = np.clip(low + np.mean(rates * (each - low), axis=0) / np.mean(rates, axis=0), low, high)
    last = np.full(found.shape, np.inf)  # |log F - log p| before the last step
    todo = np.flatnonzero(low < high)  # where all components have the same quantile, so has the mixture
    for _ in range(MAX_STEPS):
        if not len(todo):
            break
        x, a, b, u = found[todo], low[todo], high[todo], unit[todo]
        nu = df[todo] if isinstance(df, np.ndarray) else df
        F, F1, F2 = _with_derivatives((x - locations[:, todo]) / scales[:, todo], rates[:, todo], nu)
        g, slope = np.log(F / probability), F1 / F
        step = -2.0 * g * slope / (2.0 * slope**2 - g * (F2 / F - slope**2))
        new, size = x + u * step, np.abs(g / slope)
        a, b = np.where(g < 0, x, a), np.where(g < 0, b, x)
        taken = (a < new) & (new < b) & (np.abs(g) <= 0.5 * last[todo])
        error = np.maximum(TOLERANCE * u, 4 * np.finfo(float).eps * np.abs(x))
        exact = (np.abs(g) <= ROUNDING) | (u * size <= error)
        found[todo] = np.where(taken, new, np.where(exact, x, 0.5 * (a + b)))
        low[todo], high[todo], last[todo] = a, b, np.abs(g)
        todo = todo[~(exact | (b - a <= error) | (taken & (size <= LAST_STEP)))]
    return np.asarray(found)


def _with_derivatives(z: Array, rates: Array, df: float | Array) -> tuple[Array, Array, Array]:
    """F, F' and F'' (M,) at standardised values z (J, M); rates: (J, M), the derivatives of z."""
    z, nu = np.clip(z, -MAX_STANDARDISED, MAX_STANDARDISED), np.minimum(df, MAX_DF)
    at_zero = -betaln(0.5 * nu, 0.5) - 0.5 * np.log(nu)
    density = rates * np.exp(at_zero - 0.5 * (nu + 1.0) * np.log1p(z * z / nu))
    bent = rates * density * (nu + 1.0) * z / (nu + z * z)
    return np.mean(stdtr(df, z), axis=0), np.mean(density, axis=0), -np.mean(bent, axis=0)
