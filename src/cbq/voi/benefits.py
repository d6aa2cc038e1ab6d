"""Net benefits as linear functions of canonical outputs, and the expected maximum over decisions at each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from cbq.common.arrays import Array, Integers

MAX_REACH = 5.0  # standard deviations: a decision further behind adds less than 1e-7 of one to E max


@dataclass(frozen=True, eq=False)
class NetBenefits:
    """Net benefits offset + Z B for K values of the willingness to pay: offset (K, D), B (K, r, D)."""

    offset: Array
    B: Array

    @property
    def D(self) -> int:
        """The number of decisions."""
        return int(self.offset.shape[-1])

    @property
    def default(self) -> Integers:
        """The decisions (K,) with the largest mean net benefit, which are best without information."""
        return np.asarray(np.argmax(self.offset, axis=-1))


def expected_max(g: Array, B: Array, variance: Array, normals: Array | None) -> Array:
    """E max_d of g + Z B, (b,), for g (b, D), B (r, D) and independent Z of mean 0 and variances (b, r).

    For two decisions this is Clark's formula. For more, only the excess of the best decision over the one with the
    largest mean is estimated, from antithetic draws: those of standard normals (b, S, r) and their negatives.
    """
    if normals is None:
        difference = g[:, 1] - g[:, 0]
        return np.asarray(g[:, 0] + _expected_positive_part(difference, np.sqrt(variance @ (B[:, 1] - B[:, 0]) ** 2)))
    best = np.argmax(g, axis=-1)
    found = np.take_along_axis(g, best[:, None], axis=-1)[:, 0]
    for d in np.unique(best):
        rows = np.flatnonzero(best == d)
        difference = B - B[:, [d]]  # to the best
        behind, reach = found[rows, None] - g[rows], np.sqrt(variance[rows] @ difference**2)
        close = np.any(behind < MAX_REACH * reach, axis=-1)
        found[rows[close]] += _excess(behind[close], difference, variance[rows[close]], normals[rows[close]])
    return found


def _excess(behind: Array, B: Array, variance: Array, normals: Array) -> Array:
    """E max_d (Z B - behind)_d, (b,), for behind (b, D) and B (r, D) that are 0 at one decision; see `expected_max`."""
    half = normals * np.sqrt(variance)[:, None, :]
    upper, lower = np.zeros((2, *half.shape[:2]))
    for each, direction in zip(behind.T, B.T, strict=True):
        deviation = half @ direction
        np.maximum(upper, deviation - each[:, None], out=upper)
        np.maximum(lower, -deviation - each[:, None], out=lower)
    return np.asarray(0.5 * np.mean(upper + lower, axis=1))


def _expected_positive_part(m: Array, s: Array) -> Array:
    """E max(X, 0) for X ~ N(m, s^2): m Phi(m / s) + s phi(m / s)."""
    q = np.divide(m, s, out=np.where(m < 0, -np.inf, np.inf), where=s > 0)
    density = np.exp(-0.5 * np.minimum(q * q, 1e3)) / np.sqrt(2.0 * np.pi)
    return np.asarray(m * ndtr(q) + s * density)
