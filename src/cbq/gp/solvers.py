"""The covariance matrices of processes: a small contract, and two solvers with structure.

K is the covariance of the values at unit amplitude, with noise and jitter. A process takes products with L^-1 and K^-1,
the diagonal of K^-1 and log |K|, but never K or L themselves. L need not be triangular, as long as
(L^-1 V)'(L^-1 W) = V'K^-1 W.

The factors of `cbq.linalg.factor_gram` satisfy the contract for dense matrices: one or a batch, without noise, with one
noise variance, or with one for each value (the nugget). `Spectral` serves many noise variances by one decomposition,
`Kronecker` the values on a grid. Processes through landmarks (`pooled.NystromGP`, `heteroscedastic.LandmarkGP`) need no
solver: they regress on features and mean together by orthogonal transformations, which preserve the digits of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cbq.common import Array
from cbq.linalg import Factor
from cbq.linalg.engines import eigh


class Solver(Protocol):
    """K = L L' (..., n, n), as far as a process needs it; right-hand sides are matrices V (..., n, M)."""

    @property
    def logdet(self) -> Array:
        """log |K|: (...,)."""

    def solve_lower(self, V: Array, /) -> Array:
        """L^-1 V: (..., n, M)."""

    def solve(self, V: Array, /) -> Array:
        """K^-1 V: (..., n, M)."""

    def inverse_root(self) -> Array:
        """L^-1: (..., n, n)."""

    def inverse_diagonal(self) -> Array:
        """The diagonal of K^-1: (..., n)."""

    def resident_inverse(self) -> Any:
        """A copy of K^-1 (..., n, n), where the engine keeps it, for gradients."""


@dataclass(frozen=True, eq=False)
class Spectral:
    """K = V diag(l + r) V' for each of R noise variances r, from one decomposition of the Gram matrix V diag(l) V'.

    With the root L^-1 = diag(l + r)^-1/2 V', the evidence of a noise variance takes O(n) operations.

    vectors: V (n, n). values: l + r (R, n).
    """

    vectors: Array
    values: Array

    @classmethod
    def of(cls, gram: Array, noises: Array) -> Spectral:
        """From a Gram matrix (n, n) and noise variances (R,)."""
        values, vectors = eigh(gram)
        return cls(vectors, np.maximum(values, 0.0) + noises[:, None])

    def __getitem__(self, rows: slice) -> Spectral:
        """Some of the noise variances."""
        return Spectral(self.vectors, self.values[rows])

    @property
    def logdet(self) -> Array:
        return np.asarray(np.sum(np.log(self.values), axis=-1))

    def solve_lower(self, V: Array) -> Array:
        return (self.vectors.T @ V) / np.sqrt(self.values)[..., None]

    def solve(self, V: Array) -> Array:
        return np.asarray(self.vectors @ ((self.vectors.T @ V) / self.values[..., None]))

    def inverse_root(self) -> Array:
        return np.asarray(self.vectors.T / np.sqrt(self.values)[..., None])

    def inverse_diagonal(self) -> Array:
        return (1.0 / self.values) @ (self.vectors**2).T

    def resident_inverse(self) -> Array:
        return np.asarray((self.vectors / self.values[..., None, :]) @ self.vectors.T)


@dataclass(frozen=True, eq=False)
class Kronecker:
    """K = K_a (x) K_b, for n = T N values on a grid, the second axis fastest.

    L^-1 = L_a^-1 (x) L_b^-1. A right-hand side F (T, N) becomes L_a^-1 F L_b^-T, in T N (T + N) operations.

    outer: the factor of K_a (T, T). inner: the factor of K_b (N, N).
    """

    outer: Factor
    inner: Factor

    @property
    def logdet(self) -> Array:
        return np.asarray(self.inner.n * self.outer.logdet + self.outer.n * self.inner.logdet)

    def solve_lower(self, V: Array) -> Array:
        half = self.inner.solve_lower(self._grid(V))  # (T, N, M)
        return self.outer.solve_lower(half.reshape(self.outer.n, -1)).reshape(V.shape)

    def solve(self, V: Array) -> Array:
        solved = self.inner.solve(self._grid(V))
        return self.outer.solve(solved.reshape(self.outer.n, -1)).reshape(V.shape)

    def inverse_root(self) -> Array:
        return np.asarray(np.kron(self.outer.inverse_root(), self.inner.inverse_root()), dtype=np.float64)

    def inverse_diagonal(self) -> Array:
        return np.outer(self.outer.inverse_diagonal(), self.inner.inverse_diagonal()).ravel()

    def resident_inverse(self) -> Array:
        return np.asarray(np.kron(self.outer.inverse(), self.inner.inverse()), dtype=np.float64)

    def _grid(self, V: Array) -> Array:
        return V.reshape(self.outer.n, self.inner.n, V.shape[-1])
