"""RBF and Matern kernels under a Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import ndtr

from cbq.common import Array
from cbq.embeddings.composite import Factorised, ScaleMixture
from cbq.embeddings.embedding import Embedding, register
from cbq.embeddings.panels import PanelEmbedding
from cbq.kernels import RBF, Matern, Radial
from cbq.linalg.gram import sqdist
from cbq.linalg.lapack import cholesky, eigh, solve_lower
from cbq.linalg.threads import spans
from cbq.measures import Gaussian, Measure


@register(RBF, Gaussian)
class RBFGaussian(Embedding):
    """Formula in any dimension, for any covariance.

    With Lam = diag(l^2) and N(m, S):
    mu(x) = |Lam|^1/2 |Lam + S|^-1/2 exp(-(x - m)' (Lam + S)^-1 (x - m) / 2),   z = |Lam|^1/2 |Lam + 2 S|^-1/2
    """

    kernel: RBF
    measure: Gaussian

    def _mean(self, x: Array) -> Array:
        ell, mean, cov = self.kernel.lengthscale_for(self.measure.dim), self.measure.mean, self.measure.cov
        if self.measure.dim == 1 or ell.ndim > 1 or x.ndim > 2 or mean.ndim != 2:
            return _smoothed(ell[..., None, :], cov[..., None, :, :], x - mean[..., None, :])
        if _common(cov).ndim == 2:
            return _all_pairs(ell, cov[0], mean, x)
        pieces = spans(len(mean), x.size)
        return np.concatenate([_smoothed(ell, cov[rows, None], x - mean[rows, None]) for rows in pieces])

    def _cross(self, other: Measure) -> Array:
        if not isinstance(other, Gaussian):
            if self.measure.dim > 1:
                return Factorised(self.kernel, self.measure)._cross(other)
            return super()._cross(other)
        ell = self.kernel.lengthscale_for(self.measure.dim)
        return _smoothed(ell, _common(self.measure.cov) + _common(other.cov), self.measure.mean - other.mean)


def _common(cov: Array) -> Array:
    """The covariance (d, d) that all measures (..., d, d) share, or all covariances if they differ."""
    first = cov[(0,) * (cov.ndim - 2)]
    return first if np.all(cov == first) else cov


def _all_pairs(ell: Array, cov: Array, mean: Array, x: Array) -> Array:
    """`_smoothed` for all pairs of points x (n, d) and means (M, d) of measures with one covariance (d, d): (M, n).

    The differences of all pairs, (M, n, d), would take d times the memory of the result.
    """
    L = cholesky(cov / np.outer(ell, ell) + np.eye(len(ell)))
    means, points = (solve_lower(L, (y - mean[0]) / ell) for y in (mean, x))
    out = sqdist(means, points, np.empty((len(mean), len(x))))
    out *= -0.5
    np.exp(out, out=out)
    out /= np.prod(np.diagonal(L))
    return out


def _principal(ell: Array, cov: Array) -> tuple[Array, Array]:
    """The eigenvalues (..., d) of covariances (..., d, d) in units of the lengthscales, and eigenvectors."""
    c, axes = eigh(cov / (ell[..., :, None] * ell[..., None, :]))
    return np.maximum(c, 0.0), axes


def _smoothed(ell: Array, cov: Array, difference: Array) -> Array:
    """E exp(-|D / l|^2 / 2) for D ~ N(difference, cov): |I + C|^-1/2 exp(-b' (I + C)^-1 b / 2) in units of l."""
    scaled = cov / (ell[..., :, None] * ell[..., None, :])
    L = cholesky(scaled + np.eye(ell.shape[-1]))
    v = solve_lower(L, difference / ell)
    # At far points the value is zero.
    with np.errstate(over="ignore"):
        decay = np.exp(-0.5 * np.sum(v * v, axis=-1))
    return np.asarray(decay / np.prod(np.diagonal(L, axis1=-2, axis2=-1), axis=-1))


class RadialGaussian(ScaleMixture):
    """Scale mixture of RBF formulas in several dimensions, for all scales by one eigendecomposition.

    With the eigenvalues c of Lam^-1/2 S Lam^-1/2, and the coordinates b of Lam^-1/2 (x - m) along its eigenvectors, the
    RBF kernel of scale g has the mean prod_i (1 + c_i / g)^-1/2 exp(-sum_i b_i^2 / (g + c_i) / 2).
    """

    measure: Gaussian

    def _mean(self, x: Array) -> Array:
        ell, mean, cov = self._radial.lengthscale_for(self.measure.dim), self.measure.mean, self.measure.cov
        if ell.ndim > 1 or x.ndim > 2 or mean.ndim != 2:
            return self._smoothed(ell[..., None, :], cov[..., None, :, :], x - mean[..., None, :])
        if _common(cov).ndim == 2:
            return self._all_pairs(ell, cov[0], mean, x)
        pieces = spans(len(mean), x.size)
        return np.concatenate([self._smoothed(ell, cov[rows, None], x - mean[rows, None]) for rows in pieces])

    def _variance(self) -> Array:
        return self._cross(self.measure)

    def _cross(self, other: Measure) -> Array:
        if not isinstance(other, Gaussian):
            return super()._cross(other)
        ell = self._radial.lengthscale_for(self.measure.dim)
        return self._smoothed(ell, _common(self.measure.cov) + _common(other.cov), self.measure.mean - other.mean)

    def _smoothed(self, ell: Array, cov: Array, difference: Array) -> Array:
        """E k(D, 0) for D ~ N(difference, cov)."""
        c, axes = _principal(ell, cov)
        b2 = np.einsum("...i,...ij->...j", difference / ell, axes) ** 2

        def at(g: float) -> Array:
            return np.asarray(np.exp(-0.5 * np.sum(b2 / (g + c), axis=-1)) / np.sqrt(np.prod(1.0 + c / g, axis=-1)))

        return self._average(at)

    def _all_pairs(self, ell: Array, cov: Array, mean: Array, x: Array) -> Array:
        """`_smoothed` for all pairs of points x (n, d) and means (M, d) of measures with one covariance: (M, n)."""
        c, axes = _principal(ell, cov)
        means, points = (((y - mean[0]) / ell) @ axes for y in (mean, x))
        out = np.empty((len(mean), len(x)))

        def at(g: float) -> Array:
            root = np.sqrt(g + c)
            sqdist(means / root, points / root, out)
            np.multiply(out, -0.5, out=out)
            np.exp(out, out=out)
            return np.asarray(np.divide(out, np.sqrt(np.prod(1.0 + c / g)), out=out))

        return self._average(at)


class MaternGaussian(Embedding):
    """Formula on the line.

    With u = (x - m) / s, b = a s and I_j(v) = int_0^inf t^j e^(-v t - t^2/2) dt:

        mu(x) = phi(u) sum_j c_j b^j [I_j(b - u) + I_j(b + u)]

    X - X' is Gaussian too, so cross and z are means under a wider Gaussian.
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
        b, u = np.broadcast_arrays(self.kernel.decay_rate[..., None] * s, difference / s)
        return np.asarray(np.sum(_half_lines(self.kernel.coefficients, b, np.stack([u, -u])), axis=0))


def _half_lines(c: tuple[float, ...], b: Array, u: Array) -> Array:
    """phi(u) sum_j c_j b^j I_j(b - u), without overflow or cancellation."""
    v = b - u
    # for v < 0, `_moments` returns e^(-v^2/2) I_j, and phi(u) e^(v^2/2) = e^(b^2/2 - b u) / sqrt(2 pi)
    exponent = np.where(v < 0, b * (0.5 * b - u), -0.5 * u * u)
    total = sum(cj * b**j * I for j, (cj, I) in enumerate(zip(c, _moments(v, len(c)), strict=True)))
    return np.asarray(np.exp(exponent) * total / np.sqrt(2 * np.pi))


def _moments(v: Array, count: int) -> Array:
    """I_0, ..., I_(count-1), at most three of them, where v >= 0; e^(-v^2/2) times these where v < 0: (count, ...)."""
    out = np.empty((count, v.size))
    far = v.ravel() > _FAR
    for where, moments in ((np.flatnonzero(far), _far_moments), (np.flatnonzero(~far), _near_moments)):
        if where.size:
            for row, I in zip(out, moments(v.ravel()[where]), strict=False):
                row[where] = I
    return out.reshape(count, *v.shape)


def _near_moments(v: Array) -> tuple[Array, Array, Array]:
    """I_1 = 1 - v I_0 and I_2 = I_0 - v I_1: sums of positive terms for v < 0, and at most one digit is lost here."""
    below, above = np.minimum(v, 0.0), np.maximum(v, 0.0)
    I0 = np.sqrt(2 * np.pi) * np.exp(0.5 * above * above) * ndtr(-v)
    I1 = np.exp(-0.5 * below * below) - v * I0
    return I0, I1, I0 - v * I1


def _far_moments(v: Array) -> tuple[Array, Array, Array]:
    """From j I_(j-1) = v I_j + I_(j+1), the ratios r_j = I_j / I_(j-1) = j / (v + r_(j+1)) of positive terms."""
    t = 2 * (_FAR + _SPREAD) / (v + _SPREAD) - 1
    r3 = np.full(t.shape, _THIRD_RATIO[-1])
    # Horner's rule for the polynomial.
    for c in _THIRD_RATIO[-2::-1]:
        r3 *= t
        r3 += c
    r2 = 2 / (v + r3)
    r1 = 1 / (v + r2)
    I0 = 1 / (v + r1)
    I1 = I0 * r1
    return I0, I1, I1 * r2


def _third_ratio(t: Array) -> Array:
    """r_3 = 3 / (v + 4 / (v + ...)) as a function of t in (-1, 1], onto which v in [1.5, inf) is mapped."""
    v = 2 * (_FAR + _SPREAD) / (t + 1) - _SPREAD
    ratio = np.zeros(t.shape)
    for j in range(_TERMS, 2, -1):
        ratio = j / (v + ratio)
    return ratio


_FAR = 1.5  # the v from which ratios replace the recurrence
_SPREAD = 4.0  # of the map from v to t: about the value that makes the polynomial shortest
_TERMS = 400  # of the continued fraction: full accuracy for v >= 1.5
# The error of r_3 is 2e-16 for all v >= 1.5; r_2, r_1 and I_0, which follow from it, have smaller errors.
_NODES = chebyshev.chebpts1(25)
_THIRD_RATIO = np.array(chebyshev.cheb2poly(chebyshev.chebfit(_NODES, _third_ratio(_NODES), 24)), dtype=np.float64)


@register(Matern, Gaussian)
def matern_gaussian(kernel: Matern, measure: Gaussian) -> Embedding:
    """Formula on the line for orders 1/2, 3/2 and 5/2; scale mixture of RBF formulas otherwise."""
    has_formula = measure.dim == 1 and kernel.coefficients
    return MaternGaussian(kernel, measure) if has_formula else RadialGaussian(kernel, measure)


@register(Radial, Gaussian)
def radial_gaussian(kernel: Radial, measure: Gaussian) -> Embedding:
    """Panel rule on the line; scale mixture of RBF formulas in more dimensions."""
    return PanelEmbedding(kernel, measure) if measure.dim == 1 else RadialGaussian(kernel, measure)
