"""Distributions of scipy.stats as measures: frozen ones, such as `scipy.stats.norm(0, 1)`, and random variables.

Random variables, such as `scipy.stats.Normal(mu=0, sigma=1)`, are SciPy's replacement of frozen distributions.
scipy.stats takes long to import, so nothing here imports it before an object of it arrives.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array, finite, not_nan, shown
from cbq.io import Many, Numbers, Text, saved
from cbq.measures.base import Measure, SingleMeasure, converter
from cbq.measures.composite import Mixture
from cbq.measures.discrete import MAX_ATOMS, Binomial, Categorical, Poisson, require_atoms
from cbq.measures.gaussian import Gaussian, LogNormal
from cbq.measures.truncated_gaussian import TruncatedGaussian
from cbq.measures.uniform import Uniform
from cbq.measures.univariate import Beta, Exponential, Gamma, StudentT, Univariate, central_difference, columns

TAIL = 1e-17  # the mass beyond the last value of a discrete distribution that is kept
DISCRETE = "scipy.stats._discrete_distns"  # the module of scipy's own discrete distributions
SHAPES = Many(Numbers(infinite=True))  # a shape may be the end of an interval


class ScipyLine(Univariate):
    """A continuous distribution of scipy.stats on the line, without formulas of its own in cbq.measures.

    The score is a central difference of fourth order. Newton steps improve the quantiles.
    """

    # SciPy's names of the log density, both distribution functions and both quantile functions
    _methods: ClassVar[tuple[str, str, str, str, str]]

    @abstractmethod
    def _evaluate(self, method: str, *arguments: Array) -> Any:
        """The result of a method of the distribution, at y (..., n) if it takes points."""

    def _call(self, method: str, *arguments: Array) -> Array:
        # SciPy's formulas may evaluate log(0) internally.
        with np.errstate(all="ignore"):
            return np.asarray(self._evaluate(method, *arguments), dtype=np.float64)

    def _log_density(self, y: Array) -> Array:
        return self._call(self._methods[0], y)

    def _tail(self, y: Array, upper: bool) -> Array:
        return self._call(self._methods[2 if upper else 1], y)

    def _slope(self, y: Array) -> Array:
        lower, upper = self.support
        median, lower_quartile = (self._quantile(np.full(1, q), upper=False) for q in (0.5, 0.25))
        spread = self._quantile(np.full(1, 0.25), upper=True) - lower_quartile
        scale = np.minimum(np.maximum(spread, np.abs(y - median)), np.minimum(y - lower, upper - y))
        # Differences need room on both sides.
        self._require_density(scale > 0)
        return central_difference(self._log_density, y, 1e-3 * scale)

    def _quantile(self, q: Array, upper: bool) -> Array:
        # Newton steps on the log tail improve scipy's generic quantiles, which have an error of up to 1e-8.
        y, sign = self._call(self._methods[4 if upper else 3], q), 1.0 if upper else -1.0
        for _ in range(2):
            reached, p = self._tail(y, upper), np.exp(self._log_density(y))
            with np.errstate(all="ignore"):
                better = y + sign * np.log(reached / q) * reached / p
            accepted = np.isfinite(better) & (np.abs(better - y) < 1e-3 * np.abs(y))
            y = np.where(accepted, better, y)
        return y


def _read(measure: ScipyDistribution) -> dict[str, Any]:
    """The saved fields: the name of one of scipy's own distributions, and its parameters."""
    if not is_scipys_own(measure._dist):
        raise ValueError(f"{measure!r} is made of code of your own, and a file holds no code.")
    *shapes, loc, scale = measure._args
    return {"dist": measure._dist.name, "shapes": shapes, "loc": loc, "scale": scale}


def _build(
    cls: type[ScipyDistribution], _: Any, dist: str, shapes: tuple[Array, ...], loc: Array, scale: Array
) -> ScipyDistribution:
    from scipy import stats  # slow to import

    family = getattr(stats, dist, None)
    if not isinstance(family, stats.rv_continuous) or not is_scipys_own(family):
        raise ValueError(f"scipy.stats has no continuous distribution {dist!r}.")
    return cls(family, *shapes, loc=loc, scale=scale)


