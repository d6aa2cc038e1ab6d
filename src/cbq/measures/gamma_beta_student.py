"""The gamma, exponential, beta and Student's t measures, whose tails are incomplete gamma and beta functions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from cbq.common.arrays import Array
from cbq.io import Numbers, saved
from cbq.measures.base import Measure, parameter, positive_parameter
from cbq.measures.univariate import Univariate, columns


@saved("Gamma", shape=Numbers(), rate=Numbers())
class Gamma(Univariate):
    """The gamma measure on (0, inf), with density proportional to x^(shape - 1) exp(-rate x).

    Parameters
    ----------
    shape, rate : (...) or (..., 1), or scalars. The mean is shape / rate.
    scale : instead of the rate, its inverse, as in scipy.stats.gamma.

    Examples
    --------
    >>> cbq.measures.Gamma(shape=4.0, rate=2.0).moments()[0]
    array([2.])
    """

    _ends = (0.0, np.inf)
    _spellings = ("scale",)

    def __init__(
        self, shape: npt.ArrayLike, rate: npt.ArrayLike | None = None, *, scale: npt.ArrayLike | None = None
    ) -> None:
        self.shape, self.rate = columns(
            "Gamma", shape=positive_parameter(shape, "shape"), rate=_rate("Gamma(shape, ", rate, scale)
        )

    def _mean_and_variance(self) -> tuple[Array, Array]:
        return self.shape / self.rate, self.shape / self.rate / self.rate

    def _log_density(self, y: Array) -> Array:
        # In terms of w = x / mean, large terms cancel analytically if the shape is large.
        w = y * (self.rate / self.shape)
        log_norm = stirling(self.shape) - np.log(self.shape / self.rate)
        return np.asarray(special.xlogy(self.shape - 1, w) - self.shape * (w - 1) + log_norm)

    def _slope(self, y: Array) -> Array:
        # At y = 0 the log density is finite only for shape 1, where the first term is zero.
        with np.errstate(over="ignore"):
            return np.asarray((self.shape - 1) / np.where(y == 0, 1, y) - self.rate)

    def _tail(self, y: Array, upper: bool) -> Array:
        tail = special.gammaincc if upper else special.gammainc
        return np.asarray(tail(self.shape, self.rate * y))

    def _quantile(self, q: Array, upper: bool) -> Array:
        quantile = special.gammainccinv if upper else special.gammaincinv
        return np.asarray(quantile(self.shape, q) / self.rate)


@saved("Exponential", rate=Numbers())
class Exponential(Univariate):
    """The exponential measure on (0, inf), with density rate exp(-rate x).

    Parameters
    ----------
    rate : (...) or (..., 1), or a scalar. It is the inverse of the mean.
    scale : instead of the rate, the mean, as in scipy.stats.expon.

    Examples
    --------
    >>> cbq.measures.Exponential(2.0).moments()[0]
    array([0.5])
    """

    _ends = (0.0, np.inf)
    _spellings = ("scale",)

    def __init__(self, rate: npt.ArrayLike | None = None, *, scale: npt.ArrayLike | None = None) -> None:
        (self.rate,) = columns("Exponential", rate=_rate("Exponential(", rate, scale))

    def _mean_and_variance(self) -> tuple[Array, Array]:
        return 1 / self.rate, 1 / self.rate / self.rate

    def _log_density(self, y: Array) -> Array:
        return np.log(self.rate) - self.rate * y

    def _slope(self, y: Array) -> Array:
        return np.broadcast_to(-self.rate, y.shape)

    def _tail(self, y: Array, upper: bool) -> Array:
        return np.exp(-self.rate * y) if upper else -np.expm1(-self.rate * y)

    def _quantile(self, q: Array, upper: bool) -> Array:
        with np.errstate(divide="ignore"):  # the upper end of the support is inf
            return -(np.log(q) if upper else np.log1p(-q)) / self.rate


@saved("Beta", a=Numbers(), b=Numbers())
class Beta(Univariate):
    """The beta measure on (0, 1), with density proportional to x^(a - 1) (1 - x)^(b - 1).

    Parameters
    ----------
    a, b : (...) or (..., 1), or scalars.

    Examples
    --------
    >>> cbq.measures.Beta(2.0, 6.0).moments()[0]
    array([0.25])
    """

    _ends = (0.0, 1.0)

    def __init__(self, a: npt.ArrayLike, b: npt.ArrayLike) -> None:
        self.a, self.b = columns("Beta", a=positive_parameter(a, "a"), b=positive_parameter(b, "b"))

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
        far_left = special.xlogy(a - 1, y) - (a - 1) * np.log(a / n)
        far_right = special.xlog1py(b - 1, -y) - (b - 1) * np.log(b / n)
        head = np.where(np.abs(left) < 0.5, (a - 1) * np.log1p(left), far_left)
        tail = np.where(np.abs(right) < 0.5, (b - 1) * np.log1p(right), far_right)
        log_norm = stirling(a) + stirling(b) - stirling(n) - np.log(a / n) - np.log(b / n)
        return np.asarray(head + tail + log_norm)

    def _slope(self, y: Array) -> Array:
        # At an end of the support the log density is finite only if the exponent there is zero.
        with np.errstate(over="ignore"):
            left = (self.a - 1) / np.where(y == 0, 1, y)
            return np.asarray(left - (self.b - 1) / np.where(y == 1, 1, 1 - y))

    def _tail(self, y: Array, upper: bool) -> Array:
        tail = special.betaincc if upper else special.betainc
        return np.asarray(tail(self.a, self.b, y))

    def _quantile(self, q: Array, upper: bool) -> Array:
        quantile = special.betainccinv if upper else special.betaincinv
        return np.asarray(quantile(self.a, self.b, q))


@saved("StudentT", df=Numbers(), loc=Numbers(), scale=Numbers())
class StudentT(Univariate):
    """Student's t measure on the line: loc + scale t, where t has `df` degrees of freedom.

    Parameters
    ----------
    df, loc, scale : (...) or (..., 1), or scalars; df and scale are positive. The scale is not the standard deviation,
        which is scale sqrt(df / (df - 2)) for df > 2.

    Examples
    --------
    >>> cbq.measures.StudentT(df=5.0, loc=1.0, scale=2.0).transport([0.5])
    array([[1.]])
    """

    def __init__(self, df: npt.ArrayLike, loc: npt.ArrayLike = 0.0, scale: npt.ArrayLike = 1.0) -> None:
        self.df, self.loc, self.scale = columns(
            "StudentT",
            df=positive_parameter(df, "df"),
            loc=parameter(loc, "loc"),
            scale=positive_parameter(scale, "scale"),
        )

    def translated(self, shift: Array) -> Measure:
        return StudentT(self.df, self.loc + shift, self.scale)

    def _mean_and_variance(self) -> tuple[Array, Array]:
        smallest = np.min(self.df, initial=np.inf)
        if smallest <= 2:
            missing = "mean and no covariance: they need df > 1 and" if smallest <= 1 else "covariance: it needs"
            hint = "Use its median `loc` and its quantiles (`transport`) instead."
            raise ValueError(f"StudentT with df = {smallest:g} has no {missing} df > 2. {hint}")
        return self.loc, self.scale**2 * (self.df / (self.df - 2))

    def _log_density(self, y: Array) -> Array:
        r = np.abs(self._ratio(y))
        small, large = np.minimum(r, 1), np.maximum(r, 1)
        # log(1 + r^2), without overflow for large r and without loss of digits for small r
        log_base = np.where(r < 1, np.log1p(small * small), 2 * np.log(large) + np.log1p((1 / large) ** 2))
        # log Gamma(a + 1/2) - log Gamma(a) with a = df / 2; `stirling` avoids the cancellation for large a
        a = self.df / 2
        ratio = a * np.log1p(0.5 / a) + 0.5 * np.log(a + 0.5) - 0.5 - stirling(a + 0.5) + stirling(a)
        log_peak = ratio - 0.5 * np.log(np.pi * self.df) - np.log(self.scale)
        return np.asarray(-(self.df + 1) / 2 * log_base + log_peak)

    def _slope(self, y: Array) -> Array:
        r = self._ratio(y)
        large = np.where(np.abs(r) > 1, r, 1)
        bend = np.where(np.abs(r) > 1, 1 / (large + 1 / large), r / (1 + np.minimum(np.abs(r), 1) ** 2))
        return np.asarray(-(self.df + 1) / np.sqrt(self.df) / self.scale * bend)

    def _tail(self, y: Array, upper: bool) -> Array:
        # An incomplete beta function of r^2 / (1 + r^2), or of its complement
        r = -self._ratio(y) if upper else self._ratio(y)
        large = np.maximum(np.abs(r), 1)
        small = np.minimum(np.abs(r), 1) ** 2
        with np.errstate(under="ignore", over="ignore"):
            far = special.betainc(self.df / 2, 0.5, 1 / (1 + large * large))
        near = special.betaincc(0.5, self.df / 2, small / (1 + small))
        tail = 0.5 * np.where(np.abs(r) > 1, far, near)
        return np.asarray(np.where(r < 0, tail, 1 - tail))

    def _quantile(self, q: Array, upper: bool) -> Array:
        tail = 2 * np.minimum(q, 1 - q)
        near = np.asarray(special.betainccinv(0.5, self.df / 2, tail))
        far = np.asarray(special.betaincinv(self.df / 2, 0.5, tail))
        with np.errstate(divide="ignore", over="ignore"):  # the quantiles at q = 0 and q = 1 are infinite
            squared = np.where(near < 0.5, near / (1 - np.minimum(near, 0.5)), 1 / far - 1)
        r = np.where(q < 0.5, -1.0, 1.0) * np.sqrt(np.maximum(squared, 0))
        scale = -self.scale if upper else self.scale
        return np.asarray(self.loc + scale * np.sqrt(self.df) * r)

    def _ratio(self, y: Array) -> Array:
        """r = t / sqrt(df)."""
        return np.asarray((y - self.loc) / self.scale / np.sqrt(self.df))


def _rate(call: str, rate: npt.ArrayLike | None, scale: npt.ArrayLike | None) -> Array:
    """The rate, given itself or by its inverse; `call` is how the call begins, for the error."""
    if rate is not None and scale is None:
        return positive_parameter(rate, "rate")
    if scale is not None and rate is None:
        return np.asarray(1 / positive_parameter(scale, "scale"))
    arrived = "neither of them" if rate is None else "both"
    raise TypeError(f"a rate or a scale = 1 / rate is needed, but {arrived} arrived: write {call}rate=...).")


def stirling(a: Array) -> Array:
    """a log a - a - log Gamma(a), by Stirling's series for a > 10, where the terms would cancel."""
    far = np.maximum(a, 10.0)
    b = 1 / (far * far)
    tail = (1 / 12 - b * (1 / 360 - b * (1 / 1260 - b * (1 / 1680 - b * (1 / 1188 - b * 691 / 360360))))) / far
    near = np.minimum(a, 10.0)
    return np.where(a > 10, 0.5 * np.log(far / (2 * np.pi)) - tail, near * np.log(near) - near - special.gammaln(near))
