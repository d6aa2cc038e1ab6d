"""The emulator of a fit: f itself at any x and theta, with what the runs leave open.

A process that is given all runs predicts values of f as it predicts integrals, with the same calibration: a value is
the integral under a measure of one atom. On 26 fits of 13 problems, 95% intervals of values at new points held 97% of
them and 50% intervals 62%.

`Emulator.paths` draws f as a function of x at one theta. With B the covariances of values at many points with those at
a few of them, in the coordinates in which the few are uncorrelated, a draw is mean + B e, for normal e, and leaves at
each point a variance that the few do not explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Booleans, RNGLike, blocks, count, flag, generator, points, require_memory
from cbq.fit.findings import are_events, shows_one_value
from cbq.fit.predictive import PredictiveDistribution
from cbq.kernels import Kernel
from cbq.linalg.lapack import eigh, symmetric_root
from cbq.linalg.threads import in_threads
from cbq.samples import Samples, equal_rows, named_row

if TYPE_CHECKING:
    from cbq.fit.base import Fit


class ValueProcess(Protocol):
    """The process of f, of each output, at points x (n, d) and thetas (n, p)."""

    def distributions(self, x: Array, theta: Array | None, *, joint: bool) -> Sequence[PredictiveDistribution]:
        """The distributions of values; with covariances between the points if `joint`."""

    def means(self, x: Array, theta: Array | None) -> Array:
        """The means (n, C) alone."""

    def correlated(self, x: Array, theta: Array | None) -> Sequence[CorrelatedValues]:
        """The values with their covariances to others, for the middle one of the scales that errors may have."""

    def misses(self, x: Array, theta: Array | None) -> Booleans:
        """Whether each of the points is where the runs do not reach, (n, C)."""


@dataclass(frozen=True, eq=False)
class CorrelatedValues:
    """One output of f at n points: mean (n,), and covariances std std' (k(u, u') - P P' + U U') + E E'.

    kernel, u: k, and its inputs (n, D). std: (n,). known, unknown: P (n, m) and U (n, q). errors: E (n, k).
    """

    mean: Array
    kernel: Kernel
    u: Array
    std: Array
    known: Array
    unknown: Array
    errors: Array

    def scaled(self, factor: float) -> CorrelatedValues:
        """The same values with larger standard deviations."""
        return replace(self, std=factor * self.std, errors=factor * self.errors)

    def take(self, rows: slice) -> CorrelatedValues:
        """The values at some of the points."""
        arrays = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "kernel"}
        return replace(self, **{name: values[rows] for name, values in arrays.items()})

    def with_all(self, other: CorrelatedValues) -> Array:
        """The covariances (n, n') with all values of another."""
        unit = self.kernel(self.u, other.u) - self.known @ other.known.T + self.unknown @ other.unknown.T
        return np.asarray(self.std[:, None] * unit * other.std + self.errors @ other.errors.T)

    def with_each(self, other: CorrelatedValues) -> Array:
        """The covariances (n,) of pairs of values."""
        prior = self.kernel(self.u[:, None, :], other.u[:, None, :])[:, 0, 0]
        unit = prior - np.sum(self.known * other.known, axis=1) + np.sum(self.unknown * other.unknown, axis=1)
        return np.asarray(self.std * unit * other.std + np.sum(self.errors * other.errors, axis=1))


@dataclass(frozen=True, eq=False)
class Emulator:
    """The values of f at any x and theta, predicted by a fit of one process.

    Points x are (n, d), or (n,) for d = 1. theta is one (p,) for all points, or one for each, (n, p); it may be left
    out where f does not depend on it. Columns of tables are found by their names, and so are the entries of one theta
    that is a mapping or a row of a table. Where f has no axis of outputs, results are (n,), otherwise (n, C). They stay
    within the bounds of f. Where f is random, the values are its means.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> emulator = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0)).emulator
    >>> emulator.predict([90.0, 100.0]).shape, emulator.sample([90.0, 100.0], size=3, rng=0).shape
    ((2,), (3, 2))
    """

    fit: Fit
    samples: Samples
    process: ValueProcess
    noise_std: Array  # (C,), of one run; zero unless f is random
    scales2: Array  # (J,), equally likely squares of the scale of errors, in units of the middle one

    def predict(
        self,
        x: npt.ArrayLike,
        theta: npt.ArrayLike | None = None,
        return_std: bool = False,
        return_cov: bool = False,
    ) -> Array | tuple[Array, Array]:
        """The mean of f at points x, (n,) or (n, C).

        return_std: also its standard deviation. return_cov: also the covariance between points, (n, n) or (n, n, C).

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> emulator = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0)).emulator
        >>> mean, std = emulator.predict([90.0, 100.0], return_std=True)
        >>> bool(np.all(np.abs(mean - problem.evaluate(100.0, [90.0, 100.0])) < 4 * std))
        True
        """
        if flag(return_std, "return_std") & flag(return_cov, "return_cov"):
            raise ValueError("predict returns the standard deviation or the covariance, not both: ask for one of them.")
        x = self._points(x)
        thetas = self._thetas(theta, len(x))
        if return_cov:
            self._require_memory(len(x))
            found = self._known(x, thetas, joint=True)
            mean = self.fit._bounded(self.fit._shaped([each.mean for each in found]))
            return mean, self.fit._shaped([each.cov for each in found])
        if not return_std:
            return self.fit._bounded(self.fit._shaped(list(self.means(x, thetas).T)))
        rows = list(blocks(len(x)))
        each = [self._known(x[some], None if thetas is None else thetas[some], joint=False) for some in rows]
        mean = self.fit._bounded(
            self.fit._shaped([np.concatenate([d.mean for d in c]) for c in zip(*each, strict=True)])
        )
        variance = [np.concatenate([d.variance for d in c]) for c in zip(*each, strict=True)]
        return mean, np.sqrt(self.fit._shaped(variance))

    def sample(
        self,
        x: npt.ArrayLike,
        theta: npt.ArrayLike | None = None,
        size: int = 1,
        rng: RNGLike = 0,
    ) -> Array:
        """Draws of f as a function, at all points jointly: (size, n) or (size, n, C)."""
        x, rng, size = self._points(x), generator(rng), count(size, "size")
        self._require_memory(len(x))
        found = self._known(x, self._thetas(theta, len(x)), joint=True)
        return self.fit._drawn(found, size, rng, antithetic=False)

    @property
    def is_random(self) -> bool:
        """Whether f is random."""
        return bool(np.any(self.noise_std > 0))

    @property
    def spread(self) -> Array:
        """The standard deviations (C,) of the runs."""
        return np.asarray(np.std(self.samples.table, axis=0))

    def atoms(self, repeats: int) -> list[Array]:
        """For each output, the values that at least so many runs share; none if f is random."""
        found = []
        for column in self.samples.table.T:
            values, counts = np.unique(column, return_counts=True)
            found.append(values[(counts >= repeats) & (not self.is_random)])
        return found

    def values_of_runs(self, x: Array, theta: Array) -> Array:
        """The values (n, C) of the runs at points x (n, d) and theta (p,); NaN where there is none, or f is random."""
        runs, values = self.samples.all_points, self.samples.table
        if self.samples.depends_on_theta:
            mine = np.all(self.samples.theta[self.samples.owners] == theta, axis=1)
            runs, values = runs[mine], values[mine]
        found = np.full((len(x), values.shape[1]), np.nan)
        if not self.samples.stochastic:
            first, group = equal_rows(np.concatenate([runs, x]))
            rows = first[group[len(runs) :]]
            found[rows < len(runs)] = values[rows[rows < len(runs)]]
        return found

    def require_draws(self) -> None:
        """Raise where f cannot be drawn."""
        if shows_one_value(self.samples):
            raise ValueError(
                "f cannot be drawn: all of its values are equal, so that nothing is known of other values. Take points "
                "where f differs."
            )

    def require_continuous(self) -> None:
        """Raise where f is 0 or 1: a Gaussian process has values between them."""
        if are_events(self.samples.table):
            raise ValueError(
                "f has no outcome by a Gaussian process, as all of its values are 0 or 1: fit cbq.LatentBQ() to these "
                "samples, whose outcome(theta) is the distribution."
            )

    def require_measures(self, theta: Array) -> None:
        """Raise where the measures at thetas (M, p) are not known."""
        if not self.samples.conditional.everywhere:
            self.samples.conditional(theta)

    def means(self, x: Array, theta: Array | None) -> Array:
        """The means (n, C) of f at points x (n, d) and thetas (n, p), without bounds."""
        rows = list(blocks(len(x)))
        found = [self.process.means(x[some], None if theta is None else theta[some]) for some in rows]
        return np.concatenate(found)

    def correlated(self, x: Array, theta: Array | None) -> list[CorrelatedValues]:
        """Each output of f at points x (n, d) and thetas (n, p), with its covariances, for the middle scale."""
        factors = np.ones(len(self.fit._outputs)) if self.fit.calibration is None else self.fit.calibration
        found = self.process.correlated(x, theta)
        return [each.scaled(float(factor)) for each, factor in zip(found, factors, strict=True)]

    def marginals(self, x: Array, theta: Array) -> tuple[Array, Array]:
        """The variances (n, C), for the middle one of the scales that errors may have, and the means, at theta (p,)."""

        def known(rows: slice) -> Array:
            found = self._known(x[rows], self._same(theta, x[rows]), joint=False)
            return np.stack([np.stack([each.scales2[len(each.scales2) // 2], each.mean]) for each in found], axis=-1)

        variance, mean = in_threads(known, list(blocks(len(x), 1024)), axis=1)
        return variance, mean

    def unreached(self, x: Array, theta: Array, weights: Array, is_open: Booleans, size: int = 256) -> Array:
        """The share (C,) of weights (n, C) at points x (n, d), theta (p,), that are open and beyond the reach of runs.

        size : points that are looked at, taken in proportion to the weights.
        """
        found = np.zeros(weights.shape[1])
        for c, column in enumerate(weights.T):
            total = np.cumsum(column)
            if total[-1] > 0:
                rows = np.searchsorted(total, total[-1] * (np.arange(size) + 0.5) / size)
                missed = self.process.misses(x[rows], self._same(theta, x[rows]))[:, c]
                found[c] = np.mean(missed & is_open[rows, c])
        return found

    def paths(self, x: Array, theta: Array, few: int, size: int, rng: np.random.Generator) -> Paths:
        """Draws of f as a function of x at one theta (p,), at points x (n, d), by `few` of them, the first ones."""
        few, C = min(few, len(x)), len(self.fit._outputs)
        factors = np.sqrt(self.scales2)[rng.integers(len(self.scales2), size=size)]
        normal = rng.standard_normal((size, few, C)) @ symmetric_root(self.fit.correlation)
        same = self._same(theta, x)
        first = self.correlated(x[:few], same[:few])
        axes = [whitening(each.with_all(each)) for each in first]
        unit, mean = self.marginals(x, theta)
        B = np.empty((C, len(x), few))
        for rows in blocks(len(x), 1024):
            for c, each in enumerate(self.correlated(x[rows], same[rows])):
                B[c, rows] = each.with_all(first[c]) @ axes[c]
        left = np.maximum(unit - np.sum(B**2, axis=2).T, 0.0)
        moves = factors[:, None, None] * np.moveaxis(np.moveaxis(normal, 2, 0) @ np.moveaxis(B, 1, 2), 0, 2)
        return Paths(mean + moves, left, factors**2)

    @staticmethod
    def _same(theta: Array, x: Array) -> Array:
        """One theta (p,) for all points x (n, d)."""
        return np.broadcast_to(theta, (len(x), len(theta)))

    def _known(self, x: Array, theta: Array | None, *, joint: bool) -> Sequence[PredictiveDistribution]:
        return self.fit._calibrated(self.process.distributions(x, theta, joint=joint))

    def _points(self, x: npt.ArrayLike) -> Array:
        names = self.fit.names.with_x(self.samples.d)
        found = points(names.ordered("x", x, "x"), self.samples.d)
        if found.ndim != 2 or not len(found):
            raise ValueError(f"x must be points (n, {self.samples.d}), one or more, but it has shape {np.shape(x)}.")
        return found

    def _thetas(self, theta: npt.ArrayLike | None, n: int) -> Array | None:
        if theta is None:
            return None
        row = named_row(theta) if np.size(theta) == self.fit.p else theta
        given = self.fit.names.ordered("theta", row, "theta")
        if np.ndim(given) < 2 and np.size(given) == self.fit.p:
            given = np.reshape(given, (1, self.fit.p))
        found = self.fit._thetas(given)
        if len(found) not in (1, n):
            raise ValueError(
                f"theta has {len(found)} rows, but there are {n} points x: pass one theta, or one for each."
            )
        return np.broadcast_to(found, (n, self.fit.p))

    def _require_memory(self, n: int) -> None:
        require_memory(
            8 * len(self.fit._outputs) * n**2, f"the covariance of f at {n} points", "take fewer points at a time"
        )


@dataclass(frozen=True, eq=False)
class Paths:
    """Draws of f at n points, C outputs.

    moved: (size, n, C), their means. left, factors2: (n, C), (size,), a draw leaves the variance factors2 left.
    """

    moved: Array
    left: Array
    factors2: Array


def whitening(cov: Array, least: float = 1e-10) -> Array:
    """W (m, m), symmetric, with W W a pseudo-inverse of cov (m, m).

    It depends on the matrix alone, so that draws of outputs with covariances of their own agree as these do.
    least: eigenvalues below this share of the largest are rounding.
    """
    values, vectors = eigh(cov)
    seen = values > least * max(float(values[-1]), np.finfo(float).tiny)
    return np.asarray(np.where(seen, vectors / np.sqrt(np.where(seen, values, 1.0)), 0.0) @ vectors.T)
