"""Newton's method with a positive approximation of the Hessian, damped and within bounds.

A likelihood of few parameters that is costly to evaluate deserves its second derivatives: it takes half the evaluations
of a quasi-Newton method, and ends at the maximum rather than near it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cbq._arrays import Array

Objective = Callable[[Array], tuple[float, Array, Array]]  # parameters (P,) to value, gradient (P,), information (P, P)

_STEPS = 100
_LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e9
_FACTOR = 5.0
_LONGEST = 3.0  # a step of any parameter: a variance on its way to zero has no slope to bring it back


def minimise(objective: Objective, start: Array, low: Array, high: Array, tolerance: float) -> tuple[Array, float]:
    """The minimum of an objective that is downhill from `start`, all (P,), and its value.

    It ends when a step promises to lower the objective by less than `tolerance`.
    """
    x = np.clip(start, low, high)
    value, gradient, information = objective(x)
    damping = 1e-3
    for _ in range(_STEPS):
        free = ~((x <= low) & (gradient > 0) | (x >= high) & (gradient < 0))
        if not np.any(free):
            break
        step = np.zeros_like(x)
        matrix, slope = information[np.ix_(free, free)], gradient[free]
        scale = np.maximum(np.diagonal(matrix), np.finfo(float).tiny)
        step[free] = -np.linalg.solve(matrix + damping * np.diag(scale), slope)
        trial = np.clip(x + np.clip(step, -_LONGEST, _LONGEST), low, high)
        promised = -float(gradient @ (trial - x))
        if promised < tolerance:
            break
        new = objective(trial)
        if new[0] < value:
            x, (value, gradient, information) = trial, new
            damping = max(damping / _FACTOR, _LEAST_DAMPING)
        else:
            damping *= _FACTOR
            if damping > _MOST_DAMPING:
                break
    return x, value