@saved("ScipyDistribution", read=_read, build=_build, dist=Text(), shapes=SHAPES, loc=Numbers(), scale=Numbers())
class ScipyDistribution(ScipyLine):
    """A continuous scipy.stats distribution as a measure on the line; `from_scipy` creates it.

    The score is computed by central differences of fourth order. Where the density is smooth, its relative error is
    about 1e-9. The far tails are as accurate as the distribution's own cdf, sf, ppf and isf.

    Parameters
    ----------
    dist : a continuous distribution of scipy.stats, not frozen.
    shapes, loc, scale : its parameters, each (...) or (..., 1), or a scalar.

    Examples
    --------
    >>> from scipy import stats
    >>> measure = cbq.measures.from_scipy(stats.weibull_min(1.5))
    >>> type(measure).__name__, round(float(measure.moments()[0][0]), 4)
    ('ScipyDistribution', 0.9027)
    """

    _methods = ("logpdf", "cdf", "sf", "ppf", "isf")

    @property
    def has_slow_transport(self) -> bool:
        """Whether scipy.stats inverts the distribution function numerically, point by point."""
        from scipy.stats import rv_continuous  # loaded already, as there is a distribution of it

        return type(self._dist)._ppf is rv_continuous._ppf

    def __init__(self, dist: Any, *shapes: npt.ArrayLike, loc: npt.ArrayLike, scale: npt.ArrayLike) -> None:
        if not _is_frozen_kind(dist, "rv_continuous"):
            raise TypeError(
                f"dist must be a continuous distribution of scipy.stats, not frozen, but it is {shown(dist)}."
            )
        given = {f"shape_{i}": not_nan(shape, f"shape_{i}") for i, shape in enumerate(shapes)}
        given |= {"loc": finite(loc, "loc"), "scale": finite(scale, "scale")}
        values = columns(f"ScipyDistribution({dist.name})", **given)
        self._dist, self._parameters = dist, dict(zip(given, values, strict=True))
        if not np.all(dist._argcheck(*values[:-2]) & (values[-1] > 0)):
            arrived = f"the shapes {[np.ravel(a) for a in values[:-2]]} and the scale {np.ravel(values[-1])}"
            raise ValueError(f"scipy.stats.{dist.name} is not defined for {arrived}: correct these parameters.")

    def parameters(self) -> dict[str, Array]:
        return self._parameters

    def equals(self, other: Measure) -> bool:
        if self is other or not isinstance(other, ScipyDistribution):
            return self is other
        # Freezing copies the distribution. The type identifies one of scipy's own; others may also hold data.
        same = type(self._dist) is type(other._dist) and is_scipys_own(self._dist)
        return same and super().equals(other)

    def __repr__(self) -> str:
        return f"ScipyDistribution({self._dist.name}, {self._arguments_in_brief()})"

    @property
    def support(self) -> tuple[Array, Array]:
        lower, upper = self._dist.support(*self._args)
        shape = (*self.batch_shape, 1)
        return np.broadcast_to(lower, shape), np.broadcast_to(upper, shape)

    @property
    def _args(self) -> tuple[Array, ...]:
        return tuple(self._parameters.values())

    def _rebuild(self, parameters: dict[str, Array]) -> Self:
        *shapes, loc, scale = parameters.values()
        return type(self)(self._dist, *shapes, loc=loc, scale=scale)

    @classmethod
    def _stack(cls, measures: Sequence[Self]) -> Measure | None:
        first, kinds = measures[0], {type(measure._dist) for measure in measures}
        shapes = {measure.batch_shape for measure in measures}
        if len(kinds) > 1 or len(shapes) > 1 or not is_scipys_own(first._dist):
            return None
        arrays = zip(*(measure._args for measure in measures), strict=True)
        return first._rebuild({name: np.stack(values) for name, values in zip(first._parameters, arrays, strict=True)})

    def _mean_and_variance(self) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            mean, variance = (np.asarray(a, dtype=float) for a in self._dist.stats(*self._args, moments="mv"))
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(variance))):
            raise ValueError(f"scipy.stats.{self._dist.name} has no finite mean and variance for its parameters.")
        return mean, variance

    def _evaluate(self, method: str, *arguments: Array) -> Any:
        return getattr(self._dist, method)(*arguments, *self._args)


