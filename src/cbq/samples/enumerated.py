"""Thetas whose measure is discrete and at whose atoms f is known: the integral is a sum, and nothing is estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.measures import Empirical

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

NEGLIGIBLE = 1e-14  # the mass of atoms at which f need not be known


@dataclass(frozen=True, eq=False)
class Enumerated:
    """Which thetas (T,) have all atoms among their points, and the weights (n,) of all points, zero elsewhere."""

    thetas: Booleans
    weights: Array

    @classmethod
    def of(cls, samples: Samples) -> Enumerated:
        """The thetas of samples without equal points that have all their atoms."""
        weights, thetas = np.zeros(samples.n_evaluations), np.zeros(samples.T, dtype=bool)
        if samples.stochastic or samples.log_weights is not None:
            return cls(thetas, weights)
        for t, measure in enumerate(samples.measures):
            if isinstance(measure, Empirical):
                found = _atom_weights(measure, samples.points(t))
                thetas[t] = np.sum(found) >= 1 - NEGLIGIBLE
                if thetas[t]:
                    weights[samples.starts[t] : samples.starts[t] + samples.counts[t]] = found / np.sum(found)
        return cls(thetas, weights)

    def sums(self, samples: Samples) -> Array:
        """The integrals (T, C), zero for other thetas."""
        return np.asarray(np.add.reduceat(self.weights[:, None] * samples.table, samples.starts, axis=0))


def without_listed(samples: Samples) -> Samples | None:
    """The samples without thetas whose atoms are all listed, each as often as the others; None if none is left."""
    measures = samples._measure if isinstance(samples._measure, tuple) else (samples._measure,)
    if not any(isinstance(measure, Empirical) for measure in measures):
        return samples
    merged, group = samples._replaced(stochastic=False).merged()
    times = np.bincount(group)
    same = np.maximum.reduceat(times, merged.starts) == np.minimum.reduceat(times, merged.starts)
    listed = Enumerated.of(merged).thetas & same
    return None if np.all(listed) else samples.select(~listed) if np.any(listed) else samples


def _atom_weights(measure: Empirical, x: Array) -> Array:
    """The probabilities (N,) of points x (N, d), no two of which are equal."""
    used = measure.weights > 0
    atoms, weights = measure.points[used], measure.weights[used]
    distinct, which = np.unique(np.concatenate([x, atoms]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    mass = np.bincount(which[len(x) :], weights, minlength=len(distinct))
    return np.asarray(mass[which[: len(x)]])
