"""The Gaussian measure restricted to an interval.

The functions at the end integrate exp(-(t^2 - r^2) / 2) over intervals with full relative accuracy anywhere on the
line. There r <= 0, and if r < 0 the intervals end at or before r, so that the integrand never exceeds 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, ndtr, ndtri_exp

from cbq.common import LARGEST, Array
from cbq.io import Numbers, saved
from cbq.measures.base import Measure, parameter, positive_parameter
from cbq.measures.univariate import Univariate, columns

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


MAX_MODE = 1e7  # in standard deviations: beyond, the density falls within a few units in the last place of z
ENDS = Numbers(infinite=True)


@saved("TruncatedGaussian", mean=Numbers(), std=Numbers(), lower=ENDS, upper=ENDS)
class TruncatedGaussian(Univariate):
    """N(mean, std^2) restricted to [lower, upper], accurate even if the interval lies far in a tail.

    Parameters
    ----------
    mean, std : (...) or (..., 1), or scalars: mean and standard deviation before truncation.
    lower, upper : (...) or (..., 1), or scalars, in the units of x (not of std, as in scipy.stats.truncnorm). By
        default an end is infinite.

    Examples
    --------
    >>> measure = cbq.measures.TruncatedGaussian(0.0, 1.0, lower=0.0, upper=np.inf)
    >>> measure.moments()[0].round(4)  # sqrt(2 / pi)
    array([0.7979])
    """

    has_smooth_density = True

    def __init__(
        self, mean: npt.ArrayLike, std: npt.ArrayLike, lower: npt.ArrayLike = -np.inf, upper: npt.ArrayLike = np.inf
    ) -> None:
        low, high = (parameter(end, name, infinite=True) for end, name in ((lower, "lower"), (upper, "upper")))
        self.mean, self.std, self.lower, self.upper = columns(
            "TruncatedGaussian", mean=parameter(mean, "mean"), std=positive_parameter(std, "std"), lower=low, upper=high
        )
        if not np.all((self.lower < self.upper) & (self.lower < np.inf) & (self.upper > -np.inf)):
            ends = f"lower = {np.max(low):g} and upper = {np.min(high):g}"
            raise ValueError(f"lower must be below upper, but {ends} occur: pass an interval of positive length.")
        # z = (x - mean) / std lies in [a, b], mirrored if necessary so that |a| >= |b|: every integral is then a
        # difference of left tails, which keep their digits. The mode of z is r.
        low, high = (_coordinate(end, self.mean, self.std) for end in (self.lower, self.upper))
        self._mirrored = high > -low
        self._sign = np.where(self._mirrored, -1.0, 1.0)
        self._a, self._b = np.where(self._mirrored, -high, low), np.where(self._mirrored, -low, high)
        self._r = np.minimum(self._b, 0.0)
        resolved = np.all(np.abs(self._r) <= MAX_MODE)
        if resolved:
            self._mass = _mass(self._a, self._b, self._r)
        if not resolved or not np.all(self._mass > 0):
            raise ValueError(
                "[lower, upper] is too short, or too far from the mean in units of std, to be resolved in float64: use "
                "Uniform, or rescale x."
            )

    @property
    def support(self) -> tuple[Array, Array]:
        return self.lower, self.upper

    def translated(self, shift: Array) -> Measure:
        return TruncatedGaussian(self.mean + shift, self.std, self.lower + shift, self.upper + shift)

    def _mean_and_variance(self) -> tuple[Array, Array]:
        # Gauss-Legendre panels, relative to the mode r, over the part where the density exceeds exp(-45) of its peak
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

    def _tail(self, y: Array, upper: bool) -> Array:
        z = self._z(y)
        right = np.minimum(_mass(z, self._b, self._r) / self._mass, 1)
        left = np.minimum(_mass(self._a, z, self._r) / self._mass, 1)
        return np.where(self._mirrored == upper, left, right)

    def _quantile(self, q: Array, upper: bool) -> Array:
        z = np.where(self._mirrored == upper, self._from_left(q), self._from_right(q))
        return np.clip(self.mean + self._sign * self.std * z, self.lower, self.upper)

    def _z(self, y: Array) -> Array:
        return np.clip(self._sign * ((y - self.mean) / self.std), self._a, self._b)

    def _from_left(self, q: Array) -> Array:
        """The z with mass q between a and z: first from the left tail, then by Newton's method on the log mass."""
        target = q * self._mass
        z = np.clip(_left_quantile(_left_mass(self._a, self._r) + target, self._r), self._a, self._b)
        return np.where(q == 1, self._b, self._polish(z, target, self._a, 1.0))

    def _from_right(self, q: Array) -> Array:
        """The z with mass q between z and b."""
        target = q * self._mass
        near = _left_quantile(_left_mass(self._b, self._r) - target, self._r)
        # Right of the mean, only the right tail keeps its digits.
        beyond = -_left_quantile(_left_mass(-self._b, self._r) + target, self._r)
        z = np.clip(np.where(self._b > 0, beyond, near), self._a, self._b)
        return np.where(q == 1, self._a, self._polish(z, target, self._b, -1.0))

    def _polish(self, z: Array, target: Array, end: Array, sign: float) -> Array:
        """Solve log mass(end, z) = log target by Newton's method; close to the end the mass is linear in z."""
        # Infinite steps are skipped, and a target of zero is handled at the end.
        with np.errstate(all="ignore"):
            linear = target / _density(end, self._r)
            z = np.where(linear * (1 + np.abs(end)) < 0.5, end + sign * linear, z)
            for _ in range(6):
                reached = _mass(end, z, self._r) if sign > 0 else _mass(z, end, self._r)
                step = np.log(reached / target) * reached / _density(z, self._r)
                z = np.where(np.isfinite(step), np.clip(z - sign * step, self._a, self._b), z)
        return np.where(target == 0, end, z)


