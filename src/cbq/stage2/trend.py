"""The polynomial trend of I over theta, whose coefficients have a flat prior."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from cbq._arrays import Array

Trend = int | None  # the degree of the polynomial; None means zero


def basis(z: Array, degree: Trend) -> Array:
    """All monomials up to `degree` of z (M, p): (M, q); q = 0 without a trend, 1 for a constant."""
    if degree is None:
        return np.empty((len(z), 0))
    powers = [c for k in range(degree + 1) for c in combinations_with_replacement(range(z.shape[1]), k)]
    return np.stack([np.prod(z[:, list(c)], axis=1) for c in powers], axis=1)


def largest_degree(z: Array, wanted: Trend) -> Trend:
    """The degree that the thetas z (T, p) can tell apart, at most `wanted`."""
    if wanted is None:
        return None
    for degree in range(wanted, 0, -1):
        H = basis(z, degree)
        if H.shape[1] < len(z) and np.linalg.matrix_rank(H) == H.shape[1]:
            return degree
    return 0
