"""Minimisers for hyperparameters, which are logarithms and so of order one: within bounds, from a start.

`newton` is for objectives with a positive approximation of the Hessian. It takes half the evaluations of a quasi-Newton
method and ends at the minimum rather than near it. `quasi_newton` is for objectives with a gradient, `descend` for a
single parameter without derivatives. Grids need no algorithm: `min` over candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cbq.common import Array, Booleans
from cbq.linalg.lapack import solve

WithGradient = Callable[[Array], tuple[float, Array]]  # parameters (P,) to value and gradient (P,)
Derivatives = Callable[[], tuple[Array, Array]]  # the gradient (P,) and the approximate Hessian (P, P)
WithInformation = Callable[[Array], tuple[float, Derivatives]]  # parameters (P,) to value, and derivatives if asked
Bounds = Sequence[tuple[float, float]]


def newton(
    objective: WithInformation,
    start: Array,
    bounds: Bounds,
    tolerance: float,
    *,
    steps: int = 100,
    damping: tuple[float, float] = (1e-3, 1e9),
    change: float = 4.0,
    curvature: float = 0.1,
    longest: float = 3.0,
) -> tuple[Array, float]:
    """The minimum (P,) downhill from `start` (P,), and its value, by damped Newton steps.

    The search ends when the expected decrease of a step is below `tolerance`, or after `steps` steps, far more than any
    search takes.

    damping: its least and its largest value, in units of the diagonal of the Hessian; beyond the largest, steps are too
        short to help.
    change: the factor by which the damping rises after a failed step, and falls after a successful one.
    curvature: the floor of the diagonal in these units, since parameters are of order 1.
    longest: the longest step of any parameter: once a variance is near zero, the slope is too flat to bring it back.
    """
    low, high = np.array(bounds).T
    x = np.clip(start, low, high)
    value, derivatives = objective(x)
    gradient, information = derivatives()
    least, greatest = damping
    damp = least
    for _ in range(steps):
        free = ~((x <= low) & (gradient > 0) | (x >= high) & (gradient < 0))
        unit = np.maximum(np.diagonal(information), curvature)
        step = _step(gradient, information, free, damp * unit)
        while np.max(np.abs(step), initial=0.0) > longest and damp <= greatest:
            damp *= change
            step = _step(gradient, information, free, damp * unit)
        trial = np.clip(x + step, low, high)
        if not -float(gradient @ (trial - x)) >= tolerance or damp > greatest:
            break
        new, derivatives = objective(trial)
        if new < value:
            x, value, (gradient, information) = trial, new, derivatives()
            damp = max(damp / change, least)
        else:
            damp *= change
    return x, value


def quasi_newton(objective: WithGradient, start: Array, bounds: Bounds, **stopping: Any) -> tuple[Array, float]:
    """The minimum (P,) downhill from `start` (P,), and its value, by L-BFGS-B; `stopping` is passed to SciPy."""
    from scipy.optimize import minimize  # slow to import

    result = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, **stopping)
    return np.asarray(result.x), float(result.fun)


def descend(objective: Callable[[float], float], start: float, step: float, *, least: float = 0.01) -> float:
    """The argument of a minimum of a positive objective downhill from `start`, by equal steps.

    least: the share of the value by which a step must lower it. A rough kernel whose lengthscale grows tends to a
    limit, and the search would go on for twenty steps that change nothing.
    """
    at, best = start, objective(start)
    for move in (step, -step):
        while (trial := objective(at + move)) < (1.0 - least) * best:
            at, best = at + move, trial
        if at != start:  # a step back leads to a value that is known to be larger
            break
    return at


def _step(gradient: Array, information: Array, free: Booleans, damping: Array) -> Array:
    """The Newton step (P,) of the free parameters, with `damping` (P,) added to the diagonal of the Hessian."""
    step = np.zeros_like(gradient)
    if np.any(free):
        step[free] = -solve(information[np.ix_(free, free)] + np.diag(damping[free]), gradient[free])
    return step