def _coordinate(end: Array, mean: Array, std: Array) -> Array:
    """(end - mean) / std; infinite where its square would be."""
    with np.errstate(over="ignore"):
        z = (end - mean) / std
    return np.where(np.abs(z) > LARGEST, np.copysign(np.inf, z), z)


def _density(t: Array, r: Array) -> Array:
    """exp(-(t^2 - r^2) / 2), for finite or infinite t."""
    with np.errstate(over="ignore"):
        return np.exp(-0.5 * (t - r) * (t + r))


def _mass(low: Array, high: Array, r: Array) -> Array:
    """Integral over [low, high], without cancellation for short intervals or far in a tail."""
    low, high, r = np.broadcast_arrays(low, high, r)
    # Only left tails keep the digits of small differences.
    flip = high > -low
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    # For the whole line the width is inf - inf.
    with np.errstate(invalid="ignore"):
        width = np.where(np.isinf(low), np.inf, high - low)
    short = width * (1 + np.maximum(np.abs(low), np.abs(high))) < 1
    wide = _left_mass(high, r) - _left_mass(low, r)
    if not np.any(short):
        return wide
    start, step, mode = low[short], width[short], r[short]
    t = start[:, None] + step[:, None] * (0.5 + 0.5 * NODES)
    wide[short] = 0.5 * step * np.sum(WEIGHTS * _density(t, mode[:, None]), axis=-1)
    return wide


def _left_mass(z: Array, r: Array) -> Array:
    """Integral over (-inf, z]."""
    t = np.minimum(z, 0.0)
    finite = np.where(np.isinf(t), -1e300, t)
    tail = np.sqrt(np.pi / 2) * erfcx(-finite / np.sqrt(2)) * _density(finite, r)
    return np.where(np.isneginf(z), 0.0, np.where(z <= 0, tail, np.sqrt(2 * np.pi) * ndtr(z)))


def _left_quantile(total: Array, r: Array) -> Array:
    """The z with _left_mass(z, r) = total, to a few units in the last place of max(|z|, 1)."""
    with np.errstate(divide="ignore"):
        log_probability = np.log(total) - 0.5 * np.log(2 * np.pi) - 0.5 * r * r
    return np.asarray(ndtri_exp(np.minimum(log_probability, 0.0)))
