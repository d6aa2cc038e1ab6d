from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from cbq.common import Array, broadcast_batch
from cbq.io import Numbers, saved
from cbq.measures.base import Measure, parameter, require_coordinates


@saved("Uniform", lower=Numbers(), upper=Numbers())
class Uniform(Measure):
    """The uniform measure on the box [lower, upper] in R^d.

    Parameters
    ----------
    lower, upper : (..., d), or scalars for d = 1. A scalar, or a last axis of length 1, applies to all d coordinates.

    Examples
    --------
    >>> measure = cbq.measures.Uniform([0.0, 0.0], [1.0, 3.0])
    >>> measure.dim, measure.moments()[0]
    (2, array([0.5, 1.5]))
    """

    lower: Array  # (*batch_shape, d)
    upper: Array  # (*batch_shape, d)

    def __init__(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> None:
        low, high = np.atleast_1d(parameter(lower, "lower")), np.atleast_1d(parameter(upper, "upper"))
        require_coordinates(low, "lower")
        require_coordinates(high, "upper")
        a, b = low.shape[-1], high.shape[-1]
        if a != b and 1 not in (a, b):
            raise ValueError(
                f"lower has {a} coordinates, but upper has {b}: both must have the dimension d of the box."
            )
        batch = broadcast_batch({"lower": low.shape[:-1], "upper": high.shape[:-1]}, "Uniform")
        shape = (*batch, max(a, b))
        self.lower, self.upper = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        if not np.all(self.lower < self.upper):
            gap = np.min(self.upper - self.lower)
            raise ValueError(f"lower must be below upper in all coordinates, but the smallest difference is {gap:g}.")

    def translated(self, shift: Array) -> Measure:
        return Uniform(self.lower + shift, self.upper + shift)

    def moments(self) -> tuple[Array, Array]:
        variance = (self.upper - self.lower) ** 2 / 12
        return 0.5 * self.lower + 0.5 * self.upper, variance[..., None] * np.eye(self.dim)

    @property
    def support(self) -> tuple[Array, Array]:
        return self.lower, self.upper

    def factors(self) -> tuple[Measure, ...]:
        if self.dim == 1:
            return (self,)
        return tuple(Uniform(self.lower[..., j : j + 1], self.upper[..., j : j + 1]) for j in range(self.dim))

    def _logpdf(self, x: Array) -> Array:
        lower, upper = self.lower[..., None, :], self.upper[..., None, :]
        inside = np.all((x >= lower) & (x <= upper), axis=-1)
        return np.where(inside, -np.sum(np.log(upper - lower), axis=-1), -np.inf)

    def _score(self, x: Array) -> Array:
        inside = np.isfinite(self._logpdf(x))
        self._require_density(inside)
        return np.zeros((*inside.shape, self.dim))

    def _from_normal(self, v: Array) -> Array:
        # Distances from the nearer end keep the digits of the tails.
        step: Array = self._width * ndtr(-np.abs(v))
        return np.where(v < 0, self.lower[..., None, :] + step, self.upper[..., None, :] - step)

    def _to_normal(self, x: Array) -> Array:
        below = self._to_uniform(x)
        above = np.clip((self.upper[..., None, :] - x) / self._width, 0, 1)
        return np.where(below <= above, ndtri(below), -ndtri(above))

    def _from_uniform(self, u: Array) -> Array:
        return np.minimum(self.lower[..., None, :] + self._width * u, self.upper[..., None, :])

    def _to_uniform(self, x: Array) -> Array:
        return np.clip((x - self.lower[..., None, :]) / self._width, 0, 1)

    @property
    def _width(self) -> Array:
        return (self.upper - self.lower)[..., None, :]
