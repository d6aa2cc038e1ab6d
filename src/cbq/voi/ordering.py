"""The order of the EVPPI of several sets: none below 0, above EVPI, or above that of a superset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq.common.arrays import Array

MIN_RELATIVE_SE = 1e-3  # relative to the largest: a standard error of 0 would fix its estimate
ROUNDING = 1e-12  # relative to the largest value, or to EVPI: smaller values are rounded to 0


def monotone_estimates(estimates: Array, errors: Array, sets: Sequence[frozenset[int]], evpi: float) -> Array:
    """The nearest values (J,) to the estimates (J,) of EVPPI that respect its order.

    EVPPI is at least 0, at most EVPI, and at most that of a superset. Distances are in units of the standard errors
    (J,). With constraints C x >= c, the minimum of |(x - e) / s|^2 is x = e + s^2 C'l with multipliers l >= 0 that
    minimise |s C'l|^2 / 2 - l.(c - C e): non-negative least squares with one row more (Lawson and Hanson, chapter 23).
    """
    from scipy.optimize import nnls  # slow to import

    C, c = _order_constraints(sets, evpi)
    unit = max(float(np.max(np.abs(estimates))), evpi, np.finfo(float).tiny)
    largest = float(np.max(errors))
    s = np.maximum(errors / largest, MIN_RELATIVE_SE) if largest > 0 else np.ones(len(errors))
    violation = (c - C @ estimates) / unit
    if np.all(violation <= 0):
        return np.where(estimates > ROUNDING * unit, estimates, 0.0)
    # Least distance: u = (x - e) / s of least norm with (C s) u >= violation.
    system = np.vstack([(C * s).T, violation])
    target = np.zeros(len(system))
    target[-1] = 1.0
    multipliers = nnls(system, target)[0]
    rest = system @ multipliers - target
    moved = estimates - unit * s * rest[:-1] / rest[-1]
    return np.asarray(np.where(moved > ROUNDING * unit, np.minimum(moved, evpi), 0.0))


def _order_constraints(sets: Sequence[frozenset[int]], evpi: float) -> tuple[Array, Array]:
    """C and c with C x >= c for the EVPPI x (J,) of the sets."""
    unit = np.eye(len(sets))
    rows, bounds = [], []
    for j, each in enumerate(sets):
        subsets = [i for i, other in enumerate(sets) if i != j and other <= each]
        rows += [unit[j], -unit[j], *(unit[j] - unit[i] for i in subsets)]
        bounds += [0.0, -evpi, *(0.0 for _ in subsets)]
    return np.array(rows), np.array(bounds)


def increasing_estimates(estimates: Array, errors: Array, evpi: float) -> Array:
    """The nearest increasing values (J,) between 0 and EVPI to the estimates (J,), in units of their errors (J,)."""
    from scipy.optimize import isotonic_regression  # slow to import

    largest = float(np.max(errors))
    s = np.maximum(errors / largest, MIN_RELATIVE_SE) if largest > 0 else np.ones(len(errors))
    found = np.clip(isotonic_regression(estimates, weights=s**-2.0).x, 0.0, evpi)
    return np.asarray(np.where(found > ROUNDING * evpi, found, 0.0))
