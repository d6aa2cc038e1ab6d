"""Where to evaluate f next: the points that lower the variance of integrals, and the points where the fit may be wrong.

*Gain.* Let c be the posterior covariance of I(theta), the integral of f at theta, and f(u), and v the variance of a
value of f at u, noise included. That value lowers the variance of I(theta) by c^2 / v, whatever it turns out to be. The
gain of u is the average of c^2 / v over thetas. As it does not depend on values, several points can be chosen jointly
before any of them is evaluated.

*Disagreement.* Adaptive quadrature compares two rules on the same points to see where more are needed. Here two
processes are compared, one a step rougher than the other. At a kink or a narrow feature their means of f differ by
about as much as either errs, and elsewhere they agree. Unlike leave-one-out residuals, the difference is defined
between the points, and one large value does not hide others near it. Matern 1/2 is the roughest kernel, and its mean is
nearly linear between neighbouring points. The rougher prediction is then the value at the nearest point: between two
points on either side of a jump, both predictions are wrong by about half of the jump.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from cbq.common import Array
from cbq.gp.pooled import Embedded, ExactGP, IntegralPosterior
from cbq.gp.process import Process
from cbq.kernels import Kernel
from cbq.linalg import Jitter, factor_gram

NUGGET = 1e-9  # in units of the amplitude: a smaller variance of a value is rounding


class Gain:
    """Covariances between I at G thetas and f at M candidates u (M, D), given values at points (n, D).

    noise: the variance of a value given f, in units of the amplitude.
    factors: (G,), of the integrals, by default one.
    mean_variance: the variance of the constant mean, in the same units; large, but finite, since there may be no points
        yet.
    """

    def __init__(
        self,
        kernel: Kernel,
        integrals: Embedded,
        points: Array,
        u: Array,
        noise: float = 0.0,
        *,
        factors: Array | None = None,
        mean_variance: float = 100.0,
    ) -> None:
        self._kernel, self._u, self._noise = kernel, u, noise + NUGGET
        self._with_integrals = integrals.mean(u) + mean_variance  # (G, M), covariances
        # Rows a such that the values explain a'a of the covariance.
        # `_rows` has room for more, so that `add` copies none.
        self._rows = np.empty((0, len(u)))
        self._gap = np.full((1, len(u)), np.sqrt(mean_variance))  # the unknown mean adds gap'gap to the covariance
        if len(points):
            factor = factor_gram(kernel, points, nugget=self._noise)
            # The process has no values, since gains do not depend on them.
            process = Process(factor, np.empty((len(points), 0)), tau=1.0 / mean_variance)
            candidates, wanted = (process.functionals(mu) for mu in (kernel(u, points), integrals.mean(points)))
            self._with_integrals = wanted.covariance(integrals.mean(u), candidates)
            self._rows, self._gap = candidates.psi, candidates.gap
        if factors is not None:
            self._with_integrals = factors[:, None] * self._with_integrals
        self._explained = self._rows
        self.variance = kernel.diag(u) - np.sum(self._explained**2, axis=0) + self._gap[0] ** 2  # (M,), of f

    @property
    def average(self) -> Array:
        """The gain (M,) of each candidate: the fall of the variance of I, averaged over thetas."""
        return np.asarray(np.mean(self._with_integrals**2, axis=0) / (np.maximum(self.variance, 0.0) + self._noise))

    @property
    def moves(self) -> Array:
        """By how much (G, M) the posterior means of I move with a value at each candidate: standard deviations."""
        return np.asarray(self._with_integrals / np.sqrt(np.maximum(self.variance, 0.0) + self._noise))

    def add(self, j: int) -> None:
        """Condition on a value at candidate j."""
        # With the covariance `column` of all candidates with candidate j, every covariance loses its part along it.
        prior = self._kernel(self._u[j : j + 1], self._u)[0]
        column = prior - self._explained[:, j] @ self._explained + self._gap[:, j] @ self._gap
        std = np.sqrt(max(self.variance[j], 0.0) + self._noise)
        self._with_integrals -= np.outer(self._with_integrals[:, j] / std, column / std)
        self._explain(column / std)
        self.variance = self.variance - (column / std) ** 2

    def _explain(self, row: Array) -> None:
        """Append a row (M,); the memory for rows doubles when it is full."""
        n = len(self._explained)
        if n == len(self._rows):
            self._rows = np.concatenate([self._explained, np.empty((n + 1, len(row)))])
        self._rows[n] = row
        self._explained = self._rows[: n + 1]


def knowledge_gradient(gaps: Array, moves: Array) -> Array:
    """What a value at each candidate is expected to save (M,) where the best of several integrals is chosen.

    The first integral has the best mean, and the others are worse by gaps (G,), the first of them 0. A value moves all
    means by `moves` (G, M) times one standard normal number Z, so that choosing afterwards gains
    E max_g(moves_g Z - gaps_g) - moves_0 Z. With each rival by itself this has a closed form, s h(gap / s), where
    h(t) = phi(t) - t Phi(-t) and s = |moves_g - moves_0|. The sum over rivals is an upper bound, and the largest is a
    lower one; both are exact for two integrals, and the lower one is returned.
    """
    s = np.maximum(np.abs(moves[1:] - moves[0]), np.finfo(float).tiny)
    t = np.minimum(gaps[1:, None] / s, 1e3)
    saved = s * (np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi) - t * ndtr(-t))
    return np.asarray(np.max(np.maximum(saved, 0.0), axis=0, initial=0.0))


def disagreement(kernel: Kernel, points: Array, f: Array, u: Array, jitter: Jitter, noise: float = 0.0) -> Array:
    """Squared differences (M, C) at u (M, D) between the means of f by a kernel and by a kernel a step rougher.

    Their unit is the variance by the rougher process, or by the kernel's own where no kernel is rougher.

    points: (n, D), with values f (n, C).
    noise: the variance of a value given f, in units of the amplitude.
    """
    process, to_points = ExactGP(kernel, points, f, jitter, noise), kernel(u, points)
    if kernel.is_roughest:
        # f at a point is an integral under a point mass. The nearest point has the largest covariance.
        expected = IntegralPosterior.at(process, to_points, kernel.diag(u))
        nearest = np.argmax(to_points, axis=1)
        apart, amplitude = expected.mean - f[nearest], process.amplitude
    else:
        rougher = kernel.rougher()
        other = ExactGP(rougher, points, f, jitter, noise)
        expected = IntegralPosterior.at(other, rougher(u, points), rougher.diag(u))
        apart, amplitude = expected.mean - process.mean(to_points), other.amplitude
    least = NUGGET * amplitude + np.finfo(float).tiny
    return np.asarray(apart**2 / (expected.spread.T + least))
