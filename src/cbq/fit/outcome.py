"""The distribution of f(X, theta), X ~ P_theta, at several thetas: probabilities, quantiles, spread, shortfall.

Given the runs, a value of f is a mixture of Gaussians around its mean m(x). Averaged over points of P_theta with the
weights w, its distribution function is

    F(c) = sum_i w_i mean_j Phi((c - m_i) / s_ij),

and every estimate is a functional of this F: its quantiles, its moments, E[f | f > ppf(q)]. No run is lost to an
indicator: each shows how far f is from c.

Intervals hold what the runs leave open about f, and the error of the points that stand for P_theta. For the first, f is
drawn as a function of x (`emulator.Paths`) at some of the points: errors at neighbouring points go together, and the
functional of each draw, less the functional of F at these points, is one of its possible errors. For the second, the
points are several Sobol sequences, scrambled independently, over which the functional scatters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit

from cbq.common import Array, between_0_and_1, data_frame, finite, generator, is_whole, one_of, shown
from cbq.fit.importance import WeightedPoints
from cbq.linalg.lapack import symmetric_root
from cbq.measures import Empirical, Measure
from cbq.samples import by_theta

if TYPE_CHECKING:
    from cbq.fit.base import Fit

Of = Literal["run", "mean"]
REPLICATES = 8  # Sobol sequences
DRAWS, FEW = 256, 128  # draws of f, and the points by which it is drawn
LEAST = 256  # points of a measure
STEPS = 60  # of a bisection
MAX_KEPT = 2**26  # numbers, in the values of all thetas
TINY, HUGE = np.finfo(float).tiny, 1e300
Triple = tuple[Array, Array, Array]
Functional = Callable[["Marginals", Array], Array]
DrawnFunctional = Callable[["Draws", Array], Array]


@dataclass(frozen=True, eq=False)
class Marginals:
    """What is known of f at n points: means (n,) and standard deviations (J, n) of the components of a mixture.

    weights: (n,), which sum to one. low, high: the bounds of f.
    """

    weights: Array
    mean: Array
    std: Array
    low: float
    high: float

    def take(self, rows: slice) -> Marginals:
        """Some of the points."""
        weights = self.weights[rows] / np.sum(self.weights[rows])
        return Marginals(weights, self.mean[rows], self.std[:, rows], self.low, self.high)

    def cdf(self, c: Array) -> Array:
        """F (K,) at values c (K,)."""
        found = np.array([np.mean(_below(at, self.mean, self.std) @ self.weights) for at in c])
        return _within_bounds(c, found, self.low, self.high)

    def ppf(self, q: Array) -> Array:
        """Quantiles (K,) of F, by bisection."""
        reach = 40.0 * np.max(self.std, axis=0)
        low, high = (np.full(len(q), end) for end in (np.min(self.mean - reach), np.max(self.mean + reach)))
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(np.clip(high, self.low, self.high))

    def standardised(self, c: float) -> Array:
        """(c - mean) / std (J, n)."""
        return _standardised(c, self.mean, self.std, most=np.inf)

    def variance(self, _: Array) -> Array:
        """The variance (1,) of F."""
        first, second = _moments(self.mean, self.std, self.low, self.high)
        centre = np.mean(first @ self.weights)
        return np.atleast_1d(np.maximum(np.mean((second - 2 * centre * first + centre**2) @ self.weights), 0.0))

    def shortfall(self, q: Array) -> Array:
        """E[f | the upper 1 - q of F] (K,)."""
        v = self.ppf(q)
        above = np.array([np.mean(_excess(at, self.mean, self.std, self.high) @ self.weights) for at in v])
        return np.asarray(v + above / (1 - q))


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of f at n points: means (size, n), standard deviations (size, n) around them, and values (size, n)."""

    weights: Array
    mean: Array
    std: Array
    values: Array
    low: float
    high: float

    def cdf(self, c: Array) -> Array:
        """F (size, K) of each draw at values c (K,)."""
        found = np.stack([_below(at, self.mean, self.std) @ self.weights for at in c], axis=-1)
        return _within_bounds(c, found, self.low, self.high)

    def ppf(self, q: Array) -> Array:
        """Quantiles (size, K) of each draw."""
        order = np.argsort(self.values, axis=1)
        total = np.cumsum(self.weights[order], axis=1)
        rows = np.stack([np.sum(total < at * total[:, -1:], axis=1) for at in q], axis=-1)
        return np.take_along_axis(self.values, np.take_along_axis(order, rows, axis=1), axis=1)

    def variance(self, _: Array) -> Array:
        """The variance (size, 1) of each draw."""
        centre = self.values @ self.weights
        return np.asarray((self.values - centre[:, None]) ** 2 @ self.weights)[:, None]

    def shortfall(self, q: Array) -> Array:
        """E[f | the upper 1 - q] (size, K) of each draw."""
        v = self.ppf(q)
        above = [np.maximum(self.values - at[:, None], 0.0) @ self.weights for at in v.T]
        return np.asarray(v + np.stack(above, axis=-1) / (1 - q))


