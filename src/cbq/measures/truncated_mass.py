"""Integrals of exp(-(t^2 - r^2) / 2) over intervals, with full relative accuracy anywhere on the line.

Here r <= 0 and, where r < 0, intervals end at or before r, so that the integrand never exceeds 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, ndtr, ndtri_exp

from cbq._arrays import Array

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def density(t: Array, r: Array) -> Array:
    """exp(-(t^2 - r^2) / 2), for finite or infinite t."""
    with np.errstate(over="ignore"):
        return np.exp(-0.5 * (t - r) * (t + r))


def mass(low: Array, high: Array, r: Array) -> Array:
    """Integral over [low, high]; nothing cancels, however short the interval or far its place."""
    low, high, r = np.broadcast_arrays(low, high, r)
    flip = high > -low  # the left tail is where small differences are visible
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    with np.errstate(invalid="ignore"):  # inf - inf, where the interval is the whole line
        width = np.where(np.isinf(low), np.inf, high - low)
    short = width * (1 + np.maximum(np.abs(low), np.abs(high))) < 1
    wide = left_mass(high, r) - left_mass(low, r)
    if not np.any(short):
        return wide
    start, step = np.where(short, low, 0.0), np.where(short, width, 0.0)
    t = start[..., None] + step[..., None] * (0.5 + 0.5 * NODES)
    return np.where(short, 0.5 * step * np.sum(WEIGHTS * density(t, r[..., None]), axis=-1), wide)


def left_mass(z: Array, r: Array) -> Array:
    """Integral over (-inf, z]."""
    t = np.minimum(z, 0.0)
    finite = np.where(np.isinf(t), -1e300, t)
    tail = np.sqrt(np.pi / 2) * erfcx(-finite / np.sqrt(2)) * density(finite, r)
    return np.where(np.isneginf(z), 0.0, np.where(z <= 0, tail, np.sqrt(2 * np.pi) * ndtr(z)))


def left_quantile(total: Array, r: Array) -> Array:
    """z with left_mass(z, r) = total, to a few units in the last place of the larger of z and 1."""
    with np.errstate(divide="ignore"):
        log_probability = np.log(total) - 0.5 * np.log(2 * np.pi) - 0.5 * r * r
    return np.asarray(ndtri_exp(np.minimum(log_probability, 0.0)))
