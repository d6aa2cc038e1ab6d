"""From scipy.stats to the measures here; scipy.stats itself is slow to import and never imported here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cbq._arrays import Array, finite
from cbq.measures.base import Measure
from cbq.measures.beta import Beta
from cbq.measures.gamma import Exponential, Gamma
from cbq.measures.gaussian import Gaussian
from cbq.measures.lognormal import LogNormal
from cbq.measures.quantile import Quantile, is_scipys_own
from cbq.measures.student_t import StudentT
from cbq.measures.truncated_gaussian import TruncatedGaussian
from cbq.measures.uniform import Uniform
from cbq.measures.univariate import columns


def as_measure(obj: Any) -> Measure:
    """`obj` as a measure: a measure itself, or a frozen scipy.stats distribution."""
    if isinstance(obj, Measure):
        return obj
    if _is(obj, "rv_frozen", "_distn_infrastructure") or _is(obj, "multi_rv_frozen", "_multivariate"):
        return from_scipy(obj)
    name = type(obj).__name__
    if _is(obj, "rv_generic", "_distn_infrastructure") or _is(obj, "multi_rv_generic", "_multivariate"):
        raise TypeError(
            f"the scipy distribution {name.removesuffix('_gen')} has no parameters yet: freeze it by calling "
            f"it, as in scipy.stats.norm(0, 1)."
        )
    raise TypeError(f"a measure of cbq.measures or a frozen scipy.stats distribution is needed, but a {name} arrived.")


def from_scipy(frozen: Any) -> Measure:
    """The measure of a frozen scipy.stats distribution.

    norm, multivariate_normal, uniform, lognorm, gamma, erlang, chi2, expon, beta, t and truncnorm become the
    measures of that name where their loc allows it; every other continuous one becomes a `Quantile`. Array
    parameters become batches of one-dimensional measures.
    """
    if _is(frozen, "multi_rv_frozen", "_multivariate"):
        return _multivariate(frozen)
    if not _is(frozen, "rv_frozen", "_distn_infrastructure"):
        raise TypeError(
            f"from_scipy takes a frozen scipy.stats distribution, such as scipy.stats.norm(0, 1), but a "
            f"{type(frozen).__name__} arrived."
        )
    if _is(frozen.dist, "rv_discrete", "_distn_infrastructure"):
        raise TypeError(
            f"the scipy distribution {frozen.dist.name} is discrete, and measures here are continuous: list "
            f"its values and probabilities in an Empirical instead."
        )
    shapes, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    given = {f"shape {i}": finite_or_inf(a, f"shape {i}") for i, a in enumerate(shapes)}
    *s, loc, scale = columns(
        f"from_scipy({frozen.dist.name})", **given, loc=finite(loc, "loc"), scale=finite(scale, "scale")
    )
    native = _NATIVE.get(frozen.dist.name) if is_scipys_own(frozen.dist) else None
    measure = native(s, loc, scale) if native else None
    return Quantile(frozen.dist, *s, loc=loc, scale=scale) if measure is None else measure


def finite_or_inf(value: Any, name: str) -> Array:
    """A shape parameter: infinite ends are legal, NaN is not."""
    array = np.array(value, dtype=np.float64)
    if np.any(np.isnan(array)):
        raise ValueError(f"{name} of the scipy distribution must not be NaN: correct it.")
    return array


def _multivariate(frozen: Any) -> Measure:
    name = type(frozen).__name__.removesuffix("_frozen").removesuffix("_gen")
    if name != "multivariate_normal":
        raise TypeError(
            f"the scipy distribution {name} has no quantile function, so it cannot be transported: use a "
            f"measure of cbq.measures, or Unnormalised with its logpdf and a Stein kernel."
        )
    mean = np.atleast_1d(frozen.mean)
    return Gaussian(mean, np.reshape(frozen.cov, (mean.size, mean.size)))


def _lognormal(s: list[Array], loc: Array, scale: Array) -> Measure | None:
    return LogNormal(np.log(scale), (s[0] ** 2)[..., None]) if np.all(loc == 0) else None


def _gamma(s: list[Array], loc: Array, scale: Array) -> Measure | None:
    return Gamma(s[0], 1 / scale) if np.all(loc == 0) else None


def _chi2(s: list[Array], loc: Array, scale: Array) -> Measure | None:
    return Gamma(s[0] / 2, 0.5 / scale) if np.all(loc == 0) else None


def _exponential(s: list[Array], loc: Array, scale: Array) -> Measure | None:
    return Exponential(1 / scale) if np.all(loc == 0) else None


def _beta(s: list[Array], loc: Array, scale: Array) -> Measure | None:
    return Beta(s[0], s[1]) if np.all(loc == 0) and np.all(scale == 1) else None


def _truncated(s: list[Array], loc: Array, scale: Array) -> Measure:
    return TruncatedGaussian(loc, scale, loc + scale * s[0], loc + scale * s[1])


_NATIVE: dict[str, Callable[[list[Array], Array, Array], Measure | None]] = {
    "norm": lambda _, loc, scale: Gaussian(loc, (scale**2)[..., None]),
    "uniform": lambda _, loc, scale: Uniform(loc, loc + scale),
    "lognorm": _lognormal,
    "gamma": _gamma,
    "erlang": _gamma,
    "chi2": _chi2,
    "expon": _exponential,
    "beta": _beta,
    "t": lambda s, loc, scale: StudentT(s[0], loc, scale),
    "truncnorm": _truncated,
}


def _is(obj: Any, class_name: str, module: str) -> bool:
    """Whether obj is an instance of a class of scipy.stats, which then has been imported already."""
    loaded = sys.modules.get(f"scipy.stats.{module}")
    return loaded is not None and isinstance(obj, getattr(loaded, class_name))
