"""The Matern kernel of any order, by the modified Bessel function K of the second kind."""

from __future__ import annotations

from math import exp, lgamma, log, sqrt
from typing import Any

import numpy as np
from scipy.special import kve

from cbq.common import Array

FAR = 800.0  # e^-800 is zero in float64, while powers of it are still finite


class BesselProfile:
    """h = 2^(1 - nu) / Gamma(nu) z^nu K_nu(z), z = sqrt(2 nu) rho, as a `Profile` for arrays of NumPy.

    With M_j(z) = z^j K_j(z), whose derivative is -z M_(j-1)(z), all derivatives are multiples of M_(nu-1), M_(nu-2) and
    M_(nu-3).
    """

    def __init__(self, nu: float) -> None:
        self.nu, self.a = nu, sqrt(2.0 * nu)
        self.factor = exp((1.0 - nu) * log(2.0) - lgamma(nu))

    def value(self, xp: Any, r2: Any) -> Array:
        return self.at(xp, np.sqrt(r2))

    def at(self, xp: Any, rho: Any) -> Array:
        return np.where(rho == 0, 1.0, np.minimum(self.factor * _M(self.nu, self.a * rho), 1.0))

    def slope(self, xp: Any, r2: Any) -> Array:
        return np.asarray(self.a**2 * self.factor * _M(self.nu - 1, self.a * np.sqrt(r2)))

    def curvature(self, xp: Any, r2: Any) -> Array:
        return np.asarray(-(self.a**4) * self.factor * _M(self.nu - 2, self.a * np.sqrt(r2)))

    def third(self, xp: Any, r2: Any) -> Array:
        return np.asarray(self.a**6 * self.factor * _M(self.nu - 3, self.a * np.sqrt(r2)))


def _M(order: float, z: Array) -> Array:
    """z^order K_order(z), where K_-j = K_j; at a tiny z > 0 in place of zero, where it may be infinite."""
    # From order 1 on, M differs from M(0) by z^2 at most; below, M grows like a power of 1/z, of order 4 at the most.
    z = np.clip(z, 1e-12 if order >= 1 else 1e-70, FAR)
    return np.asarray(z**order * np.exp(-z) * kve(abs(order), z))
