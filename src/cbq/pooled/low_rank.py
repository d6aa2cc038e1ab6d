"""The Nystrom approximation of a process: f lives in the span of the kernel at m landmarks, and the rest is noise.

With K_mm = L L' of the landmarks, Phi = K_nm L^-T (n, m) are features under which the prior of f is f = b + Phi w + e,
w ~ N(0, A), e ~ N(0, A s2), with a flat prior for b. An integral with the embedding mu (m,) at the landmarks is
b + psi'w, psi = L^-1 mu, and what the landmarks do not see of it keeps its prior variance z - psi'psi. With the
singular values of the centred features, the likelihood of every s2 costs m operations.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from cbq._arrays import Array
from cbq.kernels import Kernel
from cbq.linalg import Jitter, factor_gram
from cbq.linalg.threads import LARGE, one_blas_thread
from cbq.pooled.process import ROUNDING

NOISES = np.exp(np.linspace(np.log(1e-15), np.log(10.0), 120))  # s2 to choose from


class NystromGP:
    """The process given values f (n, C) at points u (n, D), through landmarks (m, D).

    noise: s2 (C,), if it is known; otherwise the likeliest.
    """

    def __init__(
        self, kernel: Kernel, u: Array, f: Array, nodes: Array, jitter: Jitter, noise: Array | None = None
    ) -> None:
        self.nodes, self.n = nodes, len(u)
        with one_blas_thread() if len(nodes) < LARGE else nullcontext():
            rest2 = self._project(kernel, u, f, jitter)
        self.noise, self.amplitude = self._likeliest(rest2)
        if noise is not None:
            self.noise = noise

    def _project(self, kernel: Kernel, u: Array, f: Array, jitter: Jitter) -> Array:
        """What the features say about the values, and the squares (C,) of what they do not explain."""
        self.factor = factor_gram(kernel, self.nodes, jitter=jitter)
        features = self.factor.solve_lower(kernel(self.nodes, u)).T  # (n, m)
        self.centre, self.average = np.mean(features, axis=0), np.mean(f, axis=0)
        features -= self.centre
        Q, R = np.linalg.qr(features)
        U, self.roots, self.axes = np.linalg.svd(R, full_matrices=False)  # features = (Q U) diag(roots) axes
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
        turned = self._turned(self._psi(mu))
        weights = self.roots[:, None] / (self.roots[:, None] ** 2 + self.noise)  # (m, C)
        return np.asarray(self.average + turned @ (weights * self.seen))

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
        """Features (M, m), centred, in the axes in which those of the points are independent."""
        return np.asarray((psi - self.centre) @ self.axes.T)
