"""Radial profiles h of a kernel k(x, y) = h(rho), rho = |(x - y) / lengthscale|, and their derivatives.

Each profile is a function of an array namespace `xp` (NumPy, or a library with the same functions) and of the
squared scaled distance `r2 = rho^2`:

    value       h(rho)                 (overwrites r2)
    slope       g = -h'(rho) / rho     so that dk / d log l_j = g (x_j - y_j)^2 / l_j^2
    curvature   q = g'(rho) / rho
    third       p = q'(rho) / rho

The last three may grow like a power of 1/rho at the origin; wherever they are used they are multiplied by at
least that power of the distance, so a tiny floor under rho makes the product exactly zero there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import sqrt
from typing import Any

_FLOOR = 1e-200  # of rho^2: its powers up to 3/2 are still above the smallest double


class Profile(ABC):
    """A radial profile with h(0) = 1."""

    @abstractmethod
    def value(self, xp: Any, r2: Any) -> Any:
        """h, written into r2."""

    @abstractmethod
    def slope(self, xp: Any, r2: Any) -> Any:
        """g = -h' / rho."""

    @abstractmethod
    def curvature(self, xp: Any, r2: Any) -> Any:
        """q = g' / rho."""

    @abstractmethod
    def third(self, xp: Any, r2: Any) -> Any:
        """p = q' / rho."""


class RBFProfile(Profile):
    """h = exp(-rho^2 / 2)."""

    def value(self, xp: Any, r2: Any) -> Any:
        r2 *= -0.5
        return xp.exp(r2, out=r2)

    def slope(self, xp: Any, r2: Any) -> Any:
        return xp.exp(-0.5 * r2)

    def curvature(self, xp: Any, r2: Any) -> Any:
        return -xp.exp(-0.5 * r2)

    def third(self, xp: Any, r2: Any) -> Any:
        return xp.exp(-0.5 * r2)


class Matern12Profile(Profile):
    """h = e^-rho."""

    def value(self, xp: Any, r2: Any) -> Any:
        xp.sqrt(r2, out=r2)
        xp.negative(r2, out=r2)
        return xp.exp(r2, out=r2)

    def slope(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + _FLOOR)
        return xp.exp(-rho) / rho

    def curvature(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + _FLOOR)
        return -xp.exp(-rho) * (1 + rho) / rho**3

    def third(self, xp: Any, r2: Any) -> Any:
        raise NotImplementedError("Matern 1/2 is not differentiable enough for a Stein kernel.")


class Matern32Profile(Profile):
    """h = (1 + a rho) e^(-a rho), a = sqrt(3)."""

    a = sqrt(3.0)

    def value(self, xp: Any, r2: Any) -> Any:
        r2 *= 3.0
        xp.sqrt(r2, out=r2)
        linear = r2 + 1.0
        xp.negative(r2, out=r2)
        xp.exp(r2, out=r2)
        r2 *= linear
        return r2

    def slope(self, xp: Any, r2: Any) -> Any:
        return 3.0 * xp.exp(-self.a * xp.sqrt(r2))

    def curvature(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + _FLOOR)
        return -3.0 * self.a * xp.exp(-self.a * rho) / rho

    def third(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + _FLOOR)
        return 3.0 * self.a * xp.exp(-self.a * rho) * (1 + self.a * rho) / rho**3


class Matern52Profile(Profile):
    """h = (1 + a rho + a^2 rho^2 / 3) e^(-a rho), a = sqrt(5)."""

    a = sqrt(5.0)

    def value(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(5.0 * r2)
        r2 *= 5.0 / 3.0
        r2 += rho
        r2 += 1.0
        xp.negative(rho, out=rho)
        r2 *= xp.exp(rho, out=rho)
        return r2

    def slope(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2)
        return 5.0 / 3.0 * (1 + self.a * rho) * xp.exp(-self.a * rho)

    def curvature(self, xp: Any, r2: Any) -> Any:
        return -25.0 / 3.0 * xp.exp(-self.a * xp.sqrt(r2))

    def third(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + _FLOOR)
        return 25.0 / 3.0 * self.a * xp.exp(-self.a * rho) / rho


RBF_PROFILE = RBFProfile()
MATERN_PROFILES = {0.5: Matern12Profile(), 1.5: Matern32Profile(), 2.5: Matern52Profile()}
