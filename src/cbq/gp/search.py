"""The search for hyperparameters, which are logarithms and so of order one: within bounds, from a start.

`newton` serves objectives that know a positive approximation of their Hessian: it takes half the evaluations of a
quasi-Newton method and ends at the minimum rather than near it. `quasi_newton` serves those that know their gradient,
`climb` a single parameter whose objective has no derivatives. Grids need no algorithm: `min` over candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.linalg.dense import solve

WithGradient = Callable[[Array], tuple[float, Array]]  # parameters (P,) to value and gradient (P,)
Derivatives = Callable[[], tuple[Array, Array]]  # the gradient (P,) and the approximate Hessian (P, P)
WithInformation = Callable[[Array], tuple[float, Derivatives]]  # parameters (P,) to value, and derivatives if asked
Bounds = Sequence[tuple[float, float]]

_MAX_STEPS = 100
_MIN_DAMPING, _MAX_DAMPING, _DAMPING_FACTOR = 1e-3, 1e9, 4.0
_MIN_CURVATURE = 0.1
_MAX_STEP = 3.0  # of any parameter: a variance on its way to zero has no slope to bring it back


def newton(objective: WithInformation, start: Array, bounds: Bounds, tolerance: float) -> tuple[Array, float]:
    """The minimum (P,) that is downhill from `start` (P,), and its value, by damped Newton steps.

    The search ends when a step promises to lower the objective by less than `tolerance`.
    """
    low, high = np.array(bounds).T
    x = np.clip(start, low, high)
    value, derivatives = objective(x)
    gradient, information = derivatives()
    damping = _MIN_DAMPING
    for _ in range(_MAX_STEPS):
        free = ~((x <= low) & (gradient > 0) | (x >= high) & (gradient < 0))
        step, damping = _step(gradient, information, free, damping)
        trial = np.clip(x + step, low, high)
        if not -float(gradient @ (trial - x)) >= tolerance or damping > _MAX_DAMPING:
            break
        new, derivatives = objective(trial)
        if new < value:
            x, value, (gradient, information) = trial, new, derivatives()
            damping = max(damping / _DAMPING_FACTOR, _MIN_DAMPING)
        else:
            damping *= _DAMPING_FACTOR
    return x, value


def quasi_newton(objective: WithGradient, start: Array, bounds: Bounds, **stopping: Any) -> tuple[Array, float]:
    """The minimum (P,) that is downhill from `start` (P,), and its value, by L-BFGS-B; `stopping` as SciPy takes it."""
    from scipy.optimize import minimize  # slow to import

    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, **stopping)
    return np.asarray(found.x), float(found.fun)


def climb(objective: Callable[[float], float], start: float, steps: Sequence[float], limit: float) -> float:
    """The argument of the maximum that is uphill from `start`, by steps of decreasing length, within +- limit."""
    value = cache(objective)  # steps lead back to points that have been tried
    at, best = start, value(start)
    for step in steps:
        for move in (step, -step):
            while abs(at + move) <= limit and (trial := value(at + move)) > best:
                at, best = at + move, trial
    return at


def _step(gradient: Array, information: Array, free: Booleans, damping: float) -> tuple[Array, float]:
    """A step downhill (P,) of the free parameters, none of which moves too far, and the damping that this took."""
    step = np.zeros_like(gradient)
    matrix = information[np.ix_(free, free)]
    unit = np.diag(np.maximum(np.diagonal(matrix), _MIN_CURVATURE))
    while np.any(free) and damping <= _MAX_DAMPING:
        step[free] = -solve(matrix + damping * unit, gradient[free])
        if np.max(np.abs(step)) <= _MAX_STEP:
            break
        damping *= _DAMPING_FACTOR
    return step, damping
