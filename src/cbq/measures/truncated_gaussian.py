from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, finite, positive, real
from cbq.io import Numbers, saved
from cbq.measures.base import Measure
from cbq.measures.truncated_mass import NODES, WEIGHTS, density, left_mass, left_quantile, mass
from cbq.measures.univariate import Univariate, columns


@saved(
    "TruncatedGaussian",
    mean=Numbers(),
    std=Numbers(),
    lower=Numbers(infinite=True),
    upper=Numbers(infinite=True),
)
class TruncatedGaussian(Univariate):
    """N(mean, std^2) restricted to [lower, upper], accurate however far in a tail the interval lies.

    Parameters
    ----------
    mean, std : (...) or (..., 1), or scalars: of the Gaussian before truncation.
    lower, upper : likewise; -inf and inf are allowed.
    """

    mean: Array  # (*batch_shape, 1), as are all the others
    std: Array
    lower: Array
    upper: Array

    def __init__(self, mean: npt.ArrayLike, std: npt.ArrayLike, lower: npt.ArrayLike, upper: npt.ArrayLike) -> None:
        low, high = real(lower, "lower"), real(upper, "upper")
        if np.any(np.isnan(low)) or np.any(np.isnan(high)):
            raise ValueError("lower and upper must be numbers, -inf or inf, but one of them is NaN.")
        self.mean, self.std, self.lower, self.upper = columns(
            "TruncatedGaussian", mean=finite(mean, "mean"), std=positive(std, "std"), lower=low, upper=high
        )
        if not np.all((self.lower < self.upper) & (self.lower < np.inf) & (self.upper > -np.inf)):
            raise ValueError(
                f"lower must be below upper, but lower = {np.max(self.lower):g} and upper = "
                f"{np.min(self.upper):g} occur: the interval [lower, upper] must have a length."
            )
        self._standardise()

    def _standardise(self) -> None:
        # z = (x - mean) / std runs over [a, b], mirrored when needed so that |a| >= |b|: then every
        # integral is a difference of left tails; r is the mode
        low, high = (self.lower - self.mean) / self.std, (self.upper - self.mean) / self.std
        self._mirrored = high > -low
        self._sign = np.where(self._mirrored, -1.0, 1.0)
        self._a, self._b = np.where(self._mirrored, -high, low), np.where(self._mirrored, -low, high)
        self._r = np.minimum(self._b, 0.0)
        self._mass = mass(self._a, self._b, self._r)
        if not np.all(self._mass > 0):
            raise ValueError(
                "TruncatedGaussian: [lower, upper] is too short or too far from the mean to hold any "
                "double in standard units: use Uniform, or rescale."
            )

    def parameters(self) -> dict[str, Array]:
        return {"mean": self.mean, "std": self.std, "lower": self.lower, "upper": self.upper}

    @property
    def support(self) -> tuple[Array, Array]:
        return self.lower, self.upper

    def translated(self, shift: Array) -> Measure:
        return TruncatedGaussian(self.mean + shift, self.std, self.lower + shift, self.upper + shift)

    def _mean_and_variance(self) -> tuple[Array, Array]:
        # panels over the part where the density is above exp(-45) of its peak, centred on the mode r
        reach = 90 / (np.sqrt(self._r**2 + 90) - self._r)
        low, high = np.maximum(self._a, self._r - reach), np.minimum(self._b, reach)
        edges = np.linspace(low - self._r, high - self._r, 13)  # (13, *batch_shape, 1)
        half = 0.5 * np.diff(edges, axis=0)[..., None]
        s = edges[:-1, ..., None] + half * (1 + NODES)
        p = half * WEIGHTS * np.exp(-0.5 * s * (s + 2 * self._r[..., None]))
        total = np.sum(p, axis=(0, -1))
        centre = np.sum(s * p, axis=(0, -1)) / total
        variance = np.sum((s - centre[..., None]) ** 2 * p, axis=(0, -1)) / total
        return self.mean + self._sign * self.std * (self._r + centre), self.std**2 * variance

    def _log_density(self, y: Array) -> Array:
        z = self._z(y)
        return -0.5 * (z - self._r) * (z + self._r) - np.log(self._mass * self.std)

    def _slope(self, y: Array) -> Array:
        return -(y - self.mean) / self.std / self.std

    def _cdf(self, y: Array) -> Array:
        return np.where(self._mirrored, self._right(y), self._left(y))

    def _sf(self, y: Array) -> Array:
        return np.where(self._mirrored, self._left(y), self._right(y))

    def _ppf(self, q: Array) -> Array:
        return self._x(np.where(self._mirrored, self._from_right(q), self._from_left(q)))

    def _isf(self, q: Array) -> Array:
        return self._x(np.where(self._mirrored, self._from_left(q), self._from_right(q)))

    def _z(self, y: Array) -> Array:
        return np.clip(self._sign * ((y - self.mean) / self.std), self._a, self._b)

    def _x(self, z: Array) -> Array:
        return np.clip(self.mean + self._sign * self.std * z, self.lower, self.upper)

    def _left(self, y: Array) -> Array:
        return np.minimum(mass(self._a, self._z(y), self._r) / self._mass, 1)

    def _right(self, y: Array) -> Array:
        return np.minimum(mass(self._z(y), self._b, self._r) / self._mass, 1)

    def _from_left(self, q: Array) -> Array:
        """z with mass q between a and z: first by the left tail, then polished on the logarithm."""
        target = q * self._mass
        z = np.clip(left_quantile(left_mass(self._a, self._r) + target, self._r), self._a, self._b)
        return np.where(q == 1, self._b, self._polish(z, target, self._a, 1.0))

    def _from_right(self, q: Array) -> Array:
        """z with mass q between z and b."""
        target = q * self._mass
        near = left_quantile(left_mass(self._b, self._r) - target, self._r)
        beyond = -left_quantile(left_mass(-self._b, self._r) + target, self._r)  # the right tail has the digits
        z = np.clip(np.where(self._b > 0, beyond, near), self._a, self._b)
        return np.where(q == 1, self._a, self._polish(z, target, self._b, -1.0))

    def _polish(self, z: Array, target: Array, end: Array, sign: float) -> Array:
        """Newton's method for log mass(end, z) = log target; close to the end the mass is linear."""
        with np.errstate(all="ignore"):  # an infinite end or a target of zero is settled below
            linear = target / density(end, self._r)
            z = np.where(linear * (1 + np.abs(end)) < 0.5, end + sign * linear, z)
            for _ in range(6):
                reached = mass(end, z, self._r) if sign > 0 else mass(z, end, self._r)
                step = np.log(reached / target) * reached / density(z, self._r)
                moved = np.clip(z - sign * step, self._a, self._b)
                z = np.where(np.isfinite(step), moved, z)
        return np.where(target == 0, end, z)
