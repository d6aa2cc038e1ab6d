"""The random variables of scipy.stats that replace its frozen distributions: `scipy.stats.Normal(mu=0, sigma=1)`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from cbq.common.arrays import Array, indexed
from cbq.common.checks import shown
from cbq.measures.base import Measure, converter
from cbq.measures.discrete import Binomial
from cbq.measures.gaussian import Gaussian, LogNormal
from cbq.measures.mixture import Mixture
from cbq.measures.scipy_distributions import NumericSlope, truncated_sum
from cbq.measures.truncated_gaussian import TruncatedGaussian
from cbq.measures.uniform import Uniform


class ScipyVariable(NumericSlope):
    """A continuous random variable of scipy.stats as a measure on the line; `from_scipy` creates it.

    For variables without a measure of their own in cbq.measures, made by scipy.stats.make_distribution, truncate, exp,
    log, abs or arithmetic. It is a single measure, not a batch, and cannot be saved, since it holds code.

    Parameters
    ----------
    variable : the random variable, whose parameters are scalars.

    Examples
    --------
    >>> from scipy import stats
    >>> half_normal = cbq.measures.from_scipy(abs(stats.Normal()))
    >>> type(half_normal).__name__, half_normal.transport([0.5]).round(3).tolist()
    ('ScipyVariable', [[0.674]])
    """

    def __init__(self, variable: Any) -> None:
        if not _is(variable, "ContinuousDistribution"):
            raise TypeError(f"variable must be a continuous random variable of scipy.stats, not {shown(variable)}.")
        if np.shape(variable.median()):
            raise ValueError(
                f"{variable!r} holds {np.size(variable.median())} distributions, and only some families can be taken "
                f"apart: pass one for each theta, as a list or a function of theta."
            )
        self.variable = variable

    @property
    def dim(self) -> int:
        return 1

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def parameters(self) -> dict[str, Array]:
        return {}  # they are inside the random variable

    def equals(self, other: Measure) -> bool:
        return isinstance(other, ScipyVariable) and self.variable is other.variable

    def __getitem__(self, index: Any) -> Self:
        if indexed(np.empty(()), index).size != 1:
            raise IndexError(f"{self!r} is a single measure and has no index {shown(index)}.")
        return self

    def __repr__(self) -> str:
        return f"ScipyVariable({self.variable!r})"

    @property
    def support(self) -> tuple[Array, Array]:
        lower, upper = self.variable.support()
        return np.reshape(np.asarray(lower, dtype=float), 1), np.reshape(np.asarray(upper, dtype=float), 1)

    def _mean_and_variance(self) -> tuple[Array, Array]:
        moments = np.asarray(self._call("mean")), np.asarray(self._call("variance"))
        if not np.all(np.isfinite(moments)):
            raise ValueError(f"{self.variable!r} has no finite mean and variance.")
        return moments

    def _log_density(self, y: Array) -> Array:
        return self._call("logpdf", y)

    def _tail(self, y: Array, upper: bool) -> Array:
        return self._call("ccdf" if upper else "cdf", y)

    def _raw_quantile(self, q: Array, upper: bool) -> Array:
        return self._call("iccdf" if upper else "icdf", q)

    def _call(self, name: str, *arguments: Array) -> Array:
        with np.errstate(all="ignore"):  # scipy's formulas may evaluate log(0) internally
            return np.asarray(getattr(self.variable, name)(*arguments), dtype=np.float64)


@converter
def variable_measure(obj: Any) -> Measure | None:
    """The measure of a random variable of scipy.stats; None for any other object."""
    if _is(obj, "Mixture"):
        return Mixture(obj.weights, [variable_measure(part) for part in obj.components])
    if _is(obj, "DiscreteDistribution"):
        return _discrete(obj)
    if not _is(obj, "ContinuousDistribution"):
        return None
    measure = _closed_form(obj)
    return ScipyVariable(obj) if measure is None else measure


def _closed_form(obj: Any) -> Measure | None:
    """The measure with closed forms for this variable, or None."""
    if _named(obj, "Normal", "StandardNormal"):
        return Gaussian(_column(obj.mu), std=_column(obj.sigma))
    if _named(obj, "Uniform"):
        return Uniform(_column(obj.a), _column(obj.b))
    if _is(obj, "ShiftedScaledDistribution"):
        return _moved(_closed_form(obj._dist), _column(obj.loc), _column(obj.scale))
    if _is(obj, "MonotonicTransformedDistribution") and obj._g is np.exp:
        inner = _closed_form(obj._dist)
        return LogNormal(inner.mean, cov=inner.cov) if type(inner) is Gaussian else None
    if _is(obj, "TruncatedDistribution"):
        inner = _closed_form(obj._dist)
        if type(inner) is Gaussian:
            return TruncatedGaussian(inner.mean, np.sqrt(inner.cov[..., 0]), _column(obj.lb), _column(obj.ub))
    return None


def _moved(inner: Measure | None, loc: Array, scale: Array) -> Measure | None:
    """The measure of loc + scale x, if the family is closed under such maps."""
    if type(inner) is Gaussian:
        return Gaussian(loc + scale * inner.mean, std=np.abs(scale) * np.sqrt(inner.cov[..., 0]))
    if type(inner) is Uniform:
        ends = loc + scale * inner.lower, loc + scale * inner.upper
        return Uniform(np.minimum(*ends), np.maximum(*ends))
    return None


def _discrete(obj: Any) -> Measure:
    if _named(obj, "Binomial"):
        return Binomial(_column(obj.n), _column(obj.p))
    shape = np.shape(obj.median())

    def of_values(method: Callable[[Array], Any]) -> Callable[[Array], Array]:
        return lambda k: np.moveaxis(np.asarray(method(np.moveaxis(k, -1, 0))), 0, -1)

    lower, upper = (np.broadcast_to(np.asarray(end, dtype=float), shape)[..., None] for end in obj.support())
    return truncated_sum(repr(obj), lower, upper, of_values(obj.cdf), of_values(obj.ccdf), of_values(obj.pmf))


def _column(value: Any) -> Array:
    """A parameter, with an axis for d = 1."""
    return np.asarray(value, dtype=np.float64)[..., None]


def _named(obj: Any, *names: str) -> bool:
    """Whether obj is of one of these classes of scipy's own, not of a class derived from them."""
    return type(obj).__module__ == "scipy.stats._new_distributions" and type(obj).__name__ in names


def _is(obj: Any, name: str) -> bool:
    """Whether obj is an instance of this class of scipy.stats, which is then loaded already."""
    module = sys.modules.get("scipy.stats._distribution_infrastructure")
    return isinstance(obj, getattr(module, name, ()))
