"""RBF and Matern kernels under the uniform measure of a box."""

from __future__ import annotations

from math import comb, factorial

import numpy as np
from scipy.special import erf, erfc, gammainc

from cbq._arrays import Array
from cbq.embeddings.embedding import Embedding, register
from cbq.embeddings.panels import NODES, WEIGHTS
from cbq.embeddings.products import by_coordinates
from cbq.kernels import RBF, Matern
from cbq.measures import Uniform

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
    """Formula on the line; in more dimensions a product of RBF formulas, for a Matern kernel in a scale mixture."""
    if measure.dim > 1:
        return by_coordinates(kernel, measure)
    return RBFUniform(kernel, measure) if isinstance(kernel, RBF) else MaternUniform(kernel, measure)