class ScipyVariable(SingleMeasure, ScipyLine):
    """A continuous random variable of scipy.stats as a measure on the line; `from_scipy` creates it.

    It serves variables without a class of their own in cbq.measures, made by scipy.stats.make_distribution, truncate,
    exp, log, abs or arithmetic. It is a single measure, not a batch, and cannot be saved, since it holds code.

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

    _methods = ("logpdf", "cdf", "ccdf", "icdf", "iccdf")
    has_slow_transport = True

    def __init__(self, variable: Any) -> None:
        if not _is_variable(variable, "ContinuousDistribution"):
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

    def equals(self, other: Measure) -> bool:
        return isinstance(other, ScipyVariable) and self.variable is other.variable

    def __repr__(self) -> str:
        return f"ScipyVariable({self.variable!r})"

    @property
    def support(self) -> tuple[Array, Array]:
        lower, upper = self.variable.support()
        return np.reshape(np.asarray(lower, dtype=float), 1), np.reshape(np.asarray(upper, dtype=float), 1)

    def _mean_and_variance(self) -> tuple[Array, Array]:
        moments = self._call("mean"), self._call("variance")
        if not np.all(np.isfinite(moments)):
            raise ValueError(f"{self.variable!r} has no finite mean and variance.")
        return moments

    def _evaluate(self, method: str, *arguments: Array) -> Any:
        return getattr(self.variable, method)(*arguments)


def from_scipy(frozen: Any) -> Measure:
    """The measure of a scipy.stats distribution: a frozen one, or a random variable such as scipy.stats.Normal().

    norm, multivariate_normal, uniform, lognorm, gamma, erlang, chi2, expon, beta, t and truncnorm become measures with
    closed forms, if loc (and for beta, scale) has its default value where the family needs it. Any other continuous
    distribution becomes a `ScipyDistribution`. binom, bernoulli and poisson become `Binomial` and `Poisson`, any other
    discrete distribution a `Categorical` on the values that hold all but 1e-17 of its mass. Array parameters become
    batches of one-dimensional measures.

    Of random variables, Normal, Uniform, Binomial, Mixture, and shifted, scaled, truncated and exponentiated ones of
    these, become measures with closed forms; any other becomes a `ScipyVariable`, or a `Categorical` if it is discrete.

    Examples
    --------
    >>> from scipy import stats
    >>> cbq.measures.from_scipy(stats.gamma(3.0, scale=0.5)).rate
    array([2.])
    """
    measure = _measure(frozen)
    if measure is None:
        wanted = "a frozen scipy.stats distribution, such as scipy.stats.norm(0, 1)"
        raise TypeError(f"from_scipy takes {wanted}, but it was given a {type(frozen).__name__}.")
    return measure


@converter
def _measure(obj: Any) -> Measure | None:
    """The measure of a distribution of scipy.stats; None for any other object."""
    if _is_variable(obj, "Mixture", "DiscreteDistribution", "ContinuousDistribution"):
        return _of_variable(obj)
    if _is_frozen_kind(obj, "multi_rv_frozen"):
        return _multivariate(obj)
    if _is_frozen_kind(obj, "rv_frozen"):
        return _of_frozen_discrete(obj) if _is_frozen_kind(obj.dist, "rv_discrete") else _of_frozen(obj)
    if _is_frozen_kind(obj, "rv_generic", "multi_rv_generic"):
        name = type(obj).__name__.removesuffix("_gen")
        hint = "freeze it by calling it, as in scipy.stats.norm(0, 1)"
        raise TypeError(f"the scipy distribution {name} has no parameters yet: {hint}.")
    return None


# Frozen distributions

# Measures for scipy's families, from scale, shapes and, in the first table, loc.
_WITH_LOC: dict[str, Callable[..., Measure]] = {
    "norm": lambda loc, scale: Gaussian(loc, cov=(scale**2)[..., None]),
    "uniform": lambda loc, scale: Uniform(loc, loc + scale),
    "t": lambda loc, scale, df: StudentT(df, loc, scale),
    "truncnorm": lambda loc, scale, a, b: TruncatedGaussian(loc, scale, loc + scale * a, loc + scale * b),
}
_WITHOUT_LOC: dict[str, Callable[..., Measure]] = {
    "lognorm": lambda scale, s: LogNormal(np.log(scale), cov=(s**2)[..., None]),
    "gamma": lambda scale, a: Gamma(a, 1 / scale),
    "erlang": lambda scale, a: Gamma(a, 1 / scale),
    "chi2": lambda scale, df: Gamma(df / 2, 0.5 / scale),
    "expon": lambda scale: Exponential(1 / scale),
}


def _of_frozen(frozen: Any) -> Measure:
    dist, (*shapes, loc, scale) = frozen.dist, _frozen_parameters(frozen, "loc", "scale")
    measure = _closed_form(dist.name, shapes, loc, scale) if is_scipys_own(dist) else None
    return ScipyDistribution(dist, *shapes, loc=loc, scale=scale) if measure is None else measure


def _closed_form(name: str, shapes: list[Array], loc: Array, scale: Array) -> Measure | None:
    """The measure with closed forms for this family of scipy.stats, or None."""
    if name in _WITH_LOC:
        return _WITH_LOC[name](loc, scale, *shapes)
    if np.any(loc != 0):
        return None
    if name == "beta" and np.all(scale == 1):
        return Beta(*shapes)
    return _WITHOUT_LOC[name](scale, *shapes) if name in _WITHOUT_LOC else None


def _of_frozen_discrete(frozen: Any) -> Measure:
    """The measure of a frozen discrete distribution, by its own class or as a finite sum."""
    dist, (*s, loc) = frozen.dist, _frozen_parameters(frozen, "loc")
    # A user made it from a table of values and probabilities.
    if hasattr(dist, "xk") and hasattr(dist, "pk"):
        return Categorical(dist.pk, np.asarray(dist.xk) + loc)
    if not np.all(dist._argcheck(*s)):
        raise ValueError(f"scipy.stats.{dist.name} is not defined for the shapes {s}: correct these parameters.")
    if dist.name in ("binom", "bernoulli", "poisson") and type(dist).__module__ == DISCRETE and np.all(loc == 0):
        return Poisson(*s) if dist.name == "poisson" else Binomial(*([1.0] if dist.name == "bernoulli" else []), *s)

    def of_values(method: Callable[..., Array]) -> Callable[[Array], Array]:
        return lambda k: method(k, *s, loc=loc)

    below, above, probabilities = map(of_values, (dist.cdf, dist.sf, dist.pmf))
    return _truncated_sum(f"scipy.stats.{dist.name}", loc.shape, dist.support(*s, loc=loc), below, above, probabilities)


def _frozen_parameters(frozen: Any, *names: str) -> tuple[Array, ...]:
    """The shapes of a frozen distribution, and the parameters of these names, as columns (*batch_shape, 1)."""
    shapes, *others = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    given = {f"shape {i}": not_nan(a, f"shape {i} of the scipy distribution") for i, a in enumerate(shapes)}
    given |= {name: finite(value, name) for name, value in zip(names, others, strict=False)}
    return columns(f"from_scipy({frozen.dist.name})", **given)


def _multivariate(frozen: Any) -> Measure:
    name = type(frozen).__name__.removesuffix("_frozen").removesuffix("_gen")
    if name != "multivariate_normal":
        hint = "use a measure of cbq.measures, or Unnormalised with its logpdf and a Stein kernel"
        raise TypeError(f"the scipy distribution {name} has no quantile function, which transport needs: {hint}.")
    mean = np.atleast_1d(frozen.mean)
    return Gaussian(mean, cov=np.reshape(frozen.cov, (mean.size, mean.size)))


def is_scipys_own(dist: Any) -> bool:
    """Whether `dist` is a distribution of scipy.stats itself, not a user's with the same name, nor a user's data."""
    return type(dist).__module__ == "scipy.stats._continuous_distns" and type(dist).__name__ != "rv_histogram"


def _is_frozen_kind(obj: Any, *class_names: str) -> bool:
    """Whether obj is an instance of one of these classes behind scipy's frozen distributions."""
    return _is_instance(obj, ("_distn_infrastructure", "_multivariate"), class_names)


