"""Measures on the line that are given by density, distribution function and quantile function.

The families here are the gamma, exponential, beta and Student's t measures, whose tails are incomplete gamma and beta
functions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.special import ndtr, ndtri

from cbq.common import Array, broadcast_batch
from cbq.io import Numbers, saved
from cbq.measures.base import Measure, parameter, positive_parameter


class Univariate(Measure):
    """A family of measures on the line, given by functions of arrays y (..., n) without the axis d.

    A subclass stores its parameters as attributes (*batch_shape, 1), made by `columns`, and implements five methods.
    The axis d = 1 of the parameters broadcasts over the n points. Radial kernels have embeddings under every subclass,
    whose density may have kinks and jumps; set `has_smooth_density` to True if it has none, so that nothing looks for
    them.

    Examples
    --------
    >>> isinstance(cbq.measures.Gamma(2.0, 1.0), cbq.measures.Univariate)
    True
    """

    has_smooth_density = False

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
        # Only the smaller tail probability keeps its digits, so each half has its own quantile function.
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
        """Derivative of the log density, at y where the log density is finite."""

    @abstractmethod
    def _tail(self, y: Array, upper: bool) -> Array:
        """P(X <= y), or P(X > y) if `upper`, for y in the support."""

    @abstractmethod
    def _quantile(self, q: Array, upper: bool) -> Array:
        """The y at which `_tail` is q."""


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

    has_smooth_density = True
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
        # In units w = x / mean, the large terms of a large shape cancel analytically.
        w = y * (self.rate / self.shape)
        log_norm = stirling(self.shape) - np.log(self.shape / self.rate)
        return np.asarray(special.xlogy(self.shape - 1, w) - self.shape * (w - 1) + log_norm)

    def _slope(self, y: Array) -> Array:
        # At y = 0 the log density is finite only for shape 1, and then the first term is zero.
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

    has_smooth_density = True
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
        # The upper end of the support is infinite.
        with np.errstate(divide="ignore"):
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

    has_smooth_density = True
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

    has_heavy_tails = True
    has_smooth_density = True

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
        # The quantiles at q = 0 and q = 1 are infinite.
        with np.errstate(divide="ignore", over="ignore"):
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
