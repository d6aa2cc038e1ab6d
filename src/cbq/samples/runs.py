"""Runs of f, with a row for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cbq.common import Array, Booleans, Integers, called, real
from cbq.measures import Measure
from cbq.measures.base import stack
from cbq.samples.conditional import Family, measures_at

Cost = Callable[[Array, Array], float]  # of a run at theta (p,) and x (d,)


@dataclass(frozen=True, eq=False)
class Runs:
    """The inputs of runs of f: theta (n, p) and x (n, d)."""

    theta: Array
    x: Array

    @classmethod
    def at(cls, theta: Array, family: Family, u: Array) -> Runs:
        """A run at each theta (n, p), at the point of its measure with uniform coordinates u (n, d)."""
        return cls(theta, _transported(measures_at(family, theta), u))

    def __len__(self) -> int:
        return len(self.x)

    def inputs(self, *, of_theta: bool) -> Array:
        """The inputs of f, (n, d), or (n, d + p) if it depends on theta."""
        return np.column_stack([self.x, self.theta]) if of_theta else self.x

    def take(self, rows: Integers | Booleans | slice) -> Runs:
        """The runs in these rows."""
        return Runs(self.theta[rows], self.x[rows])

    def __add__(self, other: Runs) -> Runs:
        """These runs and then the others."""
        return Runs(np.concatenate([self.theta, other.theta]), np.concatenate([self.x, other.x]))

    def inside(self, conditional: Callable[[Array], Sequence[Measure]]) -> Booleans:
        """Which of the runs (n,) lie in the support of the measure at their theta; none for measures without density.

        conditional: the measures at thetas (n, p).
        """
        measures = conditional(self.theta)
        together = stack(measures)
        try:
            if together is not None and together.batch_shape:
                return np.asarray(together.logpdf(self.x[:, None])[:, 0] > -np.inf)
            inside = [measure.logpdf(x[None])[0] > -np.inf for measure, x in zip(measures, self.x, strict=True)]
        except TypeError:
            return np.zeros(len(self), dtype=bool)
        return np.array(inside, dtype=bool)

    def costs(self, cost: Cost) -> Array:
        """The costs (n,) of the runs, by a function of the user."""
        pairs = zip(self.theta, self.x, strict=True)
        costs = real([called(cost, "cost", theta.copy(), x.copy()) for theta, x in pairs], "the value of cost")
        if costs.ndim != 1:
            raise ValueError(f"cost must return a number, but it returned shape {costs.shape[1:]}.")
        bad = ~((costs > 0) & np.isfinite(costs))
        if np.any(bad):
            i = int(np.argmax(bad))
            where = f"theta = {self.theta[i]}, x = {self.x[i]}"
            raise ValueError(f"cost must return positive numbers, but it returned {costs[i]} at {where}.")
        return costs


def _transported(measures: tuple[Measure, ...], u: Array) -> Array:
    """One point (n, d) of each of n measures, from uniform coordinates u (n, d)."""
    together = stack(measures)
    if together is not None and together.batch_shape:
        return np.asarray(together.transport(u[:, None]))[:, 0]
    return np.concatenate([measure.transport(row[None]) for measure, row in zip(measures, u, strict=True)])
