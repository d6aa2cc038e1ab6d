"""Steps: where an output jumps along a column, which a smooth regression would smear.

Steps are proposed one after the other, each where it lowers the residual sum of squares of a pilot regression most. A
regression then has them as further coordinates, if its likelihood gains more than their places could by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq.common.arrays import Array, Integers

MAX_STEPS = 4  # of an output
MIN_GAIN = 3.0  # of the log-likelihood, beyond what the best of all places gains by chance
MIN_ROWS = 5.0  # that a step sets apart from what the pilot regression can represent
MAX_SHARE = 1.0 - 1e-12  # of the sum of squares that a step explains


@dataclass(frozen=True)
class Step:
    """The indicator of a column, by its position in a set, being above a threshold."""

    column: int
    threshold: float

    def __call__(self, columns: Array) -> Array:
        """Its values (n,), 0 or 1, at columns (n, p)."""
        return (columns[:, self.column] > self.threshold).astype(float)


def find_steps(basis: Array, columns: Array, y: Array) -> list[Step]:
    """Where y (n,) jumps along columns (n, p), given a pilot regression on an orthonormal basis (n, k)."""
    orders = [np.argsort(column, kind="stable") for column in columns.T]
    found: list[Step] = []
    residual = y - basis @ (basis.T @ y)
    while len(found) < MAX_STEPS:
        gains = [step_gains(basis, residual, *each) for each in zip(orders, columns.T, strict=True)]
        j = int(np.argmax([np.max(each) for each in gains]))
        i, total = int(np.argmax(gains[j])), float(residual @ residual)
        if not total > 0 or _likelihood_gain(gains[j][i] / total, len(y)) < step_cost(columns) + MIN_GAIN:
            break
        lower, upper = columns[orders[j][i : i + 2], j]
        found.append(Step(j, 0.5 * (lower + upper)))
        rest = found[-1](columns)
        rest -= basis @ (basis.T @ rest)
        rest /= np.sqrt(rest @ rest)
        basis, residual = np.column_stack([basis, rest]), residual - rest * (rest @ residual)
    return found


def step_cost(columns: Array) -> float:
    """The log-likelihood that a step may gain by chance, as the best of all places along columns (n, p)."""
    return float(np.log(columns.size))


def _likelihood_gain(share: float, n: int) -> float:
    """Of the log-likelihood of n values, by explaining a share of the sum of squares of their residuals."""
    return float(-0.5 * n * np.log1p(-min(share, MAX_SHARE)))


def step_gains(basis: Array, residual: Array, order: Integers, column: Array) -> Array:
    """By how much a step after each row, in the order of a column, lowers the sum of squares; 0 where none can be.

    For the indicator h of the rows up to it, this is (h'r)^2 / |h - Q Q'h|^2, since residuals r are orthogonal to the
    basis Q.
    """
    score = np.cumsum(residual[order])
    apart = np.arange(1, len(order) + 1) - np.sum(np.cumsum(basis[order], axis=0) ** 2, axis=1)
    possible = np.append(np.diff(column[order]) > 0, False) & (apart > MIN_ROWS)
    return np.asarray(np.where(possible, score**2 / np.maximum(apart, MIN_ROWS), 0.0))
