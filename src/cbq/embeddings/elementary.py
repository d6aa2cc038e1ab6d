"""RBF and Matern kernels under uniform and exponential measures, whose formulas are elementary."""

from __future__ import annotations

from math import comb, factorial

import numpy as np
from scipy.special import erf, erfc, erfcx, gammainc, ndtr

from cbq.common import Array
from cbq.embeddings.composite import ScaleMixture, by_coordinates
from cbq.embeddings.embedding import Embedding, register
from cbq.embeddings.panels import NODES, WEIGHTS
from cbq.kernels import RBF, Matern
from cbq.measures import Exponential, Measure, Uniform

MIN_WIDTH = 1e-50  # of a box, in lengthscales: below, z is 1 to all digits and its formula would underflow


class RBFUniform(Embedding):
    """Formula on the line.

    With h = (upper - lower) / l, p = (x - lower) / l and q = (upper - x) / l:

        mu(x) = sqrt(pi/2) [erf(p / sqrt2) + erf(q / sqrt2)] / h
        z = [sqrt(2 pi) h erf(h / sqrt2) + 2 (e^(-h^2/2) - 1)] / h^2
    """

    kernel: RBF
    measure: Uniform

    def _mean(self, x: Array) -> Array:
        ell = self.kernel.lengthscale_for(1)
        p, q = (x[..., 0] - self.measure.lower) / ell, (self.measure.upper - x[..., 0]) / ell
        h = (self.measure.upper - self.measure.lower) / ell
        near, far = np.minimum(p, q) / np.sqrt(2), np.maximum(p, q) / np.sqrt(2)
        total = np.where(near < 0, erfc(-near) - erfc(far), erf(near) + erf(far))
        return np.where(h < 2, _narrow_box(p, h), np.sqrt(np.pi / 2) * total / h)

    def _variance(self) -> Array:
        h = ((self.measure.upper - self.measure.lower) / self.kernel.lengthscale_for(1))[..., 0]
        h = np.maximum(h, MIN_WIDTH)
        return np.asarray((np.sqrt(2 * np.pi) * h * erf(h / np.sqrt(2)) + 2 * np.expm1(-0.5 * h * h)) / h**2)


def _narrow_box(p: Array, h: Array) -> Array:
    """The RBF mean by one panel, exact for boxes up to two lengthscales wide, where differences of erf would cancel."""
    y = p[..., None] - 0.5 * h[..., None] * (1 + NODES)
    return np.asarray(0.5 * np.sum(WEIGHTS * np.exp(-0.5 * y * y), axis=-1))


class MaternUniform(Embedding):
    """Formula on the line.

    With P the regularised incomplete gamma function, t = a (upper - lower), and x inside the box:

        mu(x) = [G(a (x - lower)) + G(a (upper - x))] / t,   G(s) = sum_j c_j j! P(j + 1, s)
        z = 2 sum_j c_j j! [P(j + 1, t) - (j + 1) P(j + 2, t) / t] / t

    Outside, at the distance e from the box, (r + e)^j is expanded. All terms are positive.
    """

    kernel: Matern
    measure: Uniform

    def _mean(self, x: Array) -> Array:
        a, c = self.kernel.decay_rate[..., None], self.kernel.coefficients
        p, q = a * (x[..., 0] - self.measure.lower), a * (self.measure.upper - x[..., 0])
        t = np.maximum(a * (self.measure.upper - self.measure.lower), MIN_WIDTH)
        e = np.maximum(-np.minimum(p, q), 0.0)
        inside = sum(
            cj * factorial(j) * (gammainc(j + 1, np.maximum(p, 0)) + gammainc(j + 1, np.maximum(q, 0)))
            for j, cj in enumerate(c)
        )
        outside = np.exp(-e) * sum(
            cj * comb(j, i) * e ** (j - i) * factorial(i) * gammainc(i + 1, t)
            for j, cj in enumerate(c)
            for i in range(j + 1)
        )
        return np.where((e > 0) | (t == MIN_WIDTH), outside, inside) / t

    def _variance(self) -> Array:
        t = np.maximum(self.kernel.decay_rate * (self.measure.upper - self.measure.lower)[..., 0], MIN_WIDTH)
        terms = (
            cj * factorial(j) * (gammainc(j + 1, t) - (j + 1) * gammainc(j + 2, t) / t)
            for j, cj in enumerate(self.kernel.coefficients)
        )
        return np.asarray(2 * sum(terms) / t)


