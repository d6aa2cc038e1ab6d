"""At which thetas an answer is reported."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.fit.base import Fit
from cbq.problem import Problem
from cbq.samples.conditional import measures_at

LINE, PLANE, DRAWS = 61, 41, 100  # thetas of a grid for p = 1, along each side for p = 2, and of the prior
SEED = 20240617  # of those thetas of the prior
TAIL = 0.01  # probability beyond either end, where the prior does not end


def reported(problem: Problem, fit: Fit, *, own: bool) -> Array:
    """Thetas (M, p) for a table: an even grid for p = 1, else some of the prior.

    own: whether the thetas were a user's own, so that for p = 1 the grid keeps to their range.
    """
    if fit.p > 1:
        return problem.prior.sample(DRAWS, SEED)
    low, high = (fit.theta.min(), fit.theta.max()) if own else _ends(problem, fit)
    return np.linspace(low, high, LINE if low < high else 1)[:, None]


def observed(fit: Fit) -> Array:
    """The observed thetas in order, (T, p): where every fit has an answer."""
    return fit.theta[np.lexsort(fit.theta.T[::-1])]


def drawn(fit: Fit, line: Array) -> Array:
    """Thetas (M, p) for a figure: those of a table and the observed ones among them for p = 1, a grid for p = 2."""
    if fit.p == 1:
        inside = (fit.theta >= line.min()) & (fit.theta <= line.max())
        return np.union1d(line, fit.theta[inside])[:, None]  # a rough I has its corners at observed thetas
    low, high = np.min(fit.theta, axis=0), np.max(fit.theta, axis=0)
    sides = [np.linspace(a, b, PLANE) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)


def _ends(problem: Problem, fit: Fit) -> list[float]:
    """Where a grid of thetas begins and ends, for p = 1: with the prior, if it does and x has a measure there."""
    try:
        inner = problem.prior.transport([[TAIL], [1 - TAIL]]).ravel()
    except (NotImplementedError, TypeError, ValueError):
        return [float(fit.theta.min()), float(fit.theta.max())]
    outer = np.ravel(problem.prior.support)
    return [float(b if _has_measure(problem, b) else a) for a, b in zip(inner, outer, strict=True)]


def _has_measure(problem: Problem, theta: float) -> bool:
    """Whether x has a measure at a theta."""
    if not np.isfinite(theta):
        return False
    try:
        with np.errstate(all="ignore"):
            measures_at(problem.family, np.array([[theta]]))
    except ValueError:
        return False
    return True
