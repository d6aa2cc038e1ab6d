"""One Gaussian process with an unknown constant mean on many points, and its integrals: exact, or through landmarks.

Exact: with alpha = K^-1 (f - beta), an integral of f with the embedding mu (n,) and the initial error z has the mean
beta + mu'alpha and, at unit amplitude, the variance z - mu'K^-1 mu + (1 - mu'K^-1 1)^2 / S, in the notation of
`constant_mean`.

Landmarks (Nystrom): f lies in the span of the kernel at m landmarks, and the rest is noise. With K_mm = L L' of the
landmarks, Phi = K_nm L^-T (n, m) are features under which the prior of f is f = b + Phi w + e, w ~ N(0, A),
e ~ N(0, A s2), with a flat prior for b. An integral with the embedding mu (m,) at the landmarks is b + psi'w,
psi = L^-1 mu, and what the landmarks do not see of it keeps its prior variance z - psi'psi. With the singular values
of the centred features, the likelihood of every s2 costs m operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cbq._arrays import Array, Integers
from cbq.kernels import Kernel
from cbq.linalg import Jitter, factor_gram
from cbq.linalg.dense import eigh, nearest_psd, thin_svd
from cbq.linalg.engines import qr
from cbq.linalg.threads import blas_threads, one_blas_thread

ROUNDING = 1e-15  # of the prior variance: the smallest posterior variance that means anything
NOISES = np.exp(np.linspace(np.log(1e-15), np.log(10.0), 120))  # s2 to choose from


class Embedded(Protocol):
    """Integrals of a kernel at M thetas, such as `embeddings.many.Integrals`."""

    def mean(self, u: Array, /) -> Array:
        """The embeddings (M, m) at nodes u (m, D)."""

    def variance(self) -> Array:
        """The initial errors (M,)."""

    def cross(self) -> Array:
        """The cross terms (M, M) of all pairs."""


class PooledGP(Protocol):
    """What a process with C outputs knows about integrals."""

    nodes: Array  # (m, D): the points at which embeddings are needed
    amplitude: Array  # (C,), A: the prior covariance of f is A k
    noise: Array  # (C,), of the values, in units of the amplitude
    rounding: Array  # (C,), up to which rounding errors may move the mean of an integral

    def mean(self, mu: Array) -> Array:
        """The means (M, C) of integrals with embeddings mu (M, m) at the nodes."""

    def variance(self, mu: Array, z: Array) -> Array:
        """Their variances (M, C) at unit amplitude, with the initial errors z (M,)."""

    def covariance(self, mu: Array, cross: Array) -> Array:
        """Their covariances (C, M, M) at unit amplitude, with the prior ones `cross` (M, M)."""


def pooled_gp(
    kernel: Kernel,
    u: Array,
    f: Array,
    landmarks: Array | None,
    jitter: Jitter,
    *,
    noise: float = 0.0,
    like: PooledGP | None = None,
) -> PooledGP:
    """The process given values f (n, C) at points u (n, D): exact, or through landmarks, with the noise of another."""
    if landmarks is None:
        return ExactGP(kernel, u, f, jitter, noise)
    return NystromGP(kernel, u, f, landmarks, jitter, None if like is None else like.noise)


@dataclass(frozen=True, eq=False)
class IntegralPosterior:
    """What processes say about M integrals of C outputs.

    mean: (M, C). spread: their variances (C, M), or their covariances (C, M, M).
    """

    mean: Array
    spread: Array

    @classmethod
    def of(cls, process: PooledGP, integrals: Embedded, *, joint: bool = False) -> IntegralPosterior:
        """That of one process."""
        mu = integrals.mean(process.nodes)
        found = cls.at(process, mu, integrals.variance())
        if not joint:
            return found
        pairs = zip(process.covariance(mu, integrals.cross()), process.amplitude, found.spread, strict=True)
        return cls(found.mean, np.stack([nearest_psd(A * cov, variance) for cov, A, variance in pairs]))

    @classmethod
    def at(cls, process: PooledGP, mu: Array, z: Array, amplitude: Array | None = None) -> IntegralPosterior:
        """The variances for embeddings mu (M, m) and initial errors z (M,), maybe with the amplitude of another."""
        A = process.amplitude if amplitude is None else amplitude
        A = np.where(A > 0, A, np.finfo(float).tiny)
        return cls(process.mean(mu), (A * process.variance(mu, z)).T)

    @classmethod
    def averaged(cls, weights: Array, parts: Sequence[IntegralPosterior]) -> IntegralPosterior:
        """The average of several, whose disagreement adds to the spread."""
        if len(parts) == 1:
            return parts[0]
        mean = np.asarray(sum(w * part.mean for w, part in zip(weights, parts, strict=True)))
        spread = np.zeros_like(parts[0].spread)
        for w, part in zip(weights, parts, strict=True):
            apart = (part.mean - mean).T  # (C, M)
            joint = spread.ndim == 3
            spread += w * (part.spread + (apart[:, :, None] * apart[:, None] if joint else apart**2))
        return cls(mean, spread)


class ExactGP:
    """The process given all values f (n, C) at points u (n, D), with a noise variance in units of the amplitude."""

    def __init__(self, kernel: Kernel, u: Array, f: Array, jitter: Jitter, noise: float = 0.0) -> None:
        self.nodes = u
        self.noise = np.full(f.shape[1], noise)
        self.factor = factor_gram(kernel, u, nugget=noise, jitter=jitter)
        half = self.factor.solve_lower(np.column_stack([f, np.ones(len(u))]))
        self.half_one = half[:, -1]  # L^-1 1
        self.S = float(self.half_one @ self.half_one)
        self.beta = self.half_one @ half[:, :-1] / self.S
        self.alpha = self.factor.solve(f - self.beta)
        # a sum of squares, not a difference: with thousands of points the energy is far smaller than its terms
        energy = np.sum((half[:, :-1] - np.outer(self.half_one, self.beta)) ** 2, axis=0)
        self.amplitude = energy / max(len(u) - 1, 1)
        self.rounding = np.finfo(float).eps * np.sum(np.abs(self.alpha), axis=0)  # of K alpha, where K is at most 1

    @property
    def evidence(self) -> float:
        """The restricted log-likelihood of all outputs, up to a constant."""
        amplitude = np.maximum(self.amplitude, np.finfo(float).eps ** 2)
        logdet = float(self.factor.logdet) + np.log(self.S)
        return float(-0.5 * np.sum((len(self.nodes) - 1) * np.log(amplitude) + logdet))

    def leave_groups_out(self, owners: Integers) -> tuple[Array, Array]:
        """The mean residual (G, C) of each group of values given all others, and its variance (G,) at unit amplitude.

        owners: (n,), the group of each. With P = K^-1 - k1 k1' / S, the residuals of a group B are P_BB^-1 (P f)_B,
        with the covariance P_BB^-1.
        """
        P = self.factor.inverse()
        k1 = np.sum(P, axis=1)
        P -= np.outer(k1, k1) / self.S
        means, variances = [], []
        for group in np.unique(owners):
            rows = np.flatnonzero(owners == group)
            values, vectors = eigh(P[np.ix_(rows, rows)])
            along = np.sum(vectors, axis=0) / np.maximum(values, np.finfo(float).eps * np.max(values))
            weights = vectors @ along / len(rows)
            means.append(weights @ self.alpha[rows])
            variances.append(np.sum(weights) / len(rows))
        return np.array(means), np.array(variances)

    def mean(self, mu: Array) -> Array:
        return np.asarray(self.beta + mu @ self.alpha)

    def variance(self, mu: Array, z: Array) -> Array:
        half = self.factor.solve_lower(mu.T)  # (n, M)
        missed = 1.0 - self.half_one @ half
        error2 = np.maximum(z - np.sum(half * half, axis=0) + missed**2 / self.S, ROUNDING * z)
        return np.repeat(error2[:, None], len(self.amplitude), axis=1)

    def covariance(self, mu: Array, cross: Array) -> Array:
        half = self.factor.solve_lower(mu.T)
        missed = 1.0 - self.half_one @ half
        left = cross - half.T @ half + np.outer(missed, missed) / self.S
        return np.broadcast_to(left, (len(self.amplitude), *left.shape))


class NystromGP:
    """The process given values f (n, C) at points u (n, D), through landmarks (m, D).

    noise: s2 (C,), if it is known; otherwise the likeliest.
    """

    def __init__(
        self, kernel: Kernel, u: Array, f: Array, landmarks: Array, jitter: Jitter, noise: Array | None = None
    ) -> None:
        self.nodes, self.n = landmarks, len(u)
        with blas_threads(len(landmarks)):
            rest2 = self._project(kernel, u, f, jitter)
        self.noise, self.amplitude = self._likeliest(rest2)
        if noise is not None:
            self.noise = noise
        self.coefficients = self.roots[:, None] / (self.roots[:, None] ** 2 + self.noise) * self.seen  # (m, C)
        self.rounding = np.finfo(float).eps * np.sum(np.abs(self.coefficients), axis=0)

    def _project(self, kernel: Kernel, u: Array, f: Array, jitter: Jitter) -> Array:
        """Set what the features say about the values; returns the squares (C,) of what they do not explain."""
        self.factor = factor_gram(kernel, self.nodes, jitter=jitter)
        features = self.factor.solve_lower(kernel(self.nodes, u)).T  # (n, m)
        self.centre, self.average = np.mean(features, axis=0), np.mean(f, axis=0)
        features -= self.centre
        Q, R = qr(features)
        U, self.roots, self.axes = thin_svd(R)  # features = (Q U) diag(roots) axes
        apart = f - self.average
        self.seen = (Q @ U).T @ apart  # (m, C)
        rest = apart - Q @ (Q.T @ apart)
        return np.asarray(np.sum(rest * rest, axis=0))

    def _likeliest(self, rest2: Array) -> tuple[Array, Array]:
        """s2 and A (C,) by the restricted likelihood, from the squares (C,) that no feature explains."""
        dof, m = max(self.n - 1, 1), len(self.roots)
        total = self.roots**2 + NOISES[:, None]  # (S, m)
        explained = np.sum(self.seen[None] ** 2 / total[:, :, None], axis=1)
        A = np.maximum((explained + rest2 / NOISES[:, None]) / dof, np.finfo(float).tiny)
        determinant = np.sum(np.log(total), axis=1) + max(dof - m, 0) * np.log(NOISES)
        best = np.argmin(dof * np.log(A) + determinant[:, None], axis=0)
        return NOISES[best], A[best, np.arange(A.shape[1])]

    def mean(self, mu: Array) -> Array:
        return np.asarray(self.average + self._turned(self._psi(mu)) @ self.coefficients)

    def variance(self, mu: Array, z: Array) -> Array:
        psi = self._psi(mu)
        unseen = np.maximum(z - np.sum(psi * psi, axis=1), ROUNDING * z)
        spread = self._turned(psi) ** 2 @ (self.noise / (self.roots[:, None] ** 2 + self.noise))
        return np.asarray(unseen[:, None] + spread + self.noise / self.n)

    def covariance(self, mu: Array, cross: Array) -> Array:
        psi = self._psi(mu)
        turned, unseen = self._turned(psi), cross - psi @ psi.T
        shares = self.noise / (self.roots[:, None] ** 2 + self.noise)
        pairs = zip(shares.T, self.noise, strict=True)
        return np.stack([unseen + (turned * each) @ turned.T + s2 / self.n for each, s2 in pairs])

    def _psi(self, mu: Array) -> Array:
        """The features (M, m) of integrals with embeddings mu (M, m)."""
        return self.factor.solve_lower(mu.T).T

    def _turned(self, psi: Array) -> Array:
        """Features (M, m), centred, along the axes in which those of the points are uncorrelated."""
        return np.asarray((psi - self.centre) @ self.axes.T)


def choose_landmarks(kernel: Kernel, u: Array, m: int, rng: np.random.Generator) -> Integers:
    """At most m of the points u (n, D), by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2025).

    Each is drawn with a probability proportional to its variance given those before, so that they go where the kernel
    does not yet know f. It costs n m^2 operations and n m kernel values.
    """
    with one_blas_thread():  # products of matrices and vectors gain nothing from more
        return _pivots(kernel, u, m, rng)


def _pivots(kernel: Kernel, u: Array, m: int, rng: np.random.Generator) -> Integers:
    left = kernel.diag(u).copy()
    least = np.finfo(float).eps * len(u) * float(np.max(left))
    columns = np.empty((m, len(u)))  # of the factor, one for each landmark
    chosen: list[int] = []
    while len(chosen) < m and np.any(left > least):
        i = int(rng.choice(len(u), p=left / np.sum(left)))
        k = len(chosen)
        column = kernel(u[i : i + 1], u)[0] - columns[:k, i] @ columns[:k]
        columns[k] = column / np.sqrt(left[i])
        left = np.maximum(left - columns[k] ** 2, 0.0)
        left[left <= least] = 0.0
        left[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.intp)
