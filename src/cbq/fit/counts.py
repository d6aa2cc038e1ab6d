"""The distribution of an f that is 0 or 1, or a count, at several thetas: probabilities, quantiles, moments.

Given its mean at x, f is 1 with this probability, or has a Poisson distribution. Under P_theta it has the average of
these over x. Each draw of the means as a function of x gives such a distribution: estimates are functionals of their
average, and ends of intervals are quantiles over draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import pdtr

from cbq.common import Array, between_0_and_1, data_frame, finite
from cbq.fit.outcome import Triple, shares
from cbq.report import ArrayTable
from cbq.samples import Names, by_theta


@dataclass(frozen=True, eq=False)
class DrawnMeans:
    """Draws (n, S) of the means of f at n points with weights (n,), of events or of counts."""

    weights: Array
    means: Array
    are_events: bool

    @property
    def together(self) -> DrawnMeans:
        """The average of the distributions of all draws, as one."""
        S = self.means.shape[1]
        return DrawnMeans(np.repeat(self.weights / S, S), self.means.reshape(-1, 1), self.are_events)

    def at_most(self, k: Array) -> Array:
        """The probabilities (S,) that f is at most k, one whole number or (S,)."""
        if self.are_events:
            return np.where(k < 0, 0.0, np.where(k < 1, 1 - self.weights @ self.means, 1.0))
        below = pdtr(np.maximum(k, 0.0), self.means)
        return np.where(k < 0, 0.0, self.weights @ below)

    def cdf(self, c: Array) -> Array:
        """The probabilities (S, K) that f is at most c (K,)."""
        return np.stack([self.at_most(np.floor(each)) for each in c], axis=-1)

    def ppf(self, q: Array) -> Array:
        """The quantiles (S, K): the smallest whole numbers that f exceeds with a probability of 1 - q at most."""
        return np.stack([self._quantile(each) for each in q], axis=-1)

    def _quantile(self, q: float) -> Array:
        S = self.means.shape[1]
        low, high = np.full(S, -1.0), np.ones(S)
        while np.any(short := self.at_most(high) < q):
            low, high = np.where(short, high, low), np.where(short, 2 * high, high)
        while np.any(high - low > 1):
            middle = np.floor(0.5 * (low + high))
            short = self.at_most(middle) < q
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return high

    def mean(self, _: Array) -> Array:
        """The means (S, 1)."""
        return (self.weights @ self.means)[:, None]

    def variance(self, _: Array) -> Array:
        """The variances (S, 1)."""
        mean = self.weights @ self.means
        within = mean * (1 - mean) if self.are_events else mean + self.weights @ (self.means - mean) ** 2
        return np.asarray(within)[:, None]

    def shortfall(self, q: Array) -> Array:
        """E[f | the upper 1 - q] (S, K)."""
        v = self.ppf(q)
        above = np.stack([self._excess(each) for each in v.T], axis=-1)
        return np.asarray(v + above / (1 - q))

    def _excess(self, v: Array) -> Array:
        """E max(f - v, 0) (S,), for whole numbers v (S,)."""
        if self.are_events:
            return np.asarray(np.where(v < 1, self.weights @ self.means, 0.0))
        beyond = self.means * np.where(v > 0, 1 - pdtr(np.maximum(v - 1, 0.0), self.means), 1.0)
        return np.asarray(self.weights @ (beyond - v * (1 - pdtr(v, self.means))))


@dataclass(frozen=True, eq=False, repr=False)
class CountOutcome(ArrayTable):
    """The distribution of an f that is 0 or 1, or a count, under P_theta at M thetas. Made by `fit.outcome(theta)`.

    Results are (M,), or (M, K) for K values or probabilities, with an axis of outputs (C,) at the end where f has one.
    With `level`, each is a triple: the estimate, and the ends of an interval. Counts have a Poisson distribution at
    each x, also where f is no random simulator.

    theta : (M, p). drawn : from the position of a theta to the draws of each output. names : of theta and f.

    Examples
    --------
    >>> f = lambda x, theta, rng: 1.0 * rng.poisson(np.exp(0.5 * x[:, 0]))
    >>> family = lambda theta: cbq.measures.Gaussian(theta, 1.0)
    >>> problem = cbq.Problem(f, family, cbq.measures.Uniform(0.0, 1.0), depends_on_theta=False, stochastic=True)
    >>> outcome = cbq.LatentBQ().fit(problem.collect(8, 8, rng=0, design="sobol")).outcome([0.0, 0.5])
    >>> outcome.ppf(0.95)
    array([4., 4.])
    """

    theta: Array
    drawn: Callable[[int], Sequence[DrawnMeans]]
    names: Names
    C: int | None

    def mean(self, level: float | None = None) -> Array | Triple:
        """I(theta): the probability of the event, or the mean of the count."""
        return self._answer(None, DrawnMeans.mean, level)

    def var(self, level: float | None = None) -> Array | Triple:
        """The variance."""
        return self._answer(None, DrawnMeans.variance, level)

    def std(self, level: float | None = None) -> Array | Triple:
        """The standard deviation."""
        found = self.var(level)
        return tuple(map(np.sqrt, found)) if isinstance(found, tuple) else np.sqrt(found)  # type: ignore[return-value]

    def cdf(self, c: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The probability that f is at most c, a number or (K,)."""
        return self._answer(finite(c, "c"), DrawnMeans.cdf, level, "c")

    def sf(self, c: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The probability that f exceeds c, a number or (K,)."""
        found = self.cdf(c, level)
        return (1 - found[0], 1 - found[2], 1 - found[1]) if isinstance(found, tuple) else 1 - found

    def ppf(self, q: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The quantiles: the smallest values that f does not exceed with probability q, a number in (0, 1) or (K,)."""
        return self._answer(shares(q, "q"), DrawnMeans.ppf, level, "q")

    def expected_shortfall(self, q: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The mean of f over its largest 1 - q outcomes, for q in (0, 1) or (K,)."""
        return self._answer(shares(q, "q"), DrawnMeans.shortfall, level, "q")

    def interval(self, share: float = 0.9) -> tuple[Array, Array]:
        """The ends of a central interval that holds at least this share of the outcomes, each (M,) or (M, C)."""
        share = between_0_and_1(share, "share")
        ends = np.asarray(self.ppf([0.5 * (1 - share), 0.5 * (1 + share)]))
        return ends[:, 0], ends[:, 1]

    def to_columns(self, quantiles: npt.ArrayLike = (0.05, 0.5, 0.95)) -> dict[str, Any]:
        """The columns of the table: theta, mean, std and quantiles of f, (M,) each."""
        q = np.atleast_1d(shares(quantiles, "quantiles"))
        ends = np.asarray(self.ppf(q))
        columns = {f"q{100 * at:g}": ends[:, k] for k, at in enumerate(q)}
        moments = {"mean": np.asarray(self.mean()), "std": np.asarray(self.std())}
        return by_theta(self.theta, {**moments, **columns}, self.names)

    def to_frame(self, quantiles: npt.ArrayLike = (0.05, 0.5, 0.95)) -> Any:
        """A pandas table with a row for each theta: mean, std and quantiles of f."""
        return data_frame(self.to_columns(quantiles))

    def __repr__(self) -> str:
        return f"CountOutcome({len(self.theta)} thetas)"

    def _answer(
        self, at: Array | None, of: Callable[[DrawnMeans, Array], Array], level: float | None, name: str = ""
    ) -> Array | Triple:
        """A functional of every distribution at K arguments of this name and, with a level, the ends of intervals."""
        if at is not None and at.ndim > 1:
            raise ValueError(f"{name} must be a number or (K,) of them, but it has shape {at.shape}.")
        level = None if level is None else between_0_and_1(level, "level")
        asked, found = np.zeros(1) if at is None else np.atleast_1d(at), []
        for m in range(len(self.theta)):
            rows = []
            for draws in self.drawn(m):
                rows.append(of(draws.together, asked))
                if level is not None:
                    ends = partial(np.quantile, of(draws, asked), axis=0)
                    rows[-1] = np.vstack([rows[-1], ends(0.5 * (1 - level)), ends(0.5 * (1 + level))])
            found.append(np.stack(rows, axis=-1))  # (1 or 3, K, C)
        every = np.stack(found, axis=1)  # (1 or 3, M, K, C)
        every = every[..., 0] if self.C is None else every
        every = every[:, :, 0] if at is None or at.ndim == 0 else every
        return every[0] if level is None else (every[0], np.minimum(every[1], every[0]), np.maximum(every[2], every[0]))
