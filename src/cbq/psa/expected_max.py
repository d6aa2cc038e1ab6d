"""E max of Gaussian variables."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from cbq._arrays import Array

DRAWS = 32  # of each row


def expected_max(g: Array, B: Array, variance: Array, rng: np.random.Generator) -> Array:
    """E max_d of g + Z . B, with g (b, D), B (r, D) and independent Z of mean 0 and variances (b, r): (b,).

    For two decisions by Clark's formula; for more by antithetic draws of how much the best exceeds the one that is best
    by the means, which is all that has no closed form. The draws of different rows are independent.
    """
    if g.shape[-1] == 2:
        difference = g[:, 1] - g[:, 0]
        return np.asarray(g[:, 0] + positive_part(difference, np.sqrt(variance @ (B[:, 1] - B[:, 0]) ** 2)))
    best = np.argmax(g, axis=-1)[:, None, None]
    half = rng.standard_normal((len(g), DRAWS // 2, len(B))) * np.sqrt(variance)[:, None, :] @ B
    excess = np.zeros(len(g))
    for apart in (half, -half):
        each = g[:, None, :] + apart
        excess += np.sum(np.max(each, axis=-1) - np.take_along_axis(each, best, axis=-1)[..., 0], axis=-1)
    return np.asarray(np.max(g, axis=-1) + excess / DRAWS)


def positive_part(m: Array, s: Array) -> Array:
    """E max(X, 0) for X ~ N(m, s^2): m Phi(m / s) + s phi(m / s)."""
    q = np.divide(m, s, out=np.where(m < 0, -np.inf, np.inf), where=s > 0)
    density = np.exp(-0.5 * np.minimum(q * q, 1e3)) / np.sqrt(2.0 * np.pi)
    return np.asarray(m * ndtr(q) + s * density)
