"""How much better integrals would be known if f were evaluated at one of many candidates.

A process with the kernel k and points Z says that I(theta), the integral of f under the measure at theta, and f(z) have
the covariance c = mu_theta(z) - mu_theta(Z)'K^-1 k(Z, z), and that a value of f at z has the variance
v = k(z, z) - k(z, Z) K^-1 k(Z, z) + noise. Whatever that value is, it lowers the variance of I(theta) by c^2 / v. The
gain of z is the average of this over thetas, and several points can be chosen jointly before any of them is evaluated.
The unknown constant mean of f has a wide prior, whose variance is added to the kernel: there may be no points yet.
"""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.many import Integrals
from cbq.kernels import Kernel
from cbq.linalg import factor

MEAN_VARIANCE = 100.0  # of the constant mean, in units of the amplitude
LEAST_ROOM = 64  # rows
NUGGET = 1e-9  # in units of the amplitude: a smaller variance of a value is rounding


class Gain:
    """What a process knows about I at G thetas and about f at M candidates u (M, D), given points (n, D).

    noise: the variance of a value given f, in units of the amplitude.
    """

    def __init__(self, kernel: Kernel, integrals: Integrals, points: Array, u: Array, noise: float = 0.0) -> None:
        self._kernel, self._u, self._noise = kernel, u, noise + NUGGET
        self._with_integrals = integrals.mean(u) + MEAN_VARIANCE  # (G, M), covariances
        self._rows = np.empty((0, len(u)))  # room for further ones, so that adding a point copies none
        self._explained = self._rows  # rows a, such that the points explain a'a of the covariance
        self.variance = kernel.diag(u) + MEAN_VARIANCE  # (M,), of f at the candidates
        if len(points):
            gram = kernel(points) + MEAN_VARIANCE
            gram[np.diag_indices_from(gram)] += self._noise
            lower = factor(gram)
            self._rows = self._explained = lower.solve_lower(kernel(points, u) + MEAN_VARIANCE)
            of_integrals = lower.solve_lower((integrals.mean(points) + MEAN_VARIANCE).T)  # (n, G)
            self._with_integrals -= of_integrals.T @ self._explained
            self.variance -= np.sum(self._explained**2, axis=0)

    @property
    def average(self) -> Array:
        """The gain (M,) of each candidate: how much the variance of I falls, averaged over thetas."""
        return np.asarray(np.mean(self._with_integrals**2, axis=0) / (np.maximum(self.variance, 0.0) + self._noise))

    def add(self, j: int) -> None:
        """Take candidate j for evaluated."""
        column = self._kernel(self._u[j : j + 1], self._u)[0] + MEAN_VARIANCE - self._explained[:, j] @ self._explained
        std = np.sqrt(max(self.variance[j], 0.0) + self._noise)
        self._with_integrals -= np.outer(self._with_integrals[:, j] / std, column / std)
        self._explain(column / std)
        self.variance = self.variance - (column / std) ** 2

    def _explain(self, row: Array) -> None:
        """Append a row (M,); the room for rows doubles when it is full."""
        n = len(self._explained)
        if n == len(self._rows):
            self._rows = np.concatenate([self._explained, np.empty((max(n, LEAST_ROOM), len(row)))])
        self._rows[n] = row
        self._explained = self._rows[: n + 1]
