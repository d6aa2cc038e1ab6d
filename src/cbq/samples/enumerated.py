"""Thetas with a discrete measure and f known at all its atoms: the integral is an exact sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cbq.common import Array, Booleans
from cbq.measures import Empirical

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

NEGLIGIBLE = 1e-14  # the mass of atoms at which f need not be known


@dataclass(frozen=True, eq=False)
class Enumerated:
    """Which thetas (T,) have all their atoms among their points, and the weights (n,) of points; zero elsewhere."""

    thetas: Booleans
    weights: Array

    @classmethod
    def of(cls, samples: Samples) -> Enumerated:
        """The enumerated thetas of samples, in which no points of a theta are equal."""
        weights, thetas = np.zeros(samples.n_evaluations), np.zeros(samples.T, dtype=bool)
        if samples.stochastic or samples.log_weights is not None:
            return cls(thetas, weights)
        for t, measure in enumerate(samples.measures):
            if isinstance(measure, Empirical):
                masses = _atom_weights(measure, samples.points(t))
                thetas[t] = np.sum(masses) >= 1 - NEGLIGIBLE
                if thetas[t]:
                    weights[samples.starts[t] : samples.starts[t] + samples.counts[t]] = masses / np.sum(masses)
        return cls(thetas, weights)

    def sums(self, samples: Samples) -> Array:
        """The integrals (T, C), zero for other thetas."""
        return np.asarray(np.add.reduceat(self.weights[:, None] * samples.table, samples.starts, axis=0))


def without_listed(samples: Samples) -> Samples | None:
    """The samples without thetas that list all their atoms, each equally often; None if no theta is left."""
    measures = samples._measure if isinstance(samples._measure, tuple) else (samples._measure,)
    if not any(isinstance(measure, Empirical) for measure in measures):
        return samples
    merged, group = samples._replaced(stochastic=False).merged()
    times = np.bincount(group)
    same = np.maximum.reduceat(times, merged.starts) == np.minimum.reduceat(times, merged.starts)
    listed = Enumerated.of(merged).thetas & same
    return None if np.all(listed) else samples.select(~listed) if np.any(listed) else samples


def _atom_weights(measure: Empirical, x: Array) -> Array:
    """The probabilities (N,) of distinct points x (N, d)."""
    used = measure.weights > 0
    atoms, weights = measure.points[used], measure.weights[used]
    distinct, which = np.unique(np.concatenate([x, atoms]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    mass = np.bincount(which[len(x) :], weights, minlength=len(distinct))
    return np.asarray(mass[which[: len(x)]])
