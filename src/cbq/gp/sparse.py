"""A sparse Gaussian process for many noisy rows, by landmarks and a lower bound of the likelihood (Titsias 2009).

The model is y = b + g(z) + e with e ~ N(0, s2), a flat prior for b, and a process g of variance gamma s2. With
K_mm = L L' at m landmarks, the features of the rows are Phi = K_nm L^-T (n, m). Let Phi_c be Phi less its column means,
M = Phi_c' Phi_c, and t = n - tr(Phi Phi') the prior variance that the landmarks miss. At the best
s2 = y'(I - Phi_c (I / gamma + M)^-1 Phi_c') y / (n - 1), the bound of the restricted log-likelihood is -J up to a
constant, with

    J = 1/2 [(n - 1) log s2 + log |I + gamma M| + gamma t].

Rows with equal coordinates are one row with a count, which is its weight in all sums. An evaluation takes O(n m^2)
operations for n distinct rows, and holds the features of one block of rows at a time.

Where the values are draws of a random f, the bound gives the lengthscales. The eigenvalues of one Gram matrix then give
the evidence of every noise variance, in units of the amplitude, at O(n) each (see `solvers.Spectral`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, logsumexp

from cbq.common import ROUNDING, Array, Integers, blocks, evenly
from cbq.gp.families import LONGEST, SHORTEST, KernelFamily
from cbq.gp.pooled import NOISES
from cbq.gp.process import Process
from cbq.gp.search import quasi_newton
from cbq.gp.solvers import Spectral
from cbq.kernels import Kernel
from cbq.linalg import Factor, Jitter, factor
from cbq.linalg.engines import eigh, resident_gram
from cbq.linalg.gram import contract, empty, fill, moved, namespace, on_host

LANDMARK_JITTER = Jitter(start=1e-9)  # of K_mm; the variance that it removes is part of t


@dataclass(frozen=True, eq=False)
class Targets:
    """The values to regress at s rows.

    y : the means (s,) of the values at each row, centred so that the sum of counts * y is 0.
    counts : the numbers (s,) of values, positive; below 1 for values worth less than one independent value.
    within : the sum of squares of all values about the means.
    """

    y: Array
    counts: Array
    within: float

    @classmethod
    def of(cls, y: Array) -> Targets:
        """One value y (n,) for each row."""
        return cls(y, np.ones(len(y)), 0.0)

    @property
    def n(self) -> float:
        """The number of independent values."""
        return float(np.sum(self.counts))

    @property
    def total(self) -> float:
        """The sum of squares of all values."""
        return float(self.counts @ self.y**2) + self.within

    def weighted(self, features: Any, rows: slice) -> Any:
        """Features (b, m) of some rows times their counts; the same array if these are all 1."""
        return features if self.plain else features * moved(self.counts[rows], features)[:, None]

    @cached_property
    def plain(self) -> bool:
        """Whether each row has one value."""
        return bool(np.all(self.counts == 1.0))

    def gathered(self, cells: Integers) -> Targets:
        """The values of all rows of a cell as values at one row, for the cell (s,) of each row."""
        counts = np.asarray(np.bincount(cells, self.counts), dtype=np.float64)
        y = np.bincount(cells, self.counts * self.y) / counts
        return Targets(y, counts, max(self.total - float(counts @ y**2), 0.0))

    def take(self, rows: Integers) -> Targets:
        """The values at some rows, centred again, with their share of `within`."""
        y, counts = self.y[rows], self.counts[rows]
        share = float(np.sum(counts)) / self.n
        return Targets(y - counts @ y / np.sum(counts), counts, self.within * share)


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """The features Phi of rows z (n, p) through landmarks (m, p), with the factor L of K_mm."""

    kernel: Kernel
    z: Array
    landmarks: Array
    root: Factor

    @classmethod
    def of(cls, kernel: Kernel, z: Array, landmarks: Array) -> LandmarkFeatures:
        gram = resident_gram(kernel, landmarks)
        return cls(kernel, z, landmarks, factor(gram, jitter=LANDMARK_JITTER, overwrite=True))

    def at(self, z: Array) -> LandmarkFeatures:
        """The features of other rows."""
        return replace(self, z=z)

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Blocks of rows with their features (rows, m), on the device of the engine."""
        at_landmarks = self.kernel.features(self.landmarks)
        for rows in blocks(len(self.z)):
            k = empty((len(self.z[rows]), len(self.landmarks)), self.root.storage)
            fill(self.kernel.fill, self.kernel.features(self.z[rows]), at_landmarks, k)
            yield rows, self.root.resident_solve_lower(k.T).T


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of n values.

    centre : the column means (m,) of Phi. M : (m, m). projected : Phi_c' y (m,). unseen : t. total : y'y. See the
    formulas at the top of this file.
    """

    centre: Array
    M: Array
    projected: Array
    unseen: float
    total: float
    n: float

    @classmethod
    def of(cls, features: LandmarkFeatures, targets: Targets) -> Moments:
        return cls.of_each(features, [targets])[0]

    @classmethod
    def of_each(cls, features: LandmarkFeatures, targets: Sequence[Targets]) -> list[Moments]:
        """The statistics of several targets at the same rows, whose counts differ by factors."""
        m, first = len(features.landmarks), targets[0]
        y, n = np.stack([each.y for each in targets], axis=1), first.n
        centre, M, projected = np.zeros(m), np.zeros((m, m)), np.zeros((m, len(targets)))
        for rows, phi in features.blocks():
            weighted = first.weighted(phi, rows)
            centre += on_host(weighted.sum(0))
            M += on_host(phi.T @ weighted)
            projected += on_host(weighted.T @ moved(y[rows], phi))
        trace = float(np.trace(M))
        centre /= n
        M -= n * np.outer(centre, centre)
        worth = [each.n / n for each in targets]
        return [
            cls(centre, w * M, w * column, w * max(n - trace, 0.0), each.total, each.n)
            for w, column, each in zip(worth, projected.T, targets, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class State:
    """The bound at one gamma: J, s2, the factor of I + gamma M, and the weights (m,) of the mean g = Phi_c weights."""

    value: float
    noise: float
    factor: Factor
    weights: Array

    @classmethod
    def at(cls, gamma: float, moments: Moments) -> State:
        T = factor(gamma * moments.M, nugget=1.0, jitter=Jitter(0.0), overwrite=True)
        weights = gamma * T.solve(moments.projected[:, None])[:, 0]
        explained = float(weights @ moments.projected)
        dof = max(moments.n - 1.0, 1.0)
        noise = max(moments.total - explained, ROUNDING * moments.total) / dof
        value = 0.5 * (dof * np.log(noise) + float(T.logdet) + gamma * moments.unseen)
        return cls(float(value), noise, T, weights)


@dataclass(frozen=True, eq=False)
class Bound:
    """J as a function of (log gamma, log-lengthscales), for targets at rows z (n, p) and landmarks (m, p)."""

    kernel: Kernel
    z: Array
    targets: Targets
    landmarks: Array

    def kernel_at(self, parameters: Array) -> Kernel:
        return self.kernel.with_log_lengthscales(parameters[1:])

    def moments(self, parameters: Array) -> tuple[LandmarkFeatures, Moments]:
        features = LandmarkFeatures.of(self.kernel_at(parameters), self.z, self.landmarks)
        return features, Moments.of(features, self.targets)

    def value(self, parameters: Array) -> float:
        return State.at(float(np.exp(parameters[0])), self.moments(parameters)[1]).value

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """J and its gradient (1 + p,)."""
        gamma, (features, moments) = float(np.exp(parameters[0])), self.moments(parameters)
        state = State.at(gamma, moments)
        inverse = state.factor.inverse()
        # 2 dJ/dgamma, in which the derivative of (n - 1) log s2 is -(w / gamma)'(w / gamma) / s2.
        slope = np.vdot(inverse, moments.M) + moments.unseen - state.weights @ state.weights / (gamma**2 * state.noise)
        by_lengthscales = self._by_lengthscales(gamma, features, moments, state, inverse)
        return state.value, np.array([0.5 * gamma * slope, *by_lengthscales])

    def _by_lengthscales(
        self, gamma: float, features: LandmarkFeatures, moments: Moments, state: State, inverse: Array
    ) -> Array:
        """The derivatives by the log-lengthscales (p,), by the chain rule through K_nm and K_mm."""
        # dJ = sum_ij W_ij d(K_nm)_ij + sum_ij outer_ij d(K_mm)_ij, where W (n, m) and outer (m, m) are the derivatives
        # of J by K_nm and, through Phi = K_nm L^-T, by K_mm.
        kernel, identity = features.kernel, np.eye(len(self.landmarks))
        back = features.root.solve_lower(identity)  # L^-1
        turn = (inverse - identity) @ back
        shift = moments.centre @ inverse @ back
        direction = state.weights @ back / (gamma * state.noise)
        offset = float(moments.centre @ state.weights)
        at_landmarks, derivatives = kernel.features(self.landmarks), np.zeros(kernel.n_lengthscales)
        for rows, phi in features.blocks():
            residual = self.targets.y[rows] - (on_host(phi @ moved(state.weights, phi)) - offset)
            outer = namespace(phi).outer(moved(residual, phi), moved(direction, phi))
            W = self.targets.weighted(phi @ moved(turn, phi) - moved(shift, phi) - outer, rows)
            derivatives += gamma * contract(kernel, kernel.features(self.z[rows]), at_landmarks, W)
        raw = moments.M + moments.n * np.outer(moments.centre, moments.centre)  # Phi' Phi
        a = state.weights @ back / gamma
        outer = 0.5 * (gamma / state.noise * np.outer(a, a) + back.T @ (inverse - identity + gamma * raw) @ back)
        return derivatives + kernel.contract_features(at_landmarks, at_landmarks, outer)


def average_ratio(
    moments: Moments, *, low: float = -25.0, high: float = 20.0, number: int = 361
) -> tuple[float, float]:
    """The posterior mean of gamma given that it is not 0, and the posterior probability that it is 0.

    Where the rows determine gamma poorly, its maximum-likelihood estimate is often near 0, and makes the posterior of g
    far too narrow. The prior: gamma = 0 with probability 1/2, otherwise sqrt(gamma) is half-Cauchy.

    low, high, number: the grid of log gamma. It holds nearly all of the prior, with eight values to each factor of e.
    """
    logs = np.linspace(low, high, number)
    J = bound_by_ratio(np.array([0.0, *np.exp(logs)]), moments)
    prior = _log_prior(logs)
    prior -= logsumexp(prior)
    posterior = J[0] - J[1:] + prior  # relative to the likelihood at 0
    evidence = float(logsumexp(posterior))
    return float(np.exp(logsumexp(posterior + logs) - evidence)), float(expit(-evidence))


def bound_by_ratio(gamma: Array, moments: Moments) -> Array:
    """J (G,) at several gamma (G,)."""
    roots, axes = eigh(moments.M)
    roots, projected2 = np.maximum(roots, 0.0), (axes.T @ moments.projected) ** 2
    shrunk = 1.0 + gamma[:, None] * roots
    explained = np.sum(gamma[:, None] * projected2 / shrunk, axis=1)
    dof = max(moments.n - 1.0, 1.0)
    noise = np.maximum(moments.total - explained, ROUNDING * moments.total) / dof
    return np.asarray(0.5 * (dof * np.log(noise) + np.sum(np.log(shrunk), axis=1) + gamma * moments.unseen))


class OneOutput(Protocol):
    """Points u (n, D), and the values f (n, 1) of one output there."""

    @property
    def u(self) -> Array: ...
    @property
    def f(self) -> Array: ...


def noisy_kernels(kernels: Sequence[Kernel], points: OneOutput, ard: bool) -> list[tuple[Kernel, float]]:
    """The kernels with their likeliest lengthscales for the draws of one output, each with its likeliest noise."""
    fitted = [_likeliest(KernelFamily.of(kernel, points.u, ard), points) for kernel in kernels]
    return [(kernel, likeliest_noise(kernel, points)) for kernel in fitted]


def _likeliest(
    family: KernelFamily,
    points: OneOutput,
    *,
    landmarks: int = 100,
    ratios: tuple[float, float] = (-20.0, 20.0),
    first_ratios: tuple[float, ...] = (0.0, 4.0),
    shifts: tuple[float, ...] = (-1.0, 0.0, 1.0),
    steps: int = 40,
    expected: float = math.log(3.0),
    width: float = 1.5,
) -> Kernel:
    """The kernel with its likeliest free lengthscales.

    landmarks: their largest number; noise hides what more of them would show of f.
    ratios: the bounds of log gamma; at either end, only noise or only f is left.
    first_ratios, shifts: candidates of log gamma, and of a shift of all log-lengthscales. The best pair starts the
        search, since the likelihood may have a local maximum at which everything is noise.
    steps: the largest number of steps of the search; the last ones change little.
    expected, width: a normal prior of log-lengthscales less the first guess, about log 3. Without it, and without the
        prior of gamma, noise makes lengthscales infinite or f constant, and the joint distribution of I far too sure
        that it does not depend on theta.
    """
    y = points.f[:, 0] - np.mean(points.f[:, 0])
    bound = Bound(family.kernel, points.u, Targets.of(y), points.u[evenly(len(y), landmarks)])
    guess, low, high = family.kernel.log_lengthscales, np.log(SHORTEST), np.log(LONGEST)
    starts = [np.array([gamma, *(guess + shift * family.free)]) for gamma in first_ratios for shift in shifts]
    limits = [ratios, *((g + low * f, g + high * f) for g, f in zip(guess, family.free, strict=True))]

    def objective(parameters: Array) -> tuple[float, Array]:
        value, gradient = bound(parameters)
        log_gamma, apart = parameters[0], family.free * (parameters[1:] - guess - expected) / width
        prior = -_log_prior(log_gamma) + 0.5 * float(apart @ apart)
        return float(value + prior), gradient + np.array([expit(log_gamma) - 0.5, *(apart / width)])

    best, _ = quasi_newton(objective, min(starts, key=bound.value), limits, options={"maxiter": steps})
    return bound.kernel_at(best)


def likeliest_noise(kernel: Kernel, points: OneOutput) -> float:
    """The noise variance, in units of the amplitude, with the largest evidence."""
    evidence = Process(Spectral.of(kernel(points.u), NOISES), points.f).evidence[:, 0]
    return float(NOISES[np.argmax(evidence + _log_prior(-np.log(NOISES)))])


def _log_prior(log_gamma: Array) -> Array:
    """The log density of log gamma, if the ratio of standard deviations is half-Cauchy: none at 0 and infinity."""
    return np.asarray(0.5 * log_gamma - np.logaddexp(0.0, log_gamma))
