"""Newton's method with a positive approximation of the Hessian, damped and within bounds.

A likelihood of few parameters that is costly to evaluate deserves its second derivatives: it takes half the evaluations
of a quasi-Newton method, and ends at the maximum rather than near it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cbq._arrays import Array, Booleans

Objective = Callable[[Array], tuple[float, Array, Array]]  # parameters (P,) to value, gradient (P,), information (P, P)

_STEPS = 100
_LEAST_DAMPING, _MOST_DAMPING, _FACTOR = 1e-3, 1e9, 4.0
_LEAST_CURVATURE = 0.1  # of parameters that are logarithms, and so of order one
_LONGEST = 3.0  # a step of any parameter: a variance on its way to zero has no slope to bring it back


def minimise(objective: Objective, start: Array, low: Array, high: Array, tolerance: float) -> tuple[Array, float]:
    """The minimum of an objective that is downhill from `start`, all (P,), and its value.

    It ends when a step promises to lower the objective by less than `tolerance`.
    """
    x = np.clip(start, low, high)
    value, gradient, information = objective(x)
    damping = _LEAST_DAMPING
    for _ in range(_STEPS):
        free = ~((x <= low) & (gradient > 0) | (x >= high) & (gradient < 0))
        step, damping = _step(gradient, information, free, damping)
        trial = np.clip(x + step, low, high)
        if not -float(gradient @ (trial - x)) >= tolerance or damping > _MOST_DAMPING:
            break
        new = objective(trial)
        if new[0] < value:
            x, (value, gradient, information) = trial, new
            damping = max(damping / _FACTOR, _LEAST_DAMPING)
        else:
            damping *= _FACTOR
    return x, value


def _step(gradient: Array, information: Array, free: Booleans, damping: float) -> tuple[Array, float]:
    """A step downhill (P,) of the free parameters, none of which moves too far, and the damping that this took."""
    step = np.zeros_like(gradient)
    matrix = information[np.ix_(free, free)]
    unit = np.diag(np.maximum(np.diagonal(matrix), _LEAST_CURVATURE))
    while np.any(free) and damping <= _MOST_DAMPING:
        step[free] = -np.linalg.solve(matrix + damping * unit, gradient[free])
        if np.max(np.abs(step)) <= _LONGEST:
            break
        damping *= _FACTOR
    return step, damping
