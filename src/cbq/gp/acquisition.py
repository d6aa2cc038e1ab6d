"""Where further values of f would help: how much a process would learn from them, and where it may be wrong.

I(theta), the integral of f under the measure at theta, and f(u) have the posterior covariance c, and a value of f at u
has the variance v, noise included. Whatever that value is, it lowers the variance of I(theta) by c^2 / v. The gain of u
is the average of this over thetas, and several points can be chosen jointly before any of them is evaluated.

Adaptive quadrature compares two rules on the same points to see where more are needed. Here the two are processes, one
a step rougher than the other. At a kink, or in a narrow feature, their means of f differ by about as much as either
errs, and elsewhere they agree: unlike leave-one-out residuals, the difference is known between the points, and one
large value does not hide others near it. No kernel is rougher than Matern 1/2, whose mean is nearly linear between
neighbouring points. A step rougher is the value at the nearest point: between two points on either side of a jump, both
are wrong by about half of it.
"""

from __future__ import annotations

import numpy as np

from cbq.common.arrays import Array
from cbq.embeddings.many import Integrals
from cbq.gp.pooled import ExactGP, IntegralPosterior
from cbq.gp.process import Process
from cbq.kernels import Kernel
from cbq.linalg import Jitter, factor_gram

NUGGET = 1e-9  # in units of the amplitude: a smaller variance of a value is rounding


class Gain:
    """Covariances between I at G thetas and f at M candidates u (M, D), given values at points (n, D).

    noise, mean_variance: the variances of a value given f, and of the constant mean, in units of the amplitude. That of
    the mean is large, but not infinite, as there may be no points yet.
    """

    def __init__(
        self,
        kernel: Kernel,
        integrals: Integrals,
        points: Array,
        u: Array,
        noise: float = 0.0,
        *,
        mean_variance: float = 100.0,
    ) -> None:
        self._kernel, self._u, self._noise = kernel, u, noise + NUGGET
        self._with_integrals = integrals.mean(u) + mean_variance  # (G, M), covariances
        self._rows = np.empty((0, len(u)))  # room for further ones, so that adding a point copies none
        self._gap = np.full((1, len(u)), np.sqrt(mean_variance))  # of which the unknown mean adds the products
        if len(points):
            factor = factor_gram(kernel, points, nugget=self._noise)
            process = Process(factor, np.empty((len(points), 0)), tau=1.0 / mean_variance)  # no gain depends on values
            candidates, wanted = (process.functionals(mu) for mu in (kernel(u, points), integrals.mean(points)))
            self._with_integrals = wanted.covariance(integrals.mean(u), candidates)
            self._rows, self._gap = candidates.psi, candidates.gap
        self._explained = self._rows  # rows a, such that the values explain a'a of the covariance
        self.variance = kernel.diag(u) - np.sum(self._explained**2, axis=0) + self._gap[0] ** 2  # (M,), of f

    @property
    def average(self) -> Array:
        """The gain (M,) of each candidate: how much the variance of I falls, averaged over thetas."""
        return np.asarray(np.mean(self._with_integrals**2, axis=0) / (np.maximum(self.variance, 0.0) + self._noise))

    def add(self, j: int) -> None:
        """Condition on a value at candidate j."""
        prior = self._kernel(self._u[j : j + 1], self._u)[0]
        column = prior - self._explained[:, j] @ self._explained + self._gap[:, j] @ self._gap
        std = np.sqrt(max(self.variance[j], 0.0) + self._noise)
        self._with_integrals -= np.outer(self._with_integrals[:, j] / std, column / std)
        self._explain(column / std)
        self.variance = self.variance - (column / std) ** 2

    def _explain(self, row: Array) -> None:
        """Append a row (M,); the room for rows doubles when it is full."""
        n = len(self._explained)
        if n == len(self._rows):
            self._rows = np.concatenate([self._explained, np.empty((n + 1, len(row)))])
        self._rows[n] = row
        self._explained = self._rows[: n + 1]


def disagreement(kernel: Kernel, points: Array, f: Array, u: Array, jitter: Jitter, noise: float = 0.0) -> Array:
    """The squared differences (M, C) at u (M, D) of the means of f by a kernel and by one that is a step rougher.

    They are in units of the variances that the rougher process expects there, or the process itself if none is rougher.
    points: (n, D), with values f (n, C).
    noise: the variance of a value given f, in units of the amplitude.
    """
    process, to_points = ExactGP(kernel, points, f, jitter, noise), kernel(u, points)
    if kernel.is_roughest:
        expected = IntegralPosterior.at(process, to_points, kernel.diag(u))  # f at a point is an integral, too
        nearest = np.argmax(to_points, axis=1)  # with which f correlates most
        apart, amplitude = expected.mean - f[nearest], process.amplitude
    else:
        rougher = kernel.rougher()
        other = ExactGP(rougher, points, f, jitter, noise)
        expected = IntegralPosterior.at(other, rougher(u, points), rougher.diag(u))
        apart, amplitude = expected.mean - process.mean(to_points), other.amplitude
    least = NUGGET * amplitude + np.finfo(float).tiny
    return np.asarray(apart**2 / (expected.spread.T + least))