# Random variables


def _of_variable(variable: Any) -> Measure:
    if _is_variable(variable, "Mixture"):
        return Mixture(variable.weights, [_measure(part) for part in variable.components])
    if _is_variable(variable, "DiscreteDistribution"):
        return _of_discrete_variable(variable)
    measure = _closed_form_of_variable(variable)
    return ScipyVariable(variable) if measure is None else measure


def _closed_form_of_variable(variable: Any) -> Measure | None:
    """The measure with closed forms for this variable, or None."""
    if _is_own_variable(variable, "Normal", "StandardNormal"):
        return Gaussian(_column(variable.mu), std=_column(variable.sigma))
    if _is_own_variable(variable, "Uniform"):
        return Uniform(_column(variable.a), _column(variable.b))
    if _is_variable(variable, "ShiftedScaledDistribution"):
        inner = _closed_form_of_variable(variable._dist)
        return _shifted_and_scaled(inner, _column(variable.loc), _column(variable.scale))
    if _is_variable(variable, "MonotonicTransformedDistribution") and variable._g is np.exp:
        inner = _closed_form_of_variable(variable._dist)
        return LogNormal(inner.mean, cov=inner.cov) if type(inner) is Gaussian else None
    if _is_variable(variable, "TruncatedDistribution"):
        inner = _closed_form_of_variable(variable._dist)
        if type(inner) is Gaussian:
            std = np.sqrt(inner.cov[..., 0])
            return TruncatedGaussian(inner.mean, std, _column(variable.lb), _column(variable.ub))
    return None


