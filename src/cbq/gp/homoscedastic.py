"""A constant-mean Gaussian process with one noise variance: a linear smoother, as in kernel ridge regression.

With Q = (K + noise I)^-1 and P = Q - Q 1 1' Q / (1' Q 1), the residuals of values y are noise P y, and those of leaving
one value out (P y)_t / P_tt. The eigenvalues of one Gram matrix give them for all noise variances, at O(n^2) each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Array
from cbq.kernels import Kernel
from cbq.linalg import Jitter, factor_gram
from cbq.linalg.engines import eigh

LEAST_NOISE = 1e-10  # of the mean of k(x, x): with less, equal points would leave nothing but rounding errors
LEAST_LEVERAGE = 1e-10  # of Q_tt: below, P_tt is zero but for rounding, and the other values say nothing about this one
NO_JITTER = Jitter(start=0.0)  # unless it is needed


class HomoscedasticGP:
    """The process at nodes x (n, d), with a noise variance in units of the kernel; weights do not depend on values."""

    def __init__(self, kernel: Kernel, x: Array, noise: float) -> None:
        self.kernel, self.x = kernel, x
        nugget = max(noise, LEAST_NOISE * float(np.mean(kernel.diag(x))))
        self._factor = factor_gram(kernel, x, nugget=nugget, jitter=NO_JITTER)
        self.noise = nugget + float(self._factor.jitter)
        Q1 = self._factor.solve(np.ones((len(x), 1)))[:, 0]
        self._mean_weights = Q1 / np.sum(Q1)  # of the values in the estimate of the constant mean
        self._Q_diagonal = self._factor.inverse_diagonal()
        self._P_diagonal = self._Q_diagonal - Q1 * self._mean_weights
        self.residual_df = self.noise * float(np.sum(self._P_diagonal))

    def weights(self, x: Array) -> Array:
        """The weights (M, n) of the values in the mean at x (M, d); every row sums to one."""
        weights = self._factor.solve(self.kernel.gram(self.x, x)).T
        return np.asarray(weights + (1.0 - np.sum(weights, axis=1))[:, None] * self._mean_weights)

    def residuals(self, y: Array) -> Array:
        """The values y (n,) less the mean at their own nodes."""
        return self.noise * self._P(y)

    def leave_one_out(self, y: Array) -> Array:
        """The leave-one-out residuals of y (n,); infinite where the other values say nothing about one."""
        return leave_one_out(self._P(y), self._P_diagonal, self._Q_diagonal)

    def _P(self, y: Array) -> Array:
        return np.asarray(self._factor.solve((y - self._mean_weights @ y)[:, None])[:, 0])


def leave_one_out_by_noise(kernel: Kernel, x: Array, y: Array, noises: Sequence[float]) -> list[Array]:
    """The leave-one-out residuals (n, C) of y (n, C) for every noise variance, from one decomposition."""
    values, V = eigh(kernel.gram(x))
    ones, along = np.sum(V, axis=0), V.T @ y
    found = []
    for noise in noises:
        q = 1.0 / (np.maximum(values, 0.0) + max(noise, LEAST_NOISE * float(np.mean(values))))
        found.append(leave_one_out_along(V, q, ones, along))
    return found


def leave_one_out_along(V: Array, q: Array, ones: Array, along: Array) -> Array:
    """The leave-one-out residuals (n, C) of y, from Q = V diag(q) V', ones = V'1 (n,) and along = V'y (n, C)."""
    Q1 = V @ (q * ones)
    constant = Q1 / np.sum(q * ones**2)
    Py = V @ (q[:, None] * along) - constant[:, None] * ((q * ones) @ along)
    Q_diagonal = V**2 @ q
    return leave_one_out(Py, Q_diagonal - Q1 * constant, Q_diagonal)


def leave_one_out(Py: Array, P_diagonal: Array, Q_diagonal: Array) -> Array:
    """(P y)_t / P_tt for P y (n,) or (n, C); infinite where P_tt is zero but for rounding."""
    known = P_diagonal > LEAST_LEVERAGE * Q_diagonal
    rows = known.reshape(-1, *(1,) * (Py.ndim - 1))
    return np.where(rows, Py / np.where(known, P_diagonal, 1.0).reshape(rows.shape), np.inf)
