"""Coordinates of theta, centred and in units of their spread, and the polynomials in them that are a trend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.io import Numbers, saved
from cbq.linalg.dense import has_full_column_rank

Trend = int | None  # the degree of the polynomial; None means that the mean is known
_FAR = 1e3  # the coordinate of log 0, in units of the spread: correlated with nothing


@saved(
    "ThetaCoordinates",
    logs=Numbers("p", bool, inline=True),
    centre=Numbers("p", inline=True),
    scale=Numbers("p", least=math.ulp(0.0), inline=True),
)
@dataclass(frozen=True, eq=False)
class ThetaCoordinates:
    """z = (theta - centre) / scale, with log theta in place of theta where `logs`; all three (p,)."""

    logs: Booleans
    centre: Array
    scale: Array

    @classmethod
    def standard(cls, theta: Array, logs: Booleans) -> ThetaCoordinates:
        """Coordinates in which the thetas (T, p) have mean 0 and standard deviation 1."""
        raw = cls(logs, np.zeros(theta.shape[1]), np.ones(theta.shape[1]))(theta)
        spread = np.std(raw, axis=0)
        constant = spread <= 1e-12 * np.max(np.abs(raw), axis=0)
        return cls(logs, np.mean(raw, axis=0), np.where(constant, 1.0, spread))

    @classmethod
    def identity(cls, p: int) -> ThetaCoordinates:
        """Theta as it is, for a kernel that the user gives."""
        return cls(np.zeros(p, dtype=bool), np.zeros(p), np.ones(p))

    def covers(self, theta: Array) -> bool:
        """Whether all thetas (M, p) have coordinates: negative numbers have no logarithm, and that of zero is far."""
        return not np.any(self.logs & (theta < 0))

    def __call__(self, theta: Array) -> Array:
        """The coordinates (M, p) of theta (M, p)."""
        if not self.covers(theta):
            j = int(np.argmax(self.logs & np.any(theta < 0, axis=0)))
            raise ValueError(
                f"theta[:, {j}] must not be negative, but its smallest value is {theta[:, j].min():g}: all observed "
                f"thetas are positive there, and the fit works with their logarithms. Fit again with log_theta=False "
                f"to predict at such thetas."
            )
        positive = self.logs & (theta > 0)
        z = (np.where(positive, np.log(np.where(positive, theta, 1.0)), theta) - self.centre) / self.scale
        return np.where(self.logs & (theta == 0), -_FAR, z)


def polynomial_basis(z: Array, degree: Trend) -> Array:
    """All monomials up to `degree` of z (M, p): (M, q); q = 0 without a trend, 1 for a constant."""
    if degree is None:
        return np.empty((len(z), 0))
    powers = [c for k in range(degree + 1) for c in combinations_with_replacement(range(z.shape[1]), k)]
    return np.stack([np.prod(z[:, list(c)], axis=1) for c in powers], axis=1)


def largest_degree(z: Array, wanted: Trend) -> Trend:
    """The largest degree, at most `wanted`, whose monomials the thetas z (T, p) can tell apart."""
    if wanted is None:
        return None
    for degree in range(wanted, 0, -1):
        H = polynomial_basis(z, degree)
        if H.shape[1] < len(z) and has_full_column_rank(H):
            return degree
    return 0
