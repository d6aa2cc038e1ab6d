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

from cbq.common.arrays import Array, Booleans
from cbq.linalg.dense import solve

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
    """The minimum (P,) that is downhill from `start` (P,), and its value, by damped Newton steps.

    The search ends when a step promises to lower the objective by less than `tolerance`, or after so many `steps`, far
    more than searches take.

    damping: the least, and the largest, at which a step is too short to help; in units of the diagonal of the Hessian.
    change: the factor by which it rises where a step failed, and falls where one helped.
    curvature: the least diagonal of the Hessian that damping is in units of; parameters are of order 1.
    longest: of the steps of any parameter: a variance on its way to zero has no slope to bring it back.
    """
    low, high = np.array(bounds).T
    x = np.clip(start, low, high)
    value, derivatives = objective(x)
    gradient, information = derivatives()
    least, most = damping
    now = least
    for _ in range(steps):
        free = ~((x <= low) & (gradient > 0) | (x >= high) & (gradient < 0))
        unit = np.maximum(np.diagonal(information), curvature)
        step = _step(gradient, information, free, now * unit)
        while np.max(np.abs(step), initial=0.0) > longest and now <= most:
            now *= change
            step = _step(gradient, information, free, now * unit)
        trial = np.clip(x + step, low, high)
        if not -float(gradient @ (trial - x)) >= tolerance or now > most:
            break
        new, derivatives = objective(trial)
        if new < value:
            x, value, (gradient, information) = trial, new, derivatives()
            now = max(now / change, least)
        else:
            now *= change
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


def _step(gradient: Array, information: Array, free: Booleans, damping: Array) -> Array:
    """The Newton step (P,) of the free parameters, with `damping` (P,) added to the diagonal of the Hessian."""
    step = np.zeros_like(gradient)
    if np.any(free):
        step[free] = -solve(information[np.ix_(free, free)] + np.diag(damping[free]), gradient[free])
    return step
