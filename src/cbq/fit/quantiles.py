"""Quantiles of equal mixtures of Student-t distributions, many at a time.

The p-quantile of a mixture with the distribution function F = 1/J sum_j F_j lies between those of its components. It
solves log F = log p, by Halley's method: in a lower tail log F is nearly straight, and two or three steps are enough. A
step that leaves the bracket, or that does not halve |log F - log p|, is replaced by a bisection.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, stdtr, stdtrit

from cbq._arrays import Array

TOLERANCE = 1e-12  # of a quantile, in units of the smallest scale
LAST_STEP = 1e-6  # in the same units: convergence is cubic, and what such a step leaves is less than the tolerance
ROUNDING = 4e-15  # of log F
MAX_STEPS = 100
MAX_STANDARDISED = 1e100  # its square is finite, and its density zero
MAX_DF = 1e15  # beyond, densities are Gaussian to the last digit


def mixture_quantile(locations: Array, scales: Array, df: float | Array, probability: float) -> Array:
    """The quantiles (M,) of M mixtures of J components: locations and scales (J, M), degrees of freedom () or (M,)."""
    if probability > 0.5:  # 1 - probability is exact, and a lower tail keeps its digits
        return -mixture_quantile(-locations, scales, df, 1.0 - probability)
    if len(locations) == 1:
        return np.asarray(locations[0] + scales[0] * stdtrit(df, probability))
    with np.errstate(all="ignore"):  # a step that is not a number is replaced
        return _lower_quantile(locations, scales, df, probability)


def _lower_quantile(locations: Array, scales: Array, df: float | Array, probability: float) -> Array:
    """The quantiles for a probability of at most 1/2."""
    each = locations + scales * stdtrit(df, probability)
    low, high = np.min(each, axis=0), np.max(each, axis=0)
    scales = np.maximum(scales, np.finfo(float).tiny)  # a component without spread is a jump, found by bisections
    enough = locations + scales * stdtrit(df, min(len(each) * probability, 1.0))  # F >= F_j / J = p there
    high = np.minimum(high, np.min(enough, axis=0))
    unit = np.min(scales, axis=0)
    rates = unit / scales
    found = np.clip(low + np.mean(rates * (each - low), axis=0) / np.mean(rates, axis=0), low, high)
    last = np.full(found.shape, np.inf)  # |log F - log p| before the last step
    todo = np.flatnonzero(low < high)  # where all components have the same quantile, it is that of the mixture
    for _ in range(MAX_STEPS):
        if not len(todo):
            break
        x, a, b, u = found[todo], low[todo], high[todo], unit[todo]
        nu = df[todo] if isinstance(df, np.ndarray) else df
        F, F1, F2 = _with_derivatives((x - locations[:, todo]) / scales[:, todo], rates[:, todo], nu)
        g, slope = np.log(F / probability), F1 / F
        step = -2.0 * g * slope / (2.0 * slope**2 - g * (F2 / F - slope**2))
        new, size = x + u * step, np.abs(g / slope)
        a, b = np.where(g < 0, x, a), np.where(g < 0, b, x)
        taken = (a < new) & (new < b) & (np.abs(g) <= 0.5 * last[todo])
        error = np.maximum(TOLERANCE * u, 4 * np.finfo(float).eps * np.abs(x))
        exact = (np.abs(g) <= ROUNDING) | (u * size <= error)
        found[todo] = np.where(taken, new, np.where(exact, x, 0.5 * (a + b)))
        low[todo], high[todo], last[todo] = a, b, np.abs(g)
        todo = todo[~(exact | (b - a <= error) | (taken & (size <= LAST_STEP)))]
    return np.asarray(found)


def _with_derivatives(z: Array, rates: Array, df: float | Array) -> tuple[Array, Array, Array]:
    """F, F' and F'' (M,) at standardised values z (J, M); rates: (J, M), the derivatives of z."""
    z, nu = np.clip(z, -MAX_STANDARDISED, MAX_STANDARDISED), np.minimum(df, MAX_DF)
    at_zero = -betaln(0.5 * nu, 0.5) - 0.5 * np.log(nu)
    density = rates * np.exp(at_zero - 0.5 * (nu + 1.0) * np.log1p(z * z / nu))
    bent = rates * density * (nu + 1.0) * z / (nu + z * z)
    return np.mean(stdtr(df, z), axis=0), np.mean(density, axis=0), -np.mean(bent, axis=0)
