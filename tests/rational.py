"""A radial kernel that the package does not have, in one file, as a user would write it."""

import numpy as np

from cbq.io import Numbers, saved
from cbq.kernels import Radial


class RationalProfile:
    """h = 1 / (1 + rho^2 / 2)."""

    def value(self, xp, r2):
        return 1.0 / (1.0 + 0.5 * r2)

    def at(self, xp, rho):
        return self.value(xp, rho * rho)

    def slope(self, xp, r2):
        return (1.0 + 0.5 * r2) ** -2

    def curvature(self, xp, r2):
        return -2.0 * (1.0 + 0.5 * r2) ** -3

    def third(self, xp, r2):
        return 6.0 * (1.0 + 0.5 * r2) ** -4


@saved("tests.Rational", lengthscale=Numbers(inline=True))
class Rational(Radial):
    """The rational quadratic kernel of order 1."""

    profile = RationalProfile()
    smoothness = np.inf

    def __repr__(self):
        return f"Rational({self.lengthscale})"

    def with_lengthscale(self, lengthscale):
        return type(self)(lengthscale)
