"""The points of all thetas together, with what belongs to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq._arrays import Array, Integers, evenly
from cbq.samples import Samples
from cbq.samples.arrays import equal_rows, group_averages, units
from cbq.samples.samples import spread

LEAST_SPREAD = 0.05  # of f at a theta, in units of that over all: where f is nearly constant, errors are small anyway


@dataclass(frozen=True, eq=False)
class PooledPoints:
    """n points. u: (n, d), x alone, or (n, d + p), x and its theta where f depends on both. f: (n, C), in units near 1.

    spread: (n, C), the standard deviation of f at the theta of each point, or the least that counts.
    shift, scale: (C,), f was shift + scale f.
    """

    u: Array
    f: Array
    spread: Array
    shift: Array
    scale: Array

    @property
    def n(self) -> int:
        """The number of points."""
        return len(self.u)

    def take(self, rows: Integers | slice) -> PooledPoints:
        """Some of the points."""
        return replace(self, u=self.u[rows], f=self.f[rows], spread=self.spread[rows])

    def outputs(self, which: Sequence[int]) -> PooledPoints:
        """Some of the outputs."""
        columns = list(which)
        return PooledPoints(
            self.u, self.f[:, columns], self.spread[:, columns], self.shift[columns], self.scale[columns]
        )

    def thinned(self, n: int) -> PooledPoints:
        """At most n points, evenly spaced in the order of the thetas."""
        return self if self.n <= n else self.take(evenly(self.n, n))


def pooled_points(samples: Samples) -> tuple[PooledPoints, list[str]]:
    """The points of all thetas, equal ones once with the average of their values, and what a user should know."""
    shift, scale = units(samples.table)
    scaled = samples.rescaled(shift, scale)
    f, deviation = scaled.table, np.maximum(spread(scaled), LEAST_SPREAD)[samples.owners]
    theta = samples.theta[samples.owners]
    u = np.column_stack([samples.all_points, theta]) if samples.depends_on_theta else samples.all_points
    rows, group = equal_rows(u)
    if len(rows) == len(u):
        return PooledPoints(u, f, deviation, shift, scale), []
    averages = group_averages(f, group)
    merged = PooledPoints(u[rows], averages, deviation[rows], shift, scale)
    return merged, _noise(samples, float(np.max(np.abs(f - averages[group]))))


def _noise(samples: Samples, apart: float) -> list[str]:
    """A warning where equal points have values of f that differ."""
    if apart <= 1e-9:
        return []
    elsewhere = ", or depends on theta after all" * (not samples.depends_on_theta)
    return [
        "f has different values at equal points, which are averaged: it is taken as a function without noise. If it is "
        f"a random simulation{elsewhere}, make what it depends on part of x, or say depends_on_theta=True."
    ]