@register(RBF, Uniform)
@register(Matern, Uniform)
def uniform(kernel: RBF | Matern, measure: Uniform) -> Embedding:
    """Formula on the line; in more dimensions a product of RBF formulas, for a Matern kernel in a scale mixture.

    A Matern kernel of another order than 1/2, 3/2 and 5/2 is such a mixture on the line, too.
    """
    if measure.dim > 1 or (isinstance(kernel, Matern) and not kernel.coefficients):
        return by_coordinates(kernel, measure)
    return RBFUniform(kernel, measure) if isinstance(kernel, RBF) else MaternUniform(kernel, measure)


class _UnderExponential(Embedding):
    """X - Y of independent exponentials is a mixture of X and -Y, so cross and z follow from mu(0)."""

    measure: Exponential

    def _variance(self) -> Array:
        return self._at_zero(self.measure)

    def _cross(self, other: Measure) -> Array:
        if not isinstance(other, Exponential):
            return super()._cross(other)
        # X - Y is distributed as X with probability rate_Y / (rate_X + rate_Y), otherwise as -Y
        a, b = self.measure.rate[..., 0], other.rate[..., 0]
        return np.asarray((b * self._at_zero(self.measure) + a * self._at_zero(other)) / (a + b))

    def _at_zero(self, measure: Exponential) -> Array:
        """mu(0) under an exponential measure: (...)."""
        return type(self)(self.kernel, measure)._mean(np.zeros((1, 1)))[..., 0]


@register(RBF, Exponential)
class RBFExponential(_UnderExponential):
    """Formula.

    With c = rate l - x / l:  mu(x) = rate l sqrt(pi/2) e^(-x^2 / 2 l^2) erfcx(c / sqrt2); where c < 0,
    e^(-x^2 / 2 l^2) erfcx(c / sqrt2) = 2 e^(rate (rate l^2 / 2 - x)) Phi(-c) does not overflow.
    """

    kernel: RBF

    def _mean(self, x: Array) -> Array:
        ell, rate = self.kernel.lengthscale_for(1), self.measure.rate
        c = rate * ell - x[..., 0] / ell
        right = np.exp(-0.5 * (x[..., 0] / ell) ** 2) * erfcx(np.maximum(c, 0) / np.sqrt(2))
        left = 2 * np.exp(np.where(c < 0, rate * (0.5 * rate * ell**2 - x[..., 0]), 0)) * ndtr(-c)
        return np.asarray(np.sqrt(np.pi / 2) * rate * ell * np.where(c < 0, left, right))


class MaternExponential(_UnderExponential):
    """Formula.

    For x >= 0:  mu(x) = rate e^(-rate x) sum_j c_j a^j [j! / (a + rate)^(j+1) + int_0^x r^j e^(-(a - rate) r) dr];
    for x < 0, at the distance e = -x from the support, (r + e)^j is expanded. All terms are positive.
    """

    kernel: Matern

    def _mean(self, x: Array) -> Array:
        a, rate = self.kernel.decay_rate[..., None], self.measure.rate
        inside, e = np.maximum(x[..., 0], 0.0), np.maximum(-x[..., 0], 0.0)
        c = self.kernel.coefficients
        # the integral over y > x, or over the whole support where x < 0
        right = sum(
            cj * comb(j, i) * (a * e) ** (j - i) * factorial(i) * (a / (a + rate)) ** i
            for j, cj in enumerate(c)
            for i in range(j + 1)
        )
        right = np.exp(-rate * inside - a * e) * rate / (a + rate) * right
        left = sum(cj * (a * inside) ** j * _left(j, a * inside, rate * inside) for j, cj in enumerate(c))
        return np.asarray(right + rate * inside * left)


def _left(j: int, p: Array, q: Array) -> Array:
    """int_0^1 u^j e^(-p u - q (1 - u)) du for p, q >= 0, without cancellation."""
    t = np.abs(p - q)
    # p > q: e^-q int u^j e^(-t u);  p < q: e^-p int (1 - u)^j e^(-t u)
    u = 0.5 * (1 + NODES)
    small = np.exp(-np.minimum(t, 4.0)[..., None] * u)
    rising, falling = (0.5 * np.sum(WEIGHTS * power * small, axis=-1) for power in (u**j, (1 - u) ** j))
    large = np.maximum(t, 4.0)
    rising = np.where(t < 4, rising, factorial(j) * gammainc(j + 1, large) / large ** (j + 1))
    closed = -np.expm1(-large) / large
    for i in range(1, j + 1):
        closed = (1 - i * closed) / large
    falling = np.where(t < 4, falling, closed)
    return np.asarray(np.exp(-np.minimum(p, q)) * np.where(p > q, rising, falling))


@register(Matern, Exponential)
def matern_exponential(kernel: Matern, measure: Exponential) -> Embedding:
    """Formula for orders 1/2, 3/2 and 5/2; scale mixture of RBF formulas otherwise."""
    return MaternExponential(kernel, measure) if kernel.coefficients else ScaleMixture(kernel, measure)
