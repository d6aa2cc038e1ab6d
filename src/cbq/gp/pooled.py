"""One Gaussian process with an unknown constant mean on many points, and its integrals: exact, or through landmarks.

Exact: an integral of f is a linear functional in the sense of `process`, with its embedding as mu and its initial error
as z; so is a value of f, with mu = k(x, points) and z = k(x, x).

Landmarks (Nystrom): f lies in the span of the kernel at m landmarks, and the rest is noise. With K_mm = L L' of the
landmarks, Phi = K_nm L^-T (n, m) are features under which the prior of f is f = b + Phi w + e, w ~ N(0, A),
e ~ N(0, A s2), with a flat prior for b. An integral with the embedding mu (m,) at the landmarks is b + psi'w,
psi = L^-1 mu, and the part that the landmarks do not represent keeps its prior variance z - psi'psi. With the singular
values of the centred features, the likelihood of every s2 costs m operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cbq.common import Array
from cbq.gp.process import EPS, Functionals, Process
from cbq.kernels import Kernel
from cbq.linalg import Jitter, factor, factor_gram
from cbq.linalg.lapack import append_rows, nearest_psd, symmetric_root, thin_svd
from cbq.linalg.threads import blas_threads

ROUNDING = 1e-15  # of the prior variance: the smallest posterior variance that means anything
NOISES = np.exp(np.linspace(np.log(1e-15), np.log(10.0), 120))  # s2 to choose from
BLOCK_ROWS = 2048  # points whose features are in memory at a time


class Embedded(Protocol):
    """Integrals of a kernel at M thetas, such as `embeddings.many.Integrals`."""

    def mean(self, u: Array, /) -> Array:
        """The embeddings (M, m) at nodes u (m, D)."""

    def variance(self) -> Array:
        """The initial errors (M,)."""

    def cross(self) -> Array:
        """The cross terms (M, M) of all pairs."""


@dataclass(frozen=True, eq=False)
class PointValues:
    """The values of f at points u (M, D), as integrals under measures of one atom each."""

    kernel: Kernel
    u: Array

    def mean(self, u: Array) -> Array:
        return self.kernel(self.u, u)

    def variance(self) -> Array:
        return self.kernel.diag(self.u)

    def cross(self) -> Array:
        return self.kernel(self.u)


class PooledGP(Protocol):
    """A process with C outputs, as far as integrals need it."""

    nodes: Array  # (m, D): the points at which embeddings are needed
    amplitude: Array  # (C,), A: the prior covariance of f is A k
    noise: Array  # (C,), of the values, in units of the amplitude

    @property
    def rounding(self) -> Array:
        """How far (C,) rounding errors may move the mean of an integral."""

    def mean(self, mu: Array) -> Array:
        """The means (M, C) of integrals with embeddings mu (M, m) at the nodes."""

    def variance(self, mu: Array, z: Array) -> Array:
        """Their variances (M, C) at unit amplitude, with the initial errors z (M,)."""

    def covariance(self, mu: Array, cross: Array) -> Array:
        """Their covariances (C, M, M) at unit amplitude, with the prior ones `cross` (M, M)."""


class PointsGP(PooledGP, Protocol):
    """A process given values at points, whose posterior covariances are known factor by factor."""

    def covariance_roots(self, mu: Array) -> tuple[Array, Array]:
        """P (M, m) and U (C, M, q): covariances at unit amplitude are the prior ones - P P' + U_c U_c'."""


def pooled_gp(
    kernel: Kernel,
    u: Array,
    f: Array,
    landmarks: Array | None,
    jitter: Jitter,
    *,
    noise: float = 0.0,
) -> PointsGP:
    """The process given values f (n, C) at points u (n, D): exact, with this noise, or through landmarks."""
    return ExactGP(kernel, u, f, jitter, noise) if landmarks is None else NystromGP(kernel, u, f, landmarks, jitter)


@dataclass(frozen=True, eq=False)
class IntegralPosterior:
    """The posterior of M integrals of C outputs.

    mean: (M, C). spread: their variances (C, M), or their covariances (C, M, M).
    """

    mean: Array
    spread: Array

    @classmethod
    def of(cls, process: PooledGP, integrals: Embedded, *, joint: bool = False) -> IntegralPosterior:
        """Of the integrals by one process."""
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

    def draws(self, size: int, rng: np.random.Generator) -> Array:
        """Joint normal draws (size, M, C), from covariances (C, M, M)."""
        roots = np.stack([symmetric_root(cov) for cov in self.spread])
        normal = rng.standard_normal((size, *self.spread.shape[:2]))
        return np.asarray(self.mean + np.moveaxis(np.moveaxis(normal, 1, 0) @ np.moveaxis(roots, 1, 2), 0, 2))


class ExactGP:
    """The process given all values f (n, C) at points u (n, D), with a noise variance in units of the amplitude."""

    def __init__(self, kernel: Kernel, u: Array, f: Array, jitter: Jitter, noise: float = 0.0) -> None:
        self.kernel, self.nodes = kernel, u
        self.noise = np.full(f.shape[1], noise)
        self.process = Process(factor_gram(kernel, u, nugget=noise, jitter=jitter), f)
        self.amplitude = self.process.amplitude

    @property
    def rounding(self) -> Array:
        return np.asarray(EPS * np.sum(np.abs(self.process.a), axis=0))  # of K a, where K is at most 1

    def functionals(self, mu: Array) -> Functionals:
        """Integrals with embeddings mu (M, n) at the nodes."""
        return self.process.functionals(mu)

    def prior_covariance(self) -> Array:
        """K (n, n) of the values at unit amplitude, noise included."""
        K = self.kernel(self.nodes)
        return np.asarray(K + np.max(self.noise) * np.eye(len(K)))

    def mean(self, mu: Array) -> Array:
        return np.asarray(self.process.beta + mu @ self.process.a)

    def variance(self, mu: Array, z: Array) -> Array:
        error2 = np.maximum(self.process.functionals(mu).variance(z), ROUNDING * z)
        return np.repeat(error2[:, None], len(self.amplitude), axis=1)

    def covariance_roots(self, mu: Array) -> tuple[Array, Array]:
        """P (M, n) and U (C, M, 1): covariances at unit amplitude are the prior ones - P P' + U_c U_c'."""
        found = self.process.functionals(mu)
        return found.psi.T, np.broadcast_to(found.gap.T, (len(self.amplitude), *found.gap.T.shape))

    def covariance(self, mu: Array, cross: Array) -> Array:
        found = self.process.functionals(mu).covariance(cross)
        return np.broadcast_to(found, (len(self.amplitude), *found.shape))


def _triangle(features: Callable[[Array], Array], u: Array, f: Array) -> Array:
    """The triangular factor (1 + m + C, 1 + m + C) of rows (1, features, values), for points u (n, D), values f (n, C).

    It has all that a process needs of the rows, which are added in blocks, so that memory does not grow with n.
    """
    R = np.zeros((0, 0))
    for start in range(0, len(u), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        block = np.column_stack([np.ones(len(u[rows])), features(u[rows]), f[rows]])
        R = append_rows(R if R.size else np.zeros((block.shape[1],) * 2), block)
    return R


class NystromGP:
    """The process given values f (n, C) at points u (n, D), through landmarks (m, D), in bounded memory."""

    # No `Process`: with s2 near rounding, variances are sums of terms that z - |psi|^2 + |gap|^2 would lose.

    def __init__(self, kernel: Kernel, u: Array, f: Array, landmarks: Array, jitter: Jitter) -> None:
        self.nodes, self.n = landmarks, len(u)
        with blas_threads(len(landmarks)):
            self.factor = factor_gram(kernel, landmarks, jitter=jitter)
            self._set(_triangle(lambda some: self.factor.solve_lower(kernel(landmarks, some)).T, u, f))

    def _set(self, triangle: Array) -> None:
        """Set the process from the triangular factor of a constant, features and values."""
        features, values = slice(1, 1 + len(self.nodes)), slice(1 + len(self.nodes), None)
        # averages of features (m,) and of values (C,)
        self.centre, self.average = triangle[0, features] / triangle[0, 0], triangle[0, values] / triangle[0, 0]
        R, projected = triangle[features, features], triangle[features, values]
        rest2 = np.sum(triangle[values, values] ** 2, axis=0)
        U, self.roots, self.axes = thin_svd(R)  # centred features = Q U diag(roots) axes, for orthonormal columns Q
        self.seen = U.T @ projected  # (m, C)
        self.noise, self.amplitude = self._likeliest(rest2)
        self.coefficients = self.roots[:, None] / (self.roots[:, None] ** 2 + self.noise) * self.seen  # (m, C)
        self.rounding = EPS * np.sum(np.abs(self.coefficients), axis=0)

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

    def covariance_roots(self, mu: Array) -> tuple[Array, Array]:
        """P (M, m) and U (C, M, m + 1): covariances at unit amplitude are the prior ones - P P' + U_c U_c'."""
        psi = self._psi(mu)
        stds = np.sqrt(self.noise / (self.roots[:, None] ** 2 + self.noise)).T  # (C, m)
        constant = np.broadcast_to(np.sqrt(self.noise / self.n)[:, None, None], (len(stds), len(psi), 1))
        return psi, np.concatenate([self._turned(psi) * stds[:, None], constant], axis=2)

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
        """Features (M, m), centred, along the axes in which the features of the points are uncorrelated."""
        return np.asarray((psi - self.centre) @ self.axes.T)


class SubsetGP:
    """The process of a `NystromGP` given some of its values f (n, C) at points u (n, D), with their covariances.

    K = Phi Phi' + s2, with the largest noise of all outputs: n is at most a thousand.
    """

    def __init__(self, whole: NystromGP, kernel: Kernel, u: Array, f: Array, jitter: Jitter) -> None:
        self.kernel, self.nodes, self._factor = kernel, whole.nodes, whole.factor
        self._features = whole.factor.solve_lower(kernel(whole.nodes, u))  # Phi' (m, n)
        self._noise = float(np.max(whole.noise))
        gram = self._features.T @ self._features
        self.process = Process(factor(gram, nugget=self._noise, jitter=jitter, overwrite=True), f)

    def functionals(self, mu: Array) -> Functionals:
        """Integrals with embeddings mu (M, m) at the landmarks."""
        return self.process.functionals(self._factor.solve_lower(mu.T).T @ self._features)

    def prior_covariance(self) -> Array:
        """K (n, n) of the values at unit amplitude, noise included."""
        return np.asarray(self._features.T @ self._features + self._noise * np.eye(self._features.shape[1]))