@dataclass(frozen=True, eq=False)
class Values:
    """One output of f at points of the measure of one theta.

    whole: at all points. rows: those of each Sobol sequence; none for a discrete measure. some, draws: at the points at
    which f was drawn.
    """

    whole: Marginals
    rows: tuple[slice, ...]
    some: Marginals
    draws: Draws

    def possible(self, of_f: Functional, of_draws: DrawnFunctional, at: Array, estimate: Array) -> Array:
        """Possible values (size, K) of a functional, around its estimate (K,)."""
        found = of_draws(self.draws, at) - of_f(self.some, at) + estimate
        return np.asarray(found + _error_of_points(np.array([of_f(self.whole.take(rows), at) for rows in self.rows])))


def _error_of_points(replicates: Array) -> Array:
    """Possible errors (DRAWS, K) of the average over replicates (R, K); none without replicates."""
    if not len(replicates):
        return np.zeros((DRAWS, 1))
    error = np.std(replicates, axis=0, ddof=1) / np.sqrt(len(replicates))
    scores = stdtrit(len(replicates) - 1, (np.arange(DRAWS) + 0.5) / DRAWS)
    return np.asarray(np.multiply.outer(np.random.default_rng(0).permutation(scores), error))


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """The distribution of f(X, theta) under P_theta at M thetas. Made by `fit.outcome(theta)`.

    Results are (M,), or (M, K) for K values or probabilities, with an axis of outputs (C,) at the end where f has one.
    With `level`, each is a triple: the estimate, and the ends of an interval.

    theta : (M, p). size : number of points of each measure. of : "run" or "mean", see `fit.outcome`.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> outcome = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0)).outcome([90.0, 100.0, 110.0])
    >>> outcome.ppf([0.5, 0.95]).shape
    (3, 2)
    >>> median, low, high = outcome.ppf(0.5, level=0.9)
    >>> outcome.interval(0.8)[1].shape  # the upper ends of intervals that hold 80% of the outcomes
    (3,)
    """

    fit: Fit
    theta: Array
    size: int
    of: Of
    _rngs: tuple[np.random.Generator, ...]
    _kept: dict[int, tuple[Values, ...]] = field(default_factory=dict)
    _points: Sequence[WeightedPoints] | None = None  # of each measure, if they are not Sobol points

    @classmethod
    def of_fit(cls, fit: Fit, theta: npt.ArrayLike, *, size: int, of: Of, rng: np.random.Generator | int) -> Outcome:
        """From the arguments of `fit.outcome`."""
        thetas = fit._thetas(theta)
        if not is_whole(size, LEAST):
            raise ValueError(f"size must be a whole number of points, {LEAST} or more, but it is {shown(size)}.")
        rngs = tuple(generator(rng).spawn(len(thetas)))
        fit.emulator.require_draws()
        return cls(fit, thetas, int(size), one_of(of, Of, "of"), rngs)

    @classmethod
    def at_points(
        cls, fit: Fit, theta: Array, points: Sequence[WeightedPoints], rng: np.random.Generator | int = 0
    ) -> Outcome:
        """The outcome of one run from given points of the measures of thetas (M, p), such as importance points."""
        rngs = tuple(generator(rng).spawn(len(theta)))
        fit.emulator.require_draws()
        return cls(fit, theta, len(points[0][0]), "run", rngs, _points=points)

    def known(self, m: int) -> tuple[Marginals, ...]:
        """What is known of each output at the points of theta m."""
        return tuple(values.whole for values in self._at(m))

    def mean(self, level: float | None = None) -> Array | Triple:
        """I(theta), the mean of the distribution: `fit.predict` and, with `level`, `fit.interval`."""
        found = np.asarray(self.fit.predict(self.theta))
        return found if level is None else (found, *self.fit.interval(self.theta, level))

    def var(self, level: float | None = None) -> Array | Triple:
        """The variance."""
        return self._answer(None, Marginals.variance, Draws.variance, level, least=0.0)

    def std(self, level: float | None = None) -> Array | Triple:
        """The standard deviation."""
        found = self.var(level)
        if isinstance(found, tuple):
            estimate, low, high = found
            return np.sqrt(estimate), np.sqrt(low), np.sqrt(high)
        return np.sqrt(found)

    def cdf(self, c: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The probability that f is at most c, a number or (K,)."""
        return self._answer(finite(c, "c"), Marginals.cdf, Draws.cdf, level, least=0.0, most=1.0)

    def sf(self, c: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The probability that f exceeds c, a number or (K,)."""
        found = self.cdf(c, level)
        return (1 - found[0], 1 - found[2], 1 - found[1]) if isinstance(found, tuple) else 1 - found

    def ppf(self, q: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The quantiles: f is at most this with probability q, a number in (0, 1) or (K,)."""
        return self._answer(_shares(q, "q"), Marginals.ppf, Draws.ppf, level)

    def expected_shortfall(self, q: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The mean of f over its largest 1 - q outcomes, for q in (0, 1) or (K,): of losses, the conditional VaR."""
        return self._answer(_shares(q, "q"), Marginals.shortfall, Draws.shortfall, level)

    def interval(self, share: float = 0.9) -> tuple[Array, Array]:
        """The ends of the central interval that holds this share of the outcomes, each (M,) or (M, C)."""
        share = between_0_and_1(share, "share")
        ends = np.asarray(self.ppf([0.5 * (1 - share), 0.5 * (1 + share)]))
        return ends[:, 0], ends[:, 1]

    def probability(self, event: Callable[[Array], npt.ArrayLike], level: float | None = None) -> Array | Triple:
        """The probability (M,) of an event, which may concern all outputs together, by draws of f.

        event : a function of values of f (K,), or (K, C), that returns K booleans.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> outcome = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0)).outcome([100.0])
        >>> inside = outcome.probability(lambda f: (f > 1.0) & (f < 4.0))
        >>> bool(abs(inside - (outcome.sf(1.0) - outcome.sf(4.0))) < 0.02)
        True
        """
        if not callable(event):
            raise TypeError(f"event must be a function of values of f, but it is {shown(event)}.")
        rng, root = np.random.default_rng(0), symmetric_root(self.fit.correlation)
        estimates, possible = [], []
        for values in self._values():
            whole, draws = values[0].whole, np.stack([each.draws.values for each in values], axis=-1)
            normal = rng.standard_normal((*whole.std.shape, len(values))) @ root
            at_all = np.stack([v.whole.mean + v.whole.std * normal[..., c] for c, v in enumerate(values)], axis=-1)
            met = np.mean(self._met(event, np.clip(at_all, *self._bounds)), axis=0)  # (n,)
            estimates.append(met @ whole.weights)
            each = self._met(event, draws) @ values[0].draws.weights  # (DRAWS,)
            error = _error_of_points(np.array([[np.mean(met[rows])] for rows in values[0].rows]))
            possible.append(each - np.mean(each) + estimates[-1] + error[:, 0])
        estimate = np.array(estimates)
        return estimate if level is None else _with_ends(estimate, np.stack(possible), level, 0.0, 1.0)

    def _met(self, event: Callable[[Array], npt.ArrayLike], f: Array) -> Array:
        """Whether values of f (..., C) meet an event, 0 or 1."""
        rows = f.reshape(-1, f.shape[-1])
        met = np.asarray(event(rows[:, 0] if self.fit.C is None else rows))
        if met.shape != (len(rows),) or met.dtype != np.bool_:
            raise ValueError(
                f"event must return a boolean for each of {len(rows)} rows of f, but it returned {met.dtype} of shape "
                f"{met.shape}."
            )
        return met.reshape(f.shape[:-1]).astype(np.float64)

    @property
    def _bounds(self) -> Array:
        """The bounds of f, (2, C)."""
        bounds = np.array([[-np.inf], [np.inf]]) if self.fit.bounds is None else self.fit.bounds
        return np.broadcast_to(bounds, (2, self.fit.C or 1))

    def to_frame(self, quantiles: npt.ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Any:
        """A pandas table with a row for each theta: mean, std and quantiles of f.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> outcome = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0)).outcome([90.0, 100.0])
        >>> list(outcome.to_frame([0.5, 0.95]).columns)
        ['theta', 'mean', 'std', 'q50', 'q95']
        """
        q = np.atleast_1d(_shares(quantiles, "quantiles"))
        ends, mean, std = np.asarray(self.ppf(q)), np.asarray(self.mean()), np.asarray(self.std())
        columns = {f"q{100 * at:g}": ends[:, k] for k, at in enumerate(q)}
        return data_frame(by_theta(self.theta, {"mean": mean, "std": std, **columns}, self.fit.names))

    def __repr__(self) -> str:
        what = ", of single runs" if self.of == "run" else ", of means"
        return f"Outcome({len(self.theta)} thetas, {self.size} points each{what * self.fit.emulator.is_random})"

    def _values(self) -> Iterator[tuple[Values, ...]]:
        """The values of each output, theta by theta: kept where there are few, otherwise made again when asked for."""
        return (self._at(m) for m in range(len(self.theta)))

    def _at(self, m: int) -> tuple[Values, ...]:
        """The values of each output at theta m."""
        values = self._kept.get(m)
        if values is None:
            rng = deepcopy(self._rngs[m])
            if self._points is None:
                (measure,) = self.fit.emulator.measures(self.theta[m : m + 1])
                values = self._made(self.theta[m], points_of(measure, self.size, rng), rng)
            else:
                values = self._made(self.theta[m], self._points[m], rng)
            if DRAWS * self.size * len(values) * len(self.theta) // 4 <= MAX_KEPT:
                self._kept[m] = values
        return values

    def _made(self, theta: Array, points: WeightedPoints, rng: np.random.Generator) -> tuple[Values, ...]:
        """The values of each output at points of the measure of one theta (p,)."""
        (x, weights, parts), emulator = points, self.fit.emulator
        drawn = slice(None, None, max(1, len(x) * 2 // self.size)) if not parts else slice(0, len(x) // 16)
        noise2 = emulator.noise_std**2 * (self.of == "run")
        variances, means = emulator.marginals(x, theta)  # (J, n, C), (n, C)
        paths = emulator.paths(x[drawn], theta, FEW, DRAWS, rng)
        normal = rng.standard_normal((DRAWS, len(x[drawn])))
        found = []
        for c, (low, high) in enumerate(self._bounds.T.tolist()):
            whole = Marginals(weights, means[:, c], np.sqrt(variances[..., c] + noise2[c]), low, high)
            some, left = whole.take(drawn), np.sqrt(np.multiply.outer(paths.factors2, paths.left[:, c]) + noise2[c])
            moved = paths.moved[..., c]
            values = np.clip(moved + left * normal, low, high)
            draws = Draws(some.weights, moved, left, values, low, high)
            found.append(Values(whole, tuple(parts), some, draws))
        return tuple(found)

    def _answer(
        self,
        at: Array | None,
        of_f: Functional,
        of_draws: DrawnFunctional,
        level: float | None,
        *,
        least: float = -np.inf,
        most: float = np.inf,
    ) -> Array | Triple:
        """A functional of every distribution at K arguments and, with a level, the ends of its interval."""
        if at is not None and at.ndim > 1:
            raise ValueError(f"one number or (K,) of them are expected, but an array of shape {at.shape} arrived.")
        asked = np.zeros(1) if at is None else np.atleast_1d(at)
        estimates, possible = [], []
        for values in self._values():
            estimates.append(np.stack([of_f(each.whole, asked) for each in values], axis=-1))  # (K, C)
            if level is not None:
                pairs = zip(values, estimates[-1].T, strict=True)
                possible.append(np.stack([v.possible(of_f, of_draws, asked, found) for v, found in pairs], axis=-1))

        def shaped(array: Array) -> Array:
            array = array[..., 0] if self.fit.C is None else array
            outputs = 0 if self.fit.C is None else 1
            scalar = at is None or at.ndim == 0
            return np.take(array, 0, axis=array.ndim - 1 - outputs) if scalar else array

        estimate = shaped(np.stack(estimates))
        return estimate if level is None else _with_ends(estimate, shaped(np.stack(possible)), level, least, most)


def _with_ends(estimate: Array, possible: Array, level: float, least: float, most: float) -> Triple:
    """The estimate (M, ...), and the ends of its interval over possible values (M, size, ...) at a level."""
    level = between_0_and_1(level, "level")
    low, high = np.quantile(possible, [0.5 * (1 - level), 0.5 * (1 + level)], axis=1)
    return estimate, np.clip(low, least, estimate), np.clip(high, estimate, most)


def points_of(measure: Measure, size: int, rng: np.random.Generator) -> WeightedPoints:
    """Points (n, d) of a measure, their weights (n,), and the rows of Sobol sequences; or all atoms, and no rows."""
    if isinstance(measure, Empirical):
        kept = measure.weights > 0
        return measure.points[kept], measure.weights[kept] / np.sum(measure.weights[kept]), []
    from scipy.stats.qmc import Sobol  # slow to import

    n = -(-size // REPLICATES)
    u = np.concatenate([Sobol(measure.dim, rng=rng).random_base2((n - 1).bit_length())[:n] for _ in range(REPLICATES)])
    least = 2.0**-33  # half of the resolution of the sequence: quantiles of 0 and 1 may be infinite
    rows = [slice(i, i + n) for i in range(0, len(u), n)]
    return measure.transport(np.clip(u, least, 1 - least)), np.full(len(u), 1 / len(u)), rows


def _shares(q: npt.ArrayLike, name: str) -> Array:
    """Probabilities strictly between 0 and 1."""
    found = finite(q, name)
    if np.any(found <= 0) or np.any(found >= 1):
        raise ValueError(f"{name} must be between 0 and 1, without the ends, but it is {shown(q)}.")
    return found


def _within_bounds(c: Array, F: Array, low: float, high: float) -> Array:
    return np.where(c >= high, 1.0, np.where(c < low, 0.0, F))


def _below(c: float, mean: Array, std: Array) -> Array:
    """The probability that a Gaussian value is at most c; a value with std zero counts as it is."""
    return np.where(std > 0, ndtr(_standardised(c, mean, std)), mean <= c)


def _standardised(c: float, mean: Array, std: Array, *, most: float = 40.0) -> Array:
    """(c - mean) / std, between -40 and 40: beyond, Phi is 0 or 1."""
    apart = np.clip(c, -HUGE, HUGE) - mean
    return np.asarray(apart / np.maximum(np.maximum(std, np.abs(apart) / most), TINY))


def _moments(mean: Array, std: Array, low: float, high: float) -> tuple[Array, Array]:
    """The first and second moments of Gaussian values that are moved into [low, high]."""
    a, b = _standardised(low, mean, std), _standardised(high, mean, std)
    below, above = ndtr(a), ndtr(-b)
    inside, fa, fb = 1 - below - above, _density(a), _density(b)
    bottom, top = (end if np.isfinite(end) else 0.0 for end in (low, high))  # an infinite end has no mass
    first = bottom * below + top * above + mean * inside + std * (fa - fb)
    second = bottom**2 * below + top**2 * above + (mean**2 + std**2) * inside
    return first, second + 2 * mean * std * (fa - fb) + std**2 * (a * fa - b * fb)


def _excess(v: float, mean: Array, std: Array, high: float) -> Array:
    """E max(min(f, high) - v, 0) of Gaussian values, for v at most high."""

    def beyond(end: float) -> Array:  # E max(f - end, 0)
        z = -_standardised(end, mean, std)
        return np.where(std > 0, (mean - end) * ndtr(z) + std * _density(z), np.maximum(mean - end, 0.0))

    return beyond(v) - (beyond(high) if np.isfinite(high) else 0.0)


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