def _shifted_and_scaled(inner: Measure | None, loc: Array, scale: Array) -> Measure | None:
    """The measure of loc + scale x, if the family is closed under such maps."""
    if type(inner) is Gaussian:
        return Gaussian(loc + scale * inner.mean, std=np.abs(scale) * np.sqrt(inner.cov[..., 0]))
    if type(inner) is Uniform:
        ends = loc + scale * inner.lower, loc + scale * inner.upper
        return Uniform(np.minimum(*ends), np.maximum(*ends))
    return None


def _of_discrete_variable(variable: Any) -> Measure:
    if _is_own_variable(variable, "Binomial"):
        return Binomial(_column(variable.n), _column(variable.p))

    def of_values(method: Callable[[Array], Any]) -> Callable[[Array], Array]:
        # scipy broadcasts values against the batch with the axis of values first
        return lambda k: np.moveaxis(np.asarray(method(np.moveaxis(k, -1, 0))), 0, -1)

    shape, ends = (*np.shape(variable.median()), 1), tuple(_column(end) for end in variable.support())
    below, above, probabilities = map(of_values, (variable.cdf, variable.ccdf, variable.pmf))
    return _truncated_sum(repr(variable), shape, ends, below, above, probabilities)


def _column(value: Any) -> Array:
    """A parameter, with an axis for d = 1."""
    return np.asarray(value, dtype=np.float64)[..., None]


def _is_own_variable(variable: Any, *class_names: str) -> bool:
    """Whether the variable is of one of these classes of scipy's own, not of a class derived from them."""
    return type(variable).__module__ == "scipy.stats._new_distributions" and type(variable).__name__ in class_names


def _is_variable(obj: Any, *class_names: str) -> bool:
    """Whether obj is an instance of one of these classes of random variables."""
    return _is_instance(obj, ("_distribution_infrastructure",), class_names)


# Both


def _is_instance(obj: Any, modules: tuple[str, ...], class_names: tuple[str, ...]) -> bool:
    """Whether obj is an instance of a class of scipy.stats, which is loaded already if there is such an instance."""
    loaded = [sys.modules.get(f"scipy.stats.{module}") for module in modules]
    return any(isinstance(obj, getattr(module, name, ())) for module in loaded for name in class_names)


def _truncated_sum(
    name: str,
    shape: tuple[int, ...],
    support: tuple[npt.ArrayLike, ...],
    below: Callable[[Array], Array],
    above: Callable[[Array], Array],
    probabilities: Callable[[Array], Array],
) -> Categorical:
    """The `Categorical` on the integers that hold all but 1e-17 of the mass of a discrete distribution.

    support : its two ends, which broadcast to the shape (*batch_shape, 1). below, above, probabilities : P(X <= k),
        P(X > k) and P(X = k) at values k (*batch_shape, n).
    """
    lower, upper = (np.broadcast_to(np.asarray(end, dtype=float), shape) for end in support)
    with np.errstate(all="ignore"):
        origin = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0))
        first = np.where(np.isfinite(lower), lower, _far_enough(name, origin, -1.0, below))
        last = np.where(np.isfinite(upper), upper, _far_enough(name, origin, 1.0, above))
        number = float(np.max(last - first, initial=0)) + 1
        require_atoms(name, int(first.size * number))
        values = first + np.arange(number)
        p = np.where(values <= last, np.asarray(probabilities(values), dtype=float), 0.0)
    total = np.sum(p, axis=-1, keepdims=True)
    if not np.all(np.abs(total - 1) < 1e-9):
        raise ValueError(f"the probabilities of {name} on the integers sum to {np.ravel(total)[0]:g}, not to 1.")
    return Categorical(p / total, values)


def _far_enough(name: str, origin: Array, sign: float, mass_beyond: Callable[[Array], Array]) -> Array:
    """Integers (*batch_shape, 1) on one side of the origin with less than TAIL beyond."""
    # Steps of powers of two, since scipy's own quantiles of a tail as small are infinite, or never return.
    steps = 2.0 ** np.arange(int(np.log2(MAX_ATOMS)))
    beyond = np.asarray(mass_beyond(origin + sign * steps), dtype=float)  # (*batch_shape, S)
    if not np.all(beyond[..., -1] < TAIL):
        raise ValueError(
            f"{name} has too heavy a tail for a finite sum: {np.max(beyond[..., -1]):.1g} of its mass is more than "
            f"{steps[-1]:.3g} from {np.ravel(origin)[0]:g}. Truncate it, and pass a Categorical."
        )
    return np.asarray(origin + sign * steps[np.argmax(beyond < TAIL, axis=-1)][..., None])
