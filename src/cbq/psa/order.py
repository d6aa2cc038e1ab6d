"""The order that values of information are known to have: none is below 0, above EVPI, or above that of a superset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Array

LEAST = 1e-3  # the smallest standard error, of the largest: one of 0 would leave nothing to the others
ROUNDING = 1e-12  # of the largest value, or of EVPI: what is below is 0


def in_order(estimates: Array, errors: Array, sets: Sequence[frozenset[int]], evpi: float) -> Array:
    """The values (J,) nearest to the estimates (J,), in units of their standard errors (J,), that are in this order.

    With C x >= c the order, the minimum of |(x - e) / s|^2 is x = e + s^2 C'l with multipliers l >= 0 of the least
    |s C'l|^2 / 2 - l.(c - C e), which is a problem of non-negative least squares in a row more (Lawson and Hanson,
    chapter 23).
    """
    from scipy.optimize import nnls  # slow to import

    C, c = _constraints(sets, evpi)
    unit = max(float(np.max(np.abs(estimates))), evpi, np.finfo(float).tiny)
    largest = float(np.max(errors))
    s = np.maximum(errors / largest, LEAST) if largest > 0 else np.ones(len(errors))
    short = (c - C @ estimates) / unit
    if np.all(short <= 0):
        return np.where(estimates > ROUNDING * unit, estimates, 0.0)
    # least distance: u = (x - e) / s of least norm with (C s) u >= short
    system = np.vstack([(C * s).T, short])
    target = np.zeros(len(system))
    target[-1] = 1.0
    multipliers = nnls(system, target)[0]
    rest = system @ multipliers - target
    moved = estimates - unit * s * rest[:-1] / rest[-1]
    return np.asarray(np.where(moved > ROUNDING * unit, np.minimum(moved, evpi), 0.0))


def _constraints(sets: Sequence[frozenset[int]], evpi: float) -> tuple[Array, Array]:
    """C and c with C x >= c for values x (J,) of the sets."""
    J = len(sets)
    rows, bounds = [], []
    for j, each in enumerate(sets):
        rows += [np.eye(J)[j], -np.eye(J)[j]]
        bounds += [0.0, -evpi]
        for i, other in enumerate(sets):
            if i != j and other <= each:
                rows.append(np.eye(J)[j] - np.eye(J)[i])
                bounds.append(0.0)
    return np.array(rows), np.array(bounds)
