"""RBF and Matern kernels under a Gaussian."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, ndtr

from cbq._arrays import Array
from cbq.embeddings.base import Embedding
from cbq.embeddings.matern import COEFFICIENTS, decay_rate
from cbq.embeddings.registry import register
from cbq.embeddings.scale_mixture import ScaleMixture
from cbq.embeddings.separable import Factorised
from cbq.kernels import RBF, Matern
from cbq.linalg.small import cholesky, solve_lower
from cbq.measures import Gaussian, Measure


@register(RBF, Gaussian)
class RBFGaussian(Embedding):
    """Formula in any dimension, full covariance included.

    With Lam = diag(l^2) and N(m, S):
    mu(x) = |Lam|^1/2 |Lam + S|^-1/2 exp(-(x - m)' (Lam + S)^-1 (x - m) / 2),   z = |Lam|^1/2 |Lam + 2 S|^-1/2
    """

    kernel: RBF
    measure: Gaussian

    def _mean(self, x: Array) -> Array:
        ell = self.kernel.lengthscale_for(self.measure.dim)[..., None, :]
        return _smoothed(ell, self.measure.cov[..., None, :, :], x - self.measure.mean[..., None, :])

    def _cross(self, other: Measure) -> Array:
        if not isinstance(other, Gaussian):
            if self.measure.dim > 1:
                return Factorised(self.kernel, self.measure)._cross(other)
            return super()._cross(other)
        ell = self.kernel.lengthscale_for(self.measure.dim)
        return _smoothed(ell, self.measure.cov + other.cov, self.measure.mean - other.mean)


def _smoothed(ell: Array, cov: Array, difference: Array) -> Array:
    """E exp(-|D / l|^2 / 2) for D ~ N(difference, cov): |I + C|^-1/2 exp(-b' (I + C)^-1 b / 2) in units of l."""
    scaled = cov / (ell[..., :, None] * ell[..., None, :])
    L = cholesky(scaled + np.eye(ell.shape[-1]))
    v = solve_lower(L, difference / ell)
    return np.asarray(np.exp(-0.5 * np.sum(v * v, axis=-1)) / np.prod(np.diagonal(L, axis1=-2, axis2=-1), axis=-1))


class MaternGaussian(Embedding):
    """Formula on the line.

    With u = (x - m) / s, b = a s and I_j(v) = int_0^inf t^j e^(-v t - t^2/2) dt:

        mu(x) = phi(u) sum_j c_j b^j [I_j(b - u) + I_j(b + u)]

    X - X' is Gaussian too, so `cross` and z are means under a wider Gaussian.
    """

    kernel: Matern
    measure: Gaussian

    def _mean(self, x: Array) -> Array:
        return self._smoothed(np.sqrt(self.measure.cov[..., 0]), x[..., 0] - self.measure.mean)

    def _cross(self, other: Measure) -> Array:
        if not isinstance(other, Gaussian):
            return super()._cross(other)
        s = np.sqrt(self.measure.cov[..., 0] + other.cov[..., 0])
        return self._smoothed(s, self.measure.mean - other.mean)[..., 0]

    def _smoothed(self, s: Array, difference: Array) -> Array:
        """E k(D, 0) for D ~ N(difference, s^2), with difference (..., n) and s (..., 1)."""
        b, u = decay_rate(self.kernel)[..., None] * s, difference / s
        c = COEFFICIENTS[self.kernel.nu]
        return _half_line(c, b, u) + _half_line(c, b, -u)


def _half_line(c: tuple[float, ...], b: Array, u: Array) -> Array:
    """phi(u) sum_j c_j b^j I_j(b - u), without overflow or cancellation."""
    v = b - u
    # where v < 0 the I_j come times e^(-v^2/2), and phi(u) e^(v^2/2) = e^(b^2/2 - b u) / sqrt(2 pi)
    exponent = np.where(v < 0, b * (0.5 * b - u), -0.5 * u * u)
    total = sum(cj * b**j * I for j, (cj, I) in enumerate(zip(c, _moments(v), strict=False)))
    return np.asarray(np.exp(exponent) * total / np.sqrt(2 * np.pi))


def _moments(v: Array) -> tuple[Array, Array, Array]:
    """I_0, I_1, I_2 for v >= 0, and those times e^(-v^2/2) for v < 0.

    I_1 = 1 - v I_0 and I_2 = I_0 - v I_1 add positive terms for v < 0, and lose a digit at most up to v = 1.5;
    above, j I_(j-1) = v I_j + I_(j+1) gives the ratios I_j / I_(j-1) = j / (v + (j+1) / (v + ...)), all positive.
    """
    below = np.minimum(v, 0.0)
    gauss = np.exp(-0.5 * below * below)
    I0 = np.sqrt(np.pi / 2) * np.where(v < 0, 2 * ndtr(-v), erfcx(np.maximum(v, 0.0) / np.sqrt(2)))
    I1 = gauss - v * I0
    I2 = I0 - v * I1
    far = v > 1.5
    if np.any(far):
        w = v[far]
        ratio = np.zeros_like(w)
        for j in range(_TERMS, 2, -1):
            ratio = j / (w + ratio)
        second = 2 / (w + ratio)
        first = 1 / (w + second)
        I1[far] = I0[far] * first
        I2[far] = I1[far] * second
    return I0, I1, I2


_TERMS = 120  # of the continued fraction: full accuracy from v = 1.5 on


@register(Matern, Gaussian)
def matern_gaussian(kernel: Matern, measure: Gaussian) -> Embedding:
    """Formula on the line; scale mixture of RBF formulas in more dimensions."""
    return MaternGaussian(kernel, measure) if measure.dim == 1 else ScaleMixture(kernel, measure)
