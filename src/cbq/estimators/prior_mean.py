"""Prior means of f and of I, for every estimator: a known function is subtracted from f and its integral added back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Executor, called, finite, shown
from cbq.embeddings import NoEmbedding, mean_under
from cbq.estimators.base import Estimator, options, settings
from cbq.fit import Finding, Fit, PredictiveDistribution, Suggestion
from cbq.measures import Measure
from cbq.samples import Samples

Values = Callable[[Array], Array]


@dataclass(frozen=True, repr=False)
class PriorMean(Estimator["PriorMeanFit"]):
    """An estimator with prior means: m_X of f, as in a cheap model of f, and m_Theta of I.

    The estimator is fitted to f - m_X, and the integral J(theta) = E m_X(X) under the measure at theta is added to its
    answers. With m_Theta, it is fitted to f - m_X - (m_Theta - J), and m_Theta is added: so I less m_Theta has mean
    zero over theta. Any function is allowed: one that is close to f leaves a small remainder, and small errors.

    Parameters
    ----------
    estimator : any estimator of the library, or an object whose `fit(samples)` returns a cbq.Fit.
    mean_x : m_X, called like f: x (n, d) and theta (p,) to (n,) or (n, C).
    mean_theta : m_Theta, from theta (M, p) to (M,) or (M, C).
    integral : J, from theta (M, p) to (M,) or (M, C). None computes it by adaptive quadrature under the measure at each
        theta, in up to three dimensions, and by sums over atoms: for an accuracy of 1e-10, 1e-8 and 1e-6.

    The fit cannot be saved, as a file holds no code: save the samples.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> samples = problem.collect(T=12, N=20, rng=0)
    >>> mean_x, integral = lambda x, theta: 0.1 * x[:, 0], lambda theta: 0.1 * theta[:, 0]
    >>> method = cbq.PriorMean(cbq.CBQ(), mean_x, integral=integral)
    >>> method.fit(samples).predict([100.0]).shape  # E X = theta here
    (1,)
    """

    needs_measure = False

    estimator: Any
    mean_x: Callable[[Array, Array], npt.ArrayLike] | None = None
    _: KW_ONLY
    mean_theta: Callable[[Array], npt.ArrayLike] | None = None
    integral: Callable[[Array], npt.ArrayLike] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.estimator, type) or not callable(getattr(self.estimator, "fit", None)):
            raise TypeError(f"estimator must have fit(samples), as cbq.CBQ() has, but it is {shown(self.estimator)}.")
        for name in ("mean_x", "mean_theta", "integral"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise TypeError(f"{name} must be a function, or None, but it is {shown(given)}.")
        if self.mean_x is None and self.mean_theta is None:
            raise ValueError("there is no prior mean: pass mean_x=, mean_theta=, or both.")
        if self.mean_x is None and self.integral is not None:
            raise ValueError("integral is the integral of mean_x: pass mean_x, or leave integral out.")

    def __repr__(self) -> str:
        return f"PriorMean({', '.join(f'{name}={text}' for name, text in options(self).items())})"

    def _fit(self, samples: Samples, pool: Executor | None) -> PriorMeanFit:
        means = _Means(self, samples)
        at_theta = means.at_theta(samples.theta) - means.integral(samples.theta)
        remainder = np.array(samples.table) - at_theta[samples.owners]
        for t in range(samples.T):
            rows = slice(int(samples.starts[t]), int(samples.starts[t] + samples.counts[t]))
            remainder[rows] -= means.of_x(samples.points(t), samples.theta[t])
        flat = remainder[:, 0] if samples.C is None else remainder
        parts = np.split(flat, samples.starts[1:])
        rest = samples._with_bounds(None).with_values(parts if samples.is_ragged else np.stack(parts))
        if not samples.depends_on_theta and means.varies(samples):
            rest = rest._replaced(depends_on_theta=True)
        known = isinstance(self.estimator, Estimator)
        inner = self.estimator._diagnosed(rest, pool) if known else self.estimator.fit(rest)
        if not isinstance(inner, Fit):
            raise TypeError(f"fit of the estimator returned {shown(inner)}, but it must return a cbq.Fit.")
        return PriorMeanFit(inner._quiet, means.at_theta, settings(self))


class _Means:
    """The functions of a `PriorMean`, checked: m_X at points, its integral J and the mean of I, as (..., C)."""

    def __init__(self, given: PriorMean, samples: Samples) -> None:
        self.given, self.conditional, self.C = given, samples.conditional, samples.C or 1

    def of_x(self, x: Array, theta: Array) -> Array:
        """m_X at points (n, d) of theta (p,): (n, C)."""
        if self.given.mean_x is None:
            return np.zeros((len(x), self.C))
        return self._checked(called(self.given.mean_x, "mean_x", x, theta), len(x), "mean_x")

    def integral(self, theta: Array) -> Array:
        """J at theta (M, p): (M, C)."""
        if self.given.mean_x is None:
            return np.zeros((len(theta), self.C))
        if self.given.integral is not None:
            return self._checked(called(self.given.integral, "integral", theta), len(theta), "integral")
        measures = self.conditional(theta)
        return np.stack([self._by_quadrature(*pair) for pair in zip(measures, theta, strict=True)])

    def at_theta(self, theta: Array) -> Array:
        """The prior mean of I at theta (M, p), which is m_Theta, or J without one: (M, C)."""
        if self.given.mean_theta is None:
            return self.integral(theta)
        return self._checked(called(self.given.mean_theta, "mean_theta", theta), len(theta), "mean_theta")

    def varies(self, samples: Samples) -> bool:
        """Whether f - m depends on theta, although f does not."""
        first, last = samples.theta[0], samples.theta[-1]
        x = samples.points(0)
        return self.given.mean_theta is not None or not np.array_equal(self.of_x(x, first), self.of_x(x, last))

    def _by_quadrature(self, measure: Measure, theta: Array) -> Array:
        try:
            return mean_under(lambda x: self.of_x(x, theta), measure)
        except (NoEmbedding, RuntimeError) as error:
            raise ValueError(
                f"the integral of mean_x at theta = {theta} could not be computed: {error} Pass integral=, a function "
                f"of theta (M, p)."
            ) from error

    def _checked(self, values: Any, n: int, name: str) -> Array:
        found = finite(values, f"the result of {name}")
        if found.shape not in ((n, self.C), *([(n,)] if self.C == 1 else [])):
            wanted = f"({n},)" if self.C == 1 else f"({n}, {self.C})"
            raise ValueError(f"{name} returned shape {found.shape}, but {wanted} was expected, a value for each row.")
        return found.reshape(n, self.C)


class PriorMeanFit(Fit):
    """I over theta as a known function plus the fit of the remainder; see `Fit` for its answers.

    inner : the fit of the remainder.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.PriorMean(cbq.LSMC(), mean_theta=lambda theta: 0.1 * (theta[:, 0] - 100)).fit(samples)
    >>> type(fit.inner).__name__
    'LSMCFit'
    """

    def __init__(self, inner: Fit, prior_mean: Values, settings: Mapping[str, str]) -> None:
        self.inner, self.theta, self.C = inner, inner.theta, inner.C
        self._prior_mean, self.settings = prior_mean, dict(settings)

    @property
    def correlation(self) -> Array:
        return self.inner.correlation

    @property
    def _width(self) -> int:
        return self.inner._width

    def _predictives(self, theta: Array, *, joint: bool) -> list[PredictiveDistribution]:
        found, means = self.inner._calibrated_predictives(theta, joint=joint), self._prior_mean(theta)
        return [replace(each, locations=each.locations + means[:, c]) for c, each in enumerate(found)]

    def _noise(self, theta: Array) -> Array:
        return self.inner._noise(theta)

    def _suggest(self, n: int, prior: Any, rng: np.random.Generator) -> Suggestion:
        return self.inner._suggest(n, prior, rng)

    def _description(self) -> list[str]:
        given = " and ".join(name for name in ("mean_x", "mean_theta") if self.settings[name] != "None")
        first, *others = self.inner._description()
        return [f"{first.rstrip('.')}, less a prior mean ({given}) that is added to its answers.", *others]

    def _findings_about(self, samples: Samples) -> tuple[Finding, ...]:
        return self.inner.about_samples  # of the remainder

    def _findings(self) -> tuple[Finding, ...]:
        return self.inner._findings()

    def _remarks(self) -> tuple[Finding, ...]:
        return self.inner._remarks()
